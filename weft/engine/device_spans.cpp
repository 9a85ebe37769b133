#include "weft/engine/device_spans.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <atomic>
#include <exception>

namespace weft::engine {
namespace {

// An event's time is a float of milliseconds since another one: after ten seconds it is good to a microsecond.
constexpr int64_t kCompareEveryNs = 10'000'000'000;

c10::Event timed_event(c10::Device device) { return {device.type(), c10::EventFlag::BACKEND_DEFAULT}; }

int64_t next_number() {
  static std::atomic<int64_t> last = 0;
  return ++last;
}

void mark_now(c10::Event& event, c10::Device device) {
  event.record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
}

}  // namespace

DeviceSpans::DeviceSpans(c10::Device device) : device_(device), number_(next_number()), compared_(timed_event(device)) {
  compare_clocks();
  set_span_timer(this);
}

DeviceSpans::~DeviceSpans() { set_span_timer(nullptr); }

void DeviceSpans::compare_clocks() {
  mark_now(compared_, device_);
  compared_.synchronize();
  compared_ns_ = now_ns();
}

size_t DeviceSpans::free_event() {
  if (free_.empty()) {
    events_.push_back(timed_event(device_));
    return events_.size() - 1;
  }
  const size_t event = free_.back();
  free_.pop_back();
  return event;
}

int64_t DeviceSpans::mark() noexcept {
  const std::lock_guard lock(mutex_);
  try {
    const size_t event = free_event();
    mark_now(events_[event], device_);
    return number_ << kEventBits | static_cast<int64_t>(event);
  } catch (const std::exception&) {
    return -1;
  }
}

void DeviceSpans::record(const SpanEvent& event, int64_t from_mark, int64_t to_mark) noexcept {
  if (!is_own(from_mark)) return drop(to_mark);
  const std::lock_guard lock(mutex_);
  waiting_.push_back({event, event_of(from_mark), event_of(to_mark), nullptr});
}

void DeviceSpans::record(const SpanEvent& event, int64_t from_mark, SpanEnd end) noexcept {
  if (!is_own(from_mark)) return;
  const std::lock_guard lock(mutex_);
  waiting_.push_back({event, event_of(from_mark), std::nullopt, std::move(end)});
}

void DeviceSpans::drop(int64_t mark) noexcept {
  if (!is_own(mark)) return;
  const std::lock_guard lock(mutex_);
  free_.push_back(event_of(mark));
}

int64_t DeviceSpans::host_ns(const c10::Event& event) const {
  return compared_ns_ + static_cast<int64_t>(compared_.elapsedTime(event) * 1e6);
}

void DeviceSpans::resolve() noexcept {
  const std::lock_guard lock(mutex_);
  try {
    resolve_done();
    if (waiting_.empty() && now_ns() - compared_ns_ > kCompareEveryNs) compare_clocks();
  } catch (const std::exception&) {
    waiting_.clear();
  }
}

int64_t DeviceSpans::end_ns(const Waiting& one) const {
  if (!events_[one.from].query()) return 0;
  if (!one.to) return one.end();
  return events_[*one.to].query() ? host_ns(events_[*one.to]) : 0;
}

// In the order they ended, so that what lies inside a step is there before the step. A collective at the front holds up nothing: who
// waited for it made the stream wait too.
void DeviceSpans::resolve_done() {
  while (!waiting_.empty()) {
    const int64_t ended_ns = end_ns(waiting_.front());
    if (ended_ns == 0) return;
    Waiting one = std::move(waiting_.front());
    waiting_.pop_front();
    one.event.start_ns = host_ns(events_[one.from]);
    one.event.end_ns = std::max(ended_ns, one.event.start_ns);  // the host's glance may be that much early by its clock
    free_.push_back(one.from);
    if (one.to) free_.push_back(*one.to);
    if (ended_ns > 0) record_span(one.event);
  }
}

}  // namespace weft::engine
