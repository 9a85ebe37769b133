#include "weft/monitor/flight_recorder.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "weft/base/clock.h"
#include "weft/monitor/host_name.h"

namespace weft {
namespace {

int64_t wall_clock_ns() {
  const auto since_epoch = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(since_epoch).count();
}

}  // namespace

FlightRecorder::FlightRecorder(FlightOwner owner, size_t capacity)
    : owner_(std::move(owner)), ring_(std::max<size_t>(1, capacity)) {}

void FlightRecorder::add_group(const std::string& name, std::vector<int64_t> ranks) {
  const std::lock_guard lock(mutex_);
  groups_[name] = std::move(ranks);
}

uint64_t FlightRecorder::begin(const FlightEntry& entry) {
  const int64_t start_ns = entry.start_ns != 0 ? entry.start_ns : wall_clock_ns();
  const std::lock_guard lock(mutex_);
  const uint64_t id = num_begun_++;
  FlightEntry& slot = ring_[id % ring_.size()];
  slot = entry;
  slot.start_ns = start_ns;
  return id;
}

FlightEntry* FlightRecorder::find(uint64_t id) {
  const bool is_there = id < num_begun_ && num_begun_ - id <= ring_.size();
  return is_there ? &ring_[id % ring_.size()] : nullptr;
}

void FlightRecorder::start(uint64_t id) {
  const std::lock_guard lock(mutex_);
  FlightEntry* entry = find(id);
  if (entry != nullptr && entry->state == FlightState::kQueued) entry->state = FlightState::kStarted;
}

void FlightRecorder::end(uint64_t id, FlightState state) {
  const int64_t end_ns = wall_clock_ns();
  const std::lock_guard lock(mutex_);
  FlightEntry* entry = find(id);
  if (entry == nullptr) return;
  entry->state = state;
  entry->end_ns = end_ns;
}

void FlightRecorder::finish(uint64_t id) { end(id, FlightState::kFinished); }
void FlightRecorder::fail(uint64_t id) { end(id, FlightState::kFailed); }

std::vector<FlightEntry> FlightRecorder::entries_locked() const {
  const uint64_t count = std::min<uint64_t>(num_begun_, ring_.size());
  std::vector<FlightEntry> out;
  out.reserve(count);
  for (uint64_t id = num_begun_ - count; id < num_begun_; ++id) out.push_back(ring_[id % ring_.size()]);
  return out;
}

std::vector<FlightEntry> FlightRecorder::entries() const {
  const std::lock_guard lock(mutex_);
  return entries_locked();
}

FlightDump FlightRecorder::dump(std::string reason) const {
  FlightDump out{.owner = owner_,
                 .host = this_host_name(),
                 .pid = ::getpid(),
                 .reason = std::move(reason),
                 .time = iso_stamp(),
                 .groups = {},
                 .recorded = 0,
                 .entries = {}};
  const std::lock_guard lock(mutex_);
  out.groups = groups_;
  out.recorded = num_begun_;
  out.entries = entries_locked();
  return out;
}

}  // namespace weft
