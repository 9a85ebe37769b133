#include "weft/engine/sharded_init.h"

#include <ATen/ops/empty.h>
#include <ATen/record_function.h>
#include <c10/core/GradMode.h>
#include <c10/util/intrusive_ptr.h>

#include <algorithm>
#include <exception>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "weft/base/error.h"
#include "weft/base/text.h"
#include "weft/engine/operator_tensors.h"
#include "weft/memory/loose_storage.h"

namespace weft::engine {
namespace {

const std::string kCutText =
    "weft: of a tensor that was built in a ShardedInit this rank has a part; it is whole only while an operator uses "
    "it";

}  // namespace

// The tensors of one scope. Whoever looks for a storage looks in all nurseries of the process, so the lock of what is there is not
// held while ranks wait for each other: they may be threads.
class Nursery {
 public:
  Nursery(std::shared_ptr<comm::Group> group, ShardedInitOptions options)
      : group_(std::move(group)), options_(options) {}

  void add(const at::Tensor& tensor) {
    const std::scoped_lock lock(mutex_);
    c10::StorageImpl* const storage = tensor.storage().unsafeGetStorageImpl();
    const auto bytes = static_cast<int64_t>(storage->nbytes());
    if (bytes < options_.smallest_bytes || children_.contains(storage)) return;
    if (storage->_mutable_data_ptr_no_checks().get() == nullptr) return;
    children_.emplace(storage,
                      Child{.storage = tensor.storage().getWeakStorageImpl(), .bytes = bytes, .last_use = ++num_uses_});
    whole_ += bytes;
    peak_ = std::max(peak_, whole_);
  }
  bool has(const void* storage) {
    const std::scoped_lock lock(mutex_);
    return children_.contains(storage);
  }
  // Makes it whole and keeps it so until let_go().
  void hold(const void* storage) {
    const at::DisableRecordFunctionGuard unwatched;  // our own operators are no touches
    const std::scoped_lock one_at_a_time(bringing_);
    Child* const child = use(storage, 1);
    if (child == nullptr || child->is_whole) return;
    trim(child->bytes);
    bring(*child);
  }
  void let_go(const void* storage) { use(storage, -1); }
  // This rank's part from elsewhere. What was whole is cut.
  bool fill(const void* storage, const std::function<at::Tensor(int64_t first, int64_t count)>& bytes) {
    const at::DisableRecordFunctionGuard unwatched;
    const at::NoGradGuard no_grad;
    const std::scoped_lock one_at_a_time(bringing_);
    const std::scoped_lock lock(mutex_);
    const auto found = children_.find(storage);
    if (found == children_.end() || found->second.num_users > 0) return false;
    Child& child = found->second;
    if (child.is_whole) cut(child);
    const int64_t first = first_byte(child), count = std::min(slice_bytes(child), child.bytes - first);
    if (count > 0) child.slice.narrow(0, 0, count).copy_(bytes(first, count));
    return true;
  }
  comm::Group* group() const { return group_.get(); }
  // Cuts what was not used for longest, until there is room for so many bytes more. The same ones on all ranks, since all run the
  // same operators.
  void trim(int64_t room_bytes = 0) {
    const at::DisableRecordFunctionGuard unwatched;
    const std::scoped_lock lock(mutex_);
    drop_dead();
    while (whole_ + room_bytes > options_.whole_bytes) {
      Child* oldest = nullptr;
      for (auto& [key, child] : children_) {
        if (!child.is_whole || child.num_users > 0) continue;
        if (oldest == nullptr || child.last_use < oldest->last_use) oldest = &child;
      }
      if (oldest == nullptr) return;
      cut(*oldest);
    }
  }
  bool is_empty() {
    const std::scoped_lock lock(mutex_);
    drop_dead();
    return children_.empty();
  }
  int64_t peak() {
    const std::scoped_lock lock(mutex_);
    return peak_;
  }
  // The operator that needs it runs all the same; what torch then says should be the cause.
  void fail(const void* storage, const std::exception& error) {
    const std::scoped_lock lock(mutex_);
    if (!failure_) failure_ = std::current_exception();
    const auto found = children_.find(storage);
    const auto alive = found == children_.end() ? c10::intrusive_ptr<c10::StorageImpl>() : found->second.storage.lock();
    if (alive && !found->second.is_whole)
      memory::take_memory(
          *alive, cat("weft: a tensor that was built in a ShardedInit could not be made whole: ", error.what()));
  }
  void rethrow() {
    const std::scoped_lock lock(mutex_);
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  using Weak = c10::weak_intrusive_ptr<c10::StorageImpl>;
  struct Child {
    Weak storage;
    int64_t bytes = 0;
    at::Tensor slice = {};  // bytes; undefined: it was never cut
    bool is_whole = true;
    int num_users = 0;  // operators that run
    int64_t last_use = 0;
  };

  Child* use(const void* storage, int change) {
    const std::scoped_lock lock(mutex_);
    const auto found = children_.find(storage);
    if (found == children_.end()) return nullptr;
    found->second.num_users += change;
    found->second.last_use = ++num_uses_;
    return &found->second;
  }
  int64_t slice_bytes(const Child& child) const { return (child.bytes + group_->world() - 1) / group_->world(); }
  int64_t first_byte(const Child& child) const { return std::min(slice_bytes(child) * group_->rank(), child.bytes); }

  void cut(Child& child) {
    const at::NoGradGuard no_grad;
    const auto alive = child.storage.lock();
    if (alive) {
      const int64_t first = first_byte(child);
      const int64_t count = std::min(slice_bytes(child), child.bytes - first);
      if (!child.slice.defined())
        child.slice = at::empty({slice_bytes(child)}, at::TensorOptions().dtype(at::kByte).device(alive->device()));
      // It may have been written to since it was cut before.
      child.slice.narrow(0, 0, count).copy_(memory::bytes_of(*alive, first, count));
      memory::take_memory(*alive, kCutText);
    }
    child.is_whole = false;
    whole_ -= child.bytes;
  }

  void bring(Child& child) {
    const at::NoGradGuard no_grad;
    const auto alive = child.storage.lock();
    if (!alive) return;
    at::Tensor whole = at::empty({slice_bytes(child) * group_->world()}, child.slice.options());
    group_->all_gather(child.slice, whole);
    memory::give_memory(*alive, std::move(whole));
    const std::scoped_lock lock(mutex_);
    child.is_whole = true;
    whole_ += child.bytes;
    peak_ = std::max(peak_, whole_);
  }

  void drop_dead() {
    std::erase_if(children_, [&](const auto& one) {
      const Child& child = one.second;
      if (!child.storage.expired()) return false;
      if (child.is_whole) whole_ -= child.bytes;
      return true;
    });
  }

  const std::shared_ptr<comm::Group> group_;
  const ShardedInitOptions options_;
  std::mutex bringing_;
  std::mutex mutex_;  // of what follows; taken behind bringing_
  std::unordered_map<const void*, Child>
      children_;  // by storage: its weak reference keeps the address from being another's
  int64_t num_uses_ = 0, whole_ = 0, peak_ = 0;
  std::exception_ptr failure_;
};

namespace {

// The one whose scope this thread is in.
thread_local Nursery* building = nullptr;

struct Touched final : at::ObserverContext {
  std::vector<std::pair<std::shared_ptr<Nursery>, const void*>> held;
};

// Torch calls back for every operator, in all threads, only while there is a nursery.
class Nurseries {
 public:
  static Nurseries& all() {
    static Nurseries it;
    return it;
  }
  void add(const std::shared_ptr<Nursery>& nursery) {
    const std::scoped_lock lock(mutex_);
    nurseries_.push_back(nursery);
    if (nurseries_.size() > 1) return;
    if (handle_) return at::reenableCallback(*handle_);
    handle_ = at::addGlobalCallback(at::RecordFunctionCallback(before_operator, after_operator)
                                        .needsInputs(true)
                                        .needsOutputs(true)
                                        .scopes({at::RecordScope::FUNCTION}));
  }
  std::shared_ptr<Nursery> find(const at::Tensor& tensor) {
    if (!tensor.defined() || !tensor.has_storage()) return nullptr;
    const std::scoped_lock lock(mutex_);
    for (const auto& nursery : nurseries_) {
      if (nursery->has(tensor.storage().unsafeGetStorageImpl())) return nursery;
    }
    return nullptr;
  }
  // Those whose scope is over and whose tensors are gone.
  void drop_empty() {
    const std::scoped_lock lock(mutex_);
    const bool had = !nurseries_.empty();
    std::erase_if(nurseries_, [](const auto& one) { return one.use_count() == 1 && one->is_empty(); });
    if (had && nurseries_.empty()) at::disableCallback(*handle_);
  }

 private:
  static std::unique_ptr<at::ObserverContext> before_operator(const at::RecordFunction& function) {
    std::unique_ptr<Touched> touched;
    for (const c10::IValue& input : function.inputs()) {
      for_each_tensor(input, [&](const at::Tensor& tensor) {
        const auto nursery = all().find(tensor);
        if (!nursery) return;
        if (!touched) touched = std::make_unique<Touched>();
        const void* const storage = tensor.storage().unsafeGetStorageImpl();
        touched->held.emplace_back(nursery, storage);
        try {
          nursery->hold(storage);
        } catch (const std::exception& error) {
          nursery->fail(storage, error);
        }
      });
    }
    return touched;
  }

  static void after_operator(const at::RecordFunction& function, at::ObserverContext* context) {
    if (context != nullptr) {
      const auto& held = static_cast<Touched*>(context)->held;
      for (const auto& [nursery, storage] : held) nursery->let_go(storage);
      for (const auto& [nursery, storage] : held) nursery->trim();
    }
    if (building == nullptr) return;
    for (const c10::IValue& output : function.outputs()) {
      for_each_tensor(output, [](const at::Tensor& tensor) {
        if (tensor.defined() && tensor.has_storage() && tensor.layout() == at::kStrided) building->add(tensor);
      });
    }
    building->trim();
  }

  std::mutex mutex_;
  std::vector<std::shared_ptr<Nursery>> nurseries_;
  std::optional<at::CallbackHandle> handle_;
};

}  // namespace

bool is_in_nursery(const at::Tensor& tensor) { return Nurseries::all().find(tensor) != nullptr; }

HeldWhole::HeldWhole(const at::Tensor& tensor)
    : nursery_(Nurseries::all().find(tensor)), storage_(nursery_ ? tensor.storage().unsafeGetStorageImpl() : nullptr) {
  if (!nursery_) return;
  nursery_->rethrow();
  nursery_->hold(storage_);
}

HeldWhole::~HeldWhole() {
  if (!nursery_) return;
  nursery_->let_go(storage_);
  nursery_->trim();
}

bool fill_cut(const at::Tensor& tensor, const std::function<at::Tensor(int64_t first, int64_t count)>& bytes) {
  const auto nursery = Nurseries::all().find(tensor);
  if (!nursery || !tensor.is_contiguous() || tensor.storage_offset() != 0 ||
      tensor.nbytes() != tensor.storage().nbytes())
    return false;
  nursery->rethrow();
  return nursery->fill(tensor.storage().unsafeGetStorageImpl(), bytes);
}

comm::Group* group_of_nursery(const at::Tensor& tensor) {
  const auto nursery = Nurseries::all().find(tensor);
  return nursery ? nursery->group() : nullptr;
}

void forget_grown_up() { Nurseries::all().drop_empty(); }

}  // namespace weft::engine

namespace weft {

ShardedInit::ShardedInit(const config::Resolved& config, const World& world, ShardedInitOptions options) {
  if (config.zero_optimization.stage < 3 || world.size == 1) return;
  if (engine::building != nullptr) {
    throw Error(ErrorKind::kBug, {.title = "a ShardedInit inside another",
                                  .what = "",
                                  .where = cat("rank ", world.rank),
                                  .fix = "let one scope stand around everything that is built"});
  }
  nursery_ = std::make_shared<engine::Nursery>(world.group, options);
  engine::Nurseries::all().add(nursery_);
  engine::building = nursery_.get();
}

ShardedInit::~ShardedInit() {
  if (!nursery_) return;
  engine::building = nullptr;
  nursery_.reset();
  engine::Nurseries::all().drop_empty();
}

int64_t ShardedInit::peak_whole_bytes() const { return nursery_ ? nursery_->peak() : 0; }

}  // namespace weft
