#include "weft/comm/c10d/nccl_group.h"

#include <ATen/ops/zeros.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <stdlib.h>

#include <algorithm>
#include <future>
#include <thread>

#include "weft/base/text.h"
#include "weft/comm/c10d/c10d_store_impl.h"
#include "weft/comm/c10d/flights.h"
#include "weft/comm/c10d/gloo_group.h"
#include "weft/comm/c10d/nccl_calls_impl.h"
#include "weft/comm/c10d/no_sigpipe_impl.h"
#include "weft/comm/call_traits.h"

namespace weft::comm {
namespace {

// c10d's own watchdog ends the whole process when a call is late; ours ends the call and names the peer.
void quiet_c10d() {
  for (const char* name :
       {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "TORCH_NCCL_ENABLE_MONITORING", "TORCH_NCCL_DUMP_ON_TIMEOUT"})
    ::setenv(name, "0", 0);
}

class NcclFlight final : public Flight {
 public:
  explicit NcclFlight(WorkPtr work) : work_(std::move(work)) {}
  bool completed() override { return work_->isCompleted(); }
  void order_current_stream() override { work_->wait(); }

 private:
  WorkPtr work_;
};

c10::Stream current_stream(c10::Device device) { return c10::impl::VirtualGuardImpl(at::kCUDA).getStream(device); }

// For calls that need no NCCL: what the current stream has been given so far, a copy of our own part for one.
class StreamFlight final : public Flight {
 public:
  explicit StreamFlight(c10::Device device) : device_(device), event_(at::kCUDA) {
    event_.record(current_stream(device_));
  }
  bool completed() override { return event_.query(); }
  void order_current_stream() override { event_.block(current_stream(device_)); }

 private:
  const c10::Device device_;
  c10::Event event_;
};

[[noreturn]] void refuse_nccl_call(const Collective& call, const std::string& why, const std::string& fix) {
  throw Error(ErrorKind::kBug, {.title = why, .where = describe(call), .fix = fix});
}

// NCCL waits for its peers without a limit: a thread that may be left behind does it.
struct Connecting {
  std::promise<NcclPtr> promise;
  std::future<NcclPtr> outcome = promise.get_future();

  void run(const c10::intrusive_ptr<c10d::Store>& store,
           const c10::intrusive_ptr<c10d::ProcessGroupNCCL::Options>& options, const GroupIdentity& self,
           c10::Device device) {
    try {
      const NoSigpipe quiet;
      const c10::DeviceGuard guard(device);
      auto nccl = c10::make_intrusive<c10d::ProcessGroupNCCL>(store, self.rank, self.world, options);
      nccl->eagerConnectSingleDevice(device);
      promise.set_value(std::move(nccl));
    } catch (...) {
      promise.set_exception(std::current_exception());
    }
  }
};

class NcclGroup final : public Group {
 public:
  NcclGroup(const GroupIdentity& self, Store store, int device, Deadline deadline)
      : Group(self.name, self.rank, self.world, self.deadline_s),
        self_(self),
        store_(std::move(store)),
        device_(at::kCUDA, static_cast<c10::DeviceIndex>(device)) {
    const c10::DeviceGuard guard(device_);
    roll_call_ = std::make_unique<RollCall>(self_, store_, deadline);
    connect(deadline);
    flights_ = std::make_unique<Flights>(*roll_call_, self_.deadline_s, [this] { nccl_->abort(); });
    calls_ = std::make_unique<NcclCalls>(nccl_, device_);
  }

  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;
  ~NcclGroup() override {
    flights_.reset();
    const bool ended = roll_call_->has_ended();
    roll_call_.reset();
    if (!ended) disconnect();
  }

  std::string_view transport() const override { return "nccl"; }

  at::Tensor allocate(int64_t count, at::ScalarType type) override {
    return at::zeros({count}, at::TensorOptions().device(device_).dtype(type));
  }

  std::shared_ptr<Group> split(const std::vector<int>& ranks, const std::string& name) override {
    return make_nccl_group(part_of(*this, ranks, name), store_, device_.index(), Deadline::after(deadline_s()));
  }
  std::shared_ptr<Group> split_on_host(const std::vector<int>& ranks, const std::string& name) override {
    return make_gloo_group(part_of(*this, ranks, name), store_, Deadline::after(deadline_s()));
  }

 private:
  void disconnect() noexcept {
    try {
      nccl_->setTimeout(std::chrono::milliseconds(static_cast<int64_t>(std::min(deadline_s(), 60.0) * 1000)));
      nccl_->shutdown();
    } catch (const std::exception&) {  // a peer went in the same moment; nothing of ours is lost
      nccl_->abort();
    }
  }

  void connect(Deadline deadline) {
    quiet_c10d();
    const auto check = [this] {
      if (roll_call_->has_ended()) roll_call_->throw_cause();
    };
    // The thread may outlive us, so its waits look at the deadline alone.
    const auto rendezvous =
        c10::make_intrusive<StoreForC10d>(store_.with_prefix(cat(self_.name, "/nccl")), deadline, [] {});
    auto options = c10d::ProcessGroupNCCL::Options::create();
    options->timeout = std::chrono::hours(24);  // ours come first
    const auto connecting = std::make_shared<Connecting>();
    std::thread([connecting, rendezvous, options, self = self_, device = device_] {
      connecting->run(rendezvous, options, self, device);
    }).detach();
    while (connecting->outcome.wait_for(std::chrono::milliseconds(5)) != std::future_status::ready) {
      check();
      if (deadline.expired()) roll_call_->throw_cause({.timed_out = true, .text = "NCCL did not connect in time"});
    }
    try {
      nccl_ = connecting->outcome.get();
    } catch (const Error&) {
      throw;
    } catch (const std::exception& error) {
      const std::string text = error.what();
      roll_call_->throw_cause({.text = text.substr(0, text.find('\n'))});
    }
  }

  Work launch(const Collective& call, Launch how) override {
    check(call);
    const c10::DeviceGuard guard(device_);
    const bool is_message = is_point_to_point(call.operation);
    Doing doing = {.operation = call.operation, .sequence = sequence(), .peer = is_message ? call.peer : -1};
    if (!is_message) doing.call = describe(call);
    roll_call_->begin(doing);
    Work work = flights_->add(fly(call), doing);
    while (how == Launch::kBlocking && !work.done()) std::this_thread::yield();
    return work;
  }

  std::unique_ptr<Flight> fly(const Collective& call) {
    const WorkPtr work = calls_->start(call);
    if (!work) return std::make_unique<StreamFlight>(device_);
    return std::make_unique<NcclFlight>(work);
  }

  void check(const Collective& call) const {
    for (const at::Tensor& tensor : {call.input, call.output})
      if (tensor.defined() && tensor.device() != device_)
        refuse_nccl_call(call,
                         cat("this tensor is on ", tensor.device().str(), ", the nccl group is on ", device_.str()),
                         "move the tensor to the group's device, or use a gloo group for host tensors");
    if (uses_reduce_op(call.operation) && call.dtype() == at::kShort)
      refuse_nccl_call(call, "nccl does not add 16-bit whole numbers", "convert the tensor to int32 or float");
    if (is_point_to_point(call.operation) && call.tag != 0)
      refuse_nccl_call(call, cat("nccl has no tags, and ", call.tag, " was given"),
                       "send and receive in one order, without tags, or use a gloo group");
  }

  const GroupIdentity self_;
  const Store store_;
  const c10::Device device_;
  std::unique_ptr<RollCall> roll_call_;
  NcclPtr nccl_;
  std::unique_ptr<Flights> flights_;
  std::unique_ptr<NcclCalls> calls_;
};

}  // namespace

bool has_nccl() { return true; }

std::shared_ptr<Group> make_nccl_group(const GroupIdentity& self, const Store& store, int device,
                                       Deadline join_deadline) {
  return std::make_shared<NcclGroup>(self, store, device, join_deadline);
}

}  // namespace weft::comm
