#include "weft/engine/gate.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/record_function.h>

#include <exception>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "weft/base/log.h"
#include "weft/engine/operator_tensors.h"

namespace weft::engine {

// What is behind a gate, kept alive by operators that stand before it.
class Gate::Door {
 public:
  Door(const std::vector<at::Tensor>& flats, GateCalls calls)
      : calls_(std::move(calls)), is_shut_(flats.size(), false) {
    for (const at::Tensor& flat : flats)
      numbers_.emplace(flat.storage().unsafeGetStorageImpl(), static_cast<int>(numbers_.size()));
  }

  bool stays_shut() const { return static_cast<bool>(calls_.passed); }
  std::optional<int> number_of(const void* storage) const {
    const auto found = numbers_.find(storage);
    return found == numbers_.end() ? std::nullopt : std::optional(found->second);
  }
  void shut() {
    const std::scoped_lock lock(mutex_);
    is_shut_.assign(is_shut_.size(), true);
    num_shut_ = is_shut_.size();
  }
  // Whether this was the last.
  bool touch(const GateTouch& touch) {
    const std::scoped_lock lock(mutex_);
    const auto number = static_cast<size_t>(touch.number);
    if (!is_shut_[number]) return false;
    if (!stays_shut()) is_shut_[number] = false;  // what the callback runs touches nothing
    guarded([&] { calls_.touched(touch); });
    if (stays_shut()) return false;
    bool settled = true;
    if (calls_.settled) guarded([&] { settled = calls_.settled(touch.number); });
    is_shut_[number] = !settled;
    return settled && --num_shut_ == 0;
  }
  void pass(int number, bool writes) {
    const std::scoped_lock lock(mutex_);
    guarded([&] { calls_.passed(number, writes); });
  }
  void rethrow() {
    const std::scoped_lock lock(mutex_);
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  // The first failure is the cause of those that follow. It is said at once: who only evaluates calls nothing that would throw it.
  template <typename Do>
  void guarded(Do what) {
    try {
      what();
    } catch (const std::exception& problem) {
      if (!failure_) log_error("operators read parameters that are not up to date: ", problem.what());
      if (!failure_) failure_ = std::current_exception();
    }
  }

  const GateCalls calls_;
  std::unordered_map<const void*, int> numbers_;  // by storage
  std::recursive_mutex mutex_;                    // of what follows; a callback may run operators of its own
  std::vector<bool> is_shut_;                     // by number
  size_t num_shut_ = 0;
  std::exception_ptr failure_;
};

namespace {

// Which arguments operators write to. A schema says so, but torch hands out copies, and making one takes longer than many
// operators: each is asked once. Names tell schemas apart, which are there until their library goes.
class Writers {
 public:
  static Writers& all() {
    static Writers it;
    return it;
  }
  bool writes(const at::RecordFunction& function, size_t argument) {
    const auto* const known = find(function);
    if (known == nullptr) return may_write(function);
    return argument < known->size() && (*known)[argument];
  }

 private:
  using Arguments = std::vector<bool>;

  const Arguments* find(const at::RecordFunction& function) {
    const void* const key = function.name();
    {
      const std::shared_lock lock(mutex_);
      const auto found = by_name_.find(key);
      if (found != by_name_.end()) return &found->second;
    }
    const auto schema = function.operator_schema();
    if (!schema) return nullptr;
    Arguments arguments;
    for (const c10::Argument& one : schema->arguments())
      arguments.push_back(one.alias_info() != nullptr && one.alias_info()->isWrite());
    const std::unique_lock lock(mutex_);
    return &by_name_.try_emplace(key, std::move(arguments)).first->second;
  }
  // Without a schema there is only the name, which by custom ends so.
  static bool may_write(const at::RecordFunction& function) { return std::string_view(function.name()).ends_with('_'); }

  std::shared_mutex mutex_;
  std::unordered_map<const void*, Arguments> by_name_;
};

}  // namespace

// Torch calls back for every operator, in all threads, only while there is one of them.
class ClosedDoors {
 public:
  using Door = std::shared_ptr<Gate::Door>;

  static ClosedDoors& all() {
    static ClosedDoors it;
    return it;
  }
  void add(const Door& door) {
    const std::unique_lock lock(mutex_);
    if (std::find(doors_.begin(), doors_.end(), door) != doors_.end()) return;
    doors_.push_back(door);
    if (doors_.size() == 1) watch();
  }
  void remove(const Door& door) {
    const std::unique_lock lock(mutex_);
    if (std::erase(doors_, door) > 0 && doors_.empty()) at::disableCallback(*handle_);
  }

  static std::unique_ptr<at::ObserverContext> before_operator(const at::RecordFunction& function) {
    Look look{.function = function};
    for (const c10::IValue& input : function.inputs()) {
      for_each_tensor(input, [&](const at::Tensor& one) { all().look_at(one, look); });
      ++look.argument;
    }
    return std::move(look.passing);
  }

  static void after_operator(const at::RecordFunction& function, at::ObserverContext* context) {
    auto* const passing = static_cast<Passing*>(context);
    if (passing == nullptr) return;
    for (const Held& one : passing->held) one.door->pass(one.number, Writers::all().writes(function, one.argument));
  }

 private:
  // What an operator stands before that is to be told when it has ended.
  struct Held {
    Door door;
    int number;
    size_t argument;
  };
  struct Passing final : at::ObserverContext {
    std::vector<Held> held;
  };

  // One operator's inputs being looked at.
  struct Look {
    const at::RecordFunction& function;
    std::unique_ptr<Passing> passing = {};
    size_t argument = 0;
    bool has_touched = false;
  };

  // Waits without the lock: a peer that is a thread of this process may need it before it can do what we wait for.
  void look_at(const at::Tensor& input, Look& look) {
    if (!input.defined() || !input.has_storage()) return;
    const auto [door, number] = find(input.storage().unsafeGetStorageImpl());
    if (!door) return;
    if (door->stays_shut()) {
      if (!look.passing) look.passing = std::make_unique<Passing>();
      look.passing->held.push_back({door, number, look.argument});
    }
    const bool is_first = !std::exchange(look.has_touched, true);
    if (door->touch({.number = number, .is_first = is_first, .name = look.function.name()})) remove(door);
  }

  std::pair<Door, int> find(const void* storage) {
    const std::shared_lock lock(mutex_);
    for (const Door& door : doors_) {
      if (const auto number = door->number_of(storage)) return {door, *number};
    }
    return {};
  }

  void watch() {
    if (handle_) return at::reenableCallback(*handle_);
    handle_ = at::addGlobalCallback(at::RecordFunctionCallback(before_operator, after_operator)
                                        .needsInputs(true)
                                        .scopes({at::RecordScope::FUNCTION}));
  }

  std::shared_mutex mutex_;
  std::vector<Door> doors_;
  std::optional<at::CallbackHandle> handle_;
};

Gate::Gate(const std::vector<at::Tensor>& flats, GateCalls calls)
    : door_(std::make_shared<Door>(flats, std::move(calls))) {}

Gate::~Gate() { open(); }

void Gate::close() {
  door_->shut();
  ClosedDoors::all().add(door_);
}

void Gate::open() { ClosedDoors::all().remove(door_); }

void Gate::rethrow() { door_->rethrow(); }

}  // namespace weft::engine
