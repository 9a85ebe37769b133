// For this room's tests: what torch's CPU allocator gives out, and what a group does, counted for each rank that is a thread.
//
//   const CountedMemory counted;            // while it lives, memory is counted
//   Tally& mine = begin_tally();            // what this thread asks for from here on
//   ... mine.live_bytes, mine.peak_bytes, mine.num_large
//
// Memory that a thread asked for counts as its own until it is given back, by whichever thread.
#pragma once

#include <c10/core/CPUAllocator.h>
#include <c10/core/StorageImpl.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "weft/comm/wrapped_group.h"

namespace weft {

struct Tally {
  static constexpr int64_t kLargeBytes = 4096;

  std::atomic<int64_t> live_bytes = 0, peak_bytes = 0, num_large = 0;

  void add(int64_t bytes) {
    const int64_t now = live_bytes += bytes;
    peak_bytes = std::max<int64_t>(peak_bytes, now);
    if (bytes > kLargeBytes) ++num_large;
  }
};

namespace detail {
inline thread_local std::shared_ptr<Tally> tally;

struct Counted {
  int64_t bytes;
  std::shared_ptr<Tally> tally;
  c10::DeleterFnPtr give_back;
};

// By address: torch asks of this allocator that what it gives is its own context.
struct CountedBlocks {
  std::mutex mutex;
  std::map<void*, Counted> blocks;
};

inline CountedBlocks& counted_blocks() {
  static CountedBlocks blocks;
  return blocks;
}

inline void give_back(void* data) {
  if (data == nullptr) return;
  Counted it;
  {
    const std::scoped_lock lock(counted_blocks().mutex);
    const auto found = counted_blocks().blocks.find(data);
    it = std::move(found->second);
    counted_blocks().blocks.erase(found);
  }
  if (it.tally) it.tally->live_bytes -= it.bytes;
  it.give_back(data);
}
}  // namespace detail

inline Tally& begin_tally() {
  detail::tally = std::make_shared<Tally>();
  return *detail::tally;
}

class CountedMemory final : public c10::Allocator {
 public:
  CountedMemory() { c10::SetCPUAllocator(this); }
  ~CountedMemory() override { c10::SetCPUAllocator(&under_); }
  CountedMemory(const CountedMemory&) = delete;
  CountedMemory& operator=(const CountedMemory&) = delete;

  c10::DataPtr allocate(size_t bytes) override {
    c10::DataPtr memory = under_.allocate(bytes);
    void* const data = memory.get();
    const c10::DeleterFnPtr deleter = memory.get_deleter();
    if (data != nullptr) {
      const std::scoped_lock lock(detail::counted_blocks().mutex);
      detail::counted_blocks().blocks[data] = {static_cast<int64_t>(bytes), detail::tally, deleter};
      if (detail::tally) detail::tally->add(static_cast<int64_t>(bytes));
    }
    memory.release_context();
    return {data, data, &detail::give_back, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &detail::give_back; }
  void copy_data(void* dest, const void* src, size_t bytes) const override { default_copy_data(dest, src, bytes); }

 private:
  c10::Allocator& under_ = *c10::GetCPUAllocator();
};

// Passes everything on, and knows what memory it gave.
class CountingGroup final : public comm::WrappedGroup {
 public:
  explicit CountingGroup(std::shared_ptr<comm::Group> inner) : WrappedGroup(std::move(inner)) {}
  at::Tensor allocate(int64_t count, at::ScalarType type) override {
    return remembered(WrappedGroup::allocate(count, type));
  }
  at::Tensor allocate_common(int64_t count, at::ScalarType type) override {
    return remembered(WrappedGroup::allocate_common(count, type));
  }
  // Of what is still used.
  int64_t live_bytes() const {
    int64_t bytes = 0;
    for (const auto& one : given_) {
      const auto storage = one.lock();
      bytes += storage ? static_cast<int64_t>(storage->nbytes()) : 0;
    }
    return bytes;
  }

 private:
  comm::Work launch(const comm::Collective& call, comm::Launch how) override { return pass_on(call, how); }
  std::shared_ptr<comm::Group> wrap(std::shared_ptr<comm::Group> part, const std::vector<int>&) override {
    return std::make_shared<CountingGroup>(std::move(part));
  }
  at::Tensor remembered(at::Tensor tensor) {
    given_.push_back(tensor.storage().getWeakStorageImpl());
    return tensor;
  }

  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> given_;
};

}  // namespace weft
