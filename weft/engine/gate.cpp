#include "weft/engine/gate.h"

#include <ATen/record_function.h>

#include <exception>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <unordered_map>
#include <utility>

namespace weft::engine {

// What is behind a gate, kept alive by operators that stand before it.
class Gate::Door {
 public:
  Door(const std::vector<at::Tensor>& flats, std::function<void(int)> touched)
      : touched_(std::move(touched)), is_shut_(flats.size(), false) {
    for (const at::Tensor& flat : flats)
      numbers_.emplace(flat.storage().unsafeGetStorageImpl(), static_cast<int>(numbers_.size()));
  }

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
  bool touch(int number) {
    const std::scoped_lock lock(mutex_);
    if (!is_shut_[static_cast<size_t>(number)]) return false;
    is_shut_[static_cast<size_t>(number)] = false;
    try {
      touched_(number);
    } catch (...) {
      failure_ = std::current_exception();
    }
    return --num_shut_ == 0;
  }
  void rethrow() {
    const std::scoped_lock lock(mutex_);
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  const std::function<void(int)> touched_;
  std::unordered_map<const void*, int> numbers_;  // by storage
  std::recursive_mutex mutex_;                    // of what follows; `touched` may run operators of its own
  std::vector<bool> is_shut_;                     // by number
  size_t num_shut_ = 0;
  std::exception_ptr failure_;
};

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
    doors_.push_back(door);
    if (doors_.size() == 1) watch();
  }
  void remove(const Door& door) {
    const std::unique_lock lock(mutex_);
    if (std::erase(doors_, door) > 0 && doors_.empty()) at::disableCallback(*handle_);
  }
  // Waits without the lock: a peer that is a thread of this process may need it before it can do what we wait for.
  void look_at(const at::Tensor& input) {
    if (!input.defined() || !input.has_storage()) return;
    const auto [door, number] = find(input.storage().unsafeGetStorageImpl());
    if (door && door->touch(number)) remove(door);
  }

 private:
  std::pair<Door, int> find(const void* storage) {
    const std::shared_lock lock(mutex_);
    for (const Door& door : doors_) {
      if (const auto number = door->number_of(storage)) return {door, *number};
    }
    return {};
  }
  void watch();

  std::shared_mutex mutex_;
  std::vector<Door> doors_;
  std::optional<at::CallbackHandle> handle_;
};

namespace {

std::unique_ptr<at::ObserverContext> before_operator(const at::RecordFunction& function) {
  auto& doors = ClosedDoors::all();
  for (const c10::IValue& input : function.inputs()) {
    if (input.isTensor()) {
      doors.look_at(input.toTensor());
    } else if (input.isTensorList()) {
      for (const at::Tensor& one : input.toTensorVector()) doors.look_at(one);
    } else if (input.isOptionalTensorList()) {
      for (const auto& one : input.toOptionalTensorVector()) doors.look_at(one.value_or(at::Tensor()));
    }
  }
  return nullptr;
}

}  // namespace

void ClosedDoors::watch() {
  if (handle_) return at::reenableCallback(*handle_);
  handle_ = at::addGlobalCallback(
      at::RecordFunctionCallback(before_operator).needsInputs(true).scopes({at::RecordScope::FUNCTION}));
}

Gate::Gate(const std::vector<at::Tensor>& flats, std::function<void(int number)> touched)
    : door_(std::make_shared<Door>(flats, std::move(touched))) {}

Gate::~Gate() { open(); }

void Gate::close() {
  door_->shut();
  ClosedDoors::all().add(door_);
}

void Gate::open() { ClosedDoors::all().remove(door_); }

void Gate::rethrow() { door_->rethrow(); }

}  // namespace weft::engine
