// Times of a device's work for spans (monitor/span.h): the training thread only asks for it, and is long done when it begins.
//
//   DeviceSpans spans(device);       // from here on, spans of phases and waits are timed there
//   ...
//   spans.resolve();                 // once a step: those whose work is done become spans of the host's clock
//
// A mark is an event on the stream that the calling thread uses. Nobody waits for the device, except now and then when it has nothing to
// do, to compare its clock with the host's: the two are kept within some ten microseconds.
//
// Ownership: the events; registers itself, one at a time. Threads: any. Failure: a device that is lost costs spans, its error comes elsewhere.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Event.h>

#include <deque>
#include <mutex>
#include <optional>
#include <vector>

#include "weft/monitor/span.h"

namespace weft::engine {

class DeviceSpans final : public SpanTimer {
 public:
  explicit DeviceSpans(c10::Device device);
  ~DeviceSpans() override;
  DeviceSpans(const DeviceSpans&) = delete;
  DeviceSpans& operator=(const DeviceSpans&) = delete;

  int64_t mark() noexcept override;
  void record(const SpanEvent& event, int64_t from_mark, int64_t to_mark) noexcept override;
  void record(const SpanEvent& event, int64_t from_mark, SpanEnd end) noexcept override;
  void drop(int64_t mark) noexcept override;
  void resolve() noexcept;

 private:
  struct Waiting {
    SpanEvent event;
    size_t from;
    std::optional<size_t> to;
    SpanEnd end;  // where there is no `to`
  };
  // As a SpanEnd does.
  int64_t end_ns(const Waiting& one) const;
  void compare_clocks();
  void resolve_done();
  int64_t host_ns(const c10::Event& event) const;
  size_t free_event();
  // Of another timer, before this one: nobody's.
  bool is_own(int64_t mark) const { return mark >> kEventBits == number_; }
  static size_t event_of(int64_t mark) { return static_cast<size_t>(mark & ((int64_t{1} << kEventBits) - 1)); }

  static constexpr int kEventBits = 32;
  const c10::Device device_;
  const int64_t number_;  // of this timer in the process
  mutable std::mutex mutex_;
  std::deque<c10::Event> events_;  // by mark
  std::vector<size_t> free_;       // marks that nobody has
  std::deque<Waiting> waiting_;    // in the order they ended
  c10::Event compared_;            // when the clocks were
  int64_t compared_ns_ = 0;
};

}  // namespace weft::engine
