#include "weft/comm/c10d/gloo_wire.h"

#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <set>
#include <sstream>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "weft/base/text.h"
#include "weft/comm/c10d/batch_threads_impl.h"
#include "weft/comm/c10d/c10d_store_impl.h"
#include "weft/comm/c10d/no_sigpipe_impl.h"

namespace weft::comm {
namespace {

using std::chrono::milliseconds;
using WorkPtr = c10::intrusive_ptr<c10d::Work>;

milliseconds timeout_until(Deadline deadline) {
  return std::clamp(std::chrono::duration_cast<milliseconds>(deadline.remaining()), milliseconds(1),
                    milliseconds(std::chrono::hours(24)));
}

// Gloo's texts carry source lines in front and a stack behind.
std::string gist_of(const std::exception& error) {
  std::string text = error.what();
  text = text.substr(0, text.find('\n'));
  const size_t bracket = text.starts_with('[') ? text.find("] ") : std::string::npos;
  return bracket == std::string::npos ? text : text.substr(bracket + 2);
}

using Devices = std::vector<std::shared_ptr<gloo::transport::Device>>;

Devices devices_named(const std::string& interfaces) {
  Devices devices;
  std::istringstream names(interfaces);
  for (std::string name; std::getline(names, name, ',');) {
    try {
      devices.push_back(c10d::ProcessGroupGloo::createDeviceForInterface(name));
    } catch (const std::exception& error) {
      throw Error(ErrorKind::kInput, {.title = cat("Gloo cannot listen on the interface '", name, "'"),
                                      .what = gist_of(error),
                                      .where = "GLOO_SOCKET_IFNAME",
                                      .fix = "name an interface that is up and has an address: ip -brief address"});
    }
  }
  return devices;
}

Devices devices_for(const Store& store) {
  const char* interfaces = std::getenv("GLOO_SOCKET_IFNAME");
  if (interfaces != nullptr && *interfaces != '\0') return devices_named(interfaces);
  // Each device has a thread and connections of its own: two of them copy twice as fast where there are cores for it.
  Devices lanes;
  while (lanes.size() < 2) lanes.push_back(c10d::ProcessGroupGloo::createDeviceForHostname(store.own_address()));
  return lanes;
}

at::Tensor tensor_over(std::span<const std::byte> bytes) {
  // c10d asks for tensors even where it reads only; Gloo does not write to what it sends.
  return at::from_blob(const_cast<std::byte*>(bytes.data()), {static_cast<int64_t>(bytes.size())}, at::kByte);
}

class GlooWire final : public Wire {
 public:
  GlooWire(const GroupIdentity& self, const Store& store, RollCall& roll_call, Deadline deadline)
      : Wire(self.rank, self.world), roll_call_(roll_call) {
    // Gloo's threads begin here, and inherit both.
    const NoSigpipe quiet;
    const BatchThreads patient;
    auto options = c10d::ProcessGroupGloo::Options::create(timeout_until(deadline));
    options->devices = devices_for(store);
    options->threads = 1;  // they run c10d's collectives, which we do not use
    const auto check = [&] {
      if (roll_call.has_ended()) roll_call.throw_cause();
    };
    const auto rendezvous =
        c10::make_intrusive<StoreForC10d>(store.with_prefix(cat(self.name, "/gloo")), deadline, check);
    try {
      group_ = c10::make_intrusive<c10d::ProcessGroupGloo>(rendezvous, self.rank, self.world, options);
    } catch (const Error&) {
      throw;
    } catch (const std::exception& error) {
      roll_call.throw_cause({.timed_out = deadline.expired(), .text = gist_of(error)});
    }
    roll_call.on_end([this] { abort(); });
  }

  std::unique_ptr<Transfer> send(std::span<const std::byte> bytes, int to, uint32_t tag) override {
    return post(to, [&] {
      std::vector<at::Tensor> tensors = {tensor_over(bytes)};
      return group_->send(tensors, to, static_cast<int>(tag));
    });
  }
  std::unique_ptr<Transfer> receive(std::span<std::byte> bytes, int from, uint32_t tag) override {
    return post(from, [&] {
      std::vector<at::Tensor> tensors = {tensor_over(bytes)};
      return group_->recv(tensors, from, static_cast<int>(tag));
    });
  }

 private:
  class GlooTransfer final : public Transfer {
   public:
    GlooTransfer(GlooWire& wire, WorkPtr work, int peer) : wire_(wire), work_(std::move(work)), peer_(peer) {}
    void wait(Deadline deadline) override { wire_.wait(*work_, peer_, deadline); }

   private:
    GlooWire& wire_;
    WorkPtr work_;
    const int peer_;
  };

  template <typename Post>
  std::unique_ptr<Transfer> post(int peer, Post what) {
    WorkPtr work;
    try {
      const NoSigpipe quiet;
      const std::lock_guard lock(posting_);
      work = what();
    } catch (const std::exception& error) {
      roll_call_.throw_cause({.suspect = peer, .text = gist_of(error)});
    }
    return std::make_unique<GlooTransfer>(*this, std::move(work), peer);
  }

  void wait(c10d::Work& work, int peer, Deadline deadline) {
    {
      const std::lock_guard lock(waiting_);
      if (aborted_) roll_call_.throw_cause();
      waited_for_.insert(&work);
    }
    bool completed = false;
    std::string failure;
    try {
      completed = work.wait(timeout_until(deadline));
    } catch (const std::exception& error) {
      failure = gist_of(error);
    }
    {
      const std::lock_guard lock(waiting_);
      waited_for_.erase(&work);
    }
    if (completed) return;
    if (failure.empty()) roll_call_.throw_cause();  // aborted
    roll_call_.throw_cause({.timed_out = deadline.expired(), .suspect = peer, .text = failure});
  }

  // An abort that comes before the wait itself still ends it.
  void abort() {
    const std::lock_guard lock(waiting_);
    aborted_ = true;
    for (c10d::Work* work : waited_for_) work->abort();
  }

  RollCall& roll_call_;
  c10::intrusive_ptr<c10d::ProcessGroupGloo> group_;
  std::mutex posting_;  // c10d counts calls without a lock
  std::mutex waiting_;
  std::set<c10d::Work*> waited_for_;
  bool aborted_ = false;
};

}  // namespace

std::unique_ptr<Wire> make_gloo_wire(const GroupIdentity& self, const Store& store, RollCall& roll_call,
                                     Deadline deadline) {
  return std::make_unique<GlooWire>(self, store, roll_call, deadline);
}

}  // namespace weft::comm
