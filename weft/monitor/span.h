// Where the time of a rank goes: every room marks what it does with spans, and one thread collects them for the sinks
// (step_times.h, trace_writer.h). Off by default; a span then costs one relaxed load.
//
//   const Span span({.name = "forward", .category = SpanCategory::kForward, .key = "micro_step", .value = i});
//
//   OpenSpan reduce = begin_span({.name = "reduce", .category = SpanCategory::kReduce, .bucket = 3, .bytes = bytes});
//   ...                        // moved to the thread that sees it end
//   reduce.end();
//
//   drain_spans(batch);        // one thread, once a step
//
// Each thread writes fixed-size events into a ring of its own, made at its first span: no lock, no allocation after
// that. A ring that is full drops the new event and counts it; nobody waits. A thread that ends leaves its ring behind
// until it is drained. One process is one rank: the rank is the sinks' to say.
//
// Names and keys are kept as pointers: string literals, or intern_span_name() for a text made at run time.
//
// Where the training thread only asks for work that a device does later, a SpanTimer says when it was done there: spans of the step, its
// phases and its waits go through it.
//
// Threads: any may record; drain_spans() may be called by any, one at a time goes on. Not for signal handlers.
// Failure: recording never throws; without memory for a ring its events are dropped and counted.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weft/base/clock.h"

namespace weft {

enum class SpanCategory : uint8_t {
  kStep,  // a whole step; its value is the step's number
  kForward,
  kBackward,
  kOptimizer,
  kBucket,       // a bucket that is full, from its last gradient to its sending
  kReduce,       // a bucket's gradients, from the first byte asked for to the last one there
  kGather,       // parameters made resident
  kExposedWait,  // the training thread stands still until communication is done
  kData,
  kDisk,
  kOther,
};
inline constexpr int kNumSpanCategories = 11;

// "forward", "exposed_wait".
std::string_view name_of(SpanCategory category);

// A row of the timeline.
enum class Track : uint16_t {
  kCompute,
  kBucket,
  kReduce,
  kGather,
  kExposedWait,
  kData,
  kDisk,
  kOfCategory = UINT16_MAX
};
Track track_of(SpanCategory category);
// A row of one's own, made at the first call with this name. At most 1,000; later names share the last row.
Track track_named(std::string_view name);
// By number: "compute", "reduce", ...
std::vector<std::string> track_names();

struct SpanEvent {
  const char* name = "";
  SpanCategory category = SpanCategory::kOther;
  Track track = Track::kOfCategory;
  int32_t bucket = -1;        // -1: none
  int64_t bytes = -1;         // -1: none
  const char* key = nullptr;  // one more argument under a name of its own; null: none
  int64_t value = 0;
  int64_t start_ns = 0, end_ns = 0;  // of now_ns()
};

// 0 for a span that ends before it starts; never overflows.
int64_t duration_ns(const SpanEvent& event);

// A text that outlives the process. Takes a lock and keeps every different text: for names, not for numbers.
const char* intern_span_name(std::string_view name);

class SpanTimer;
namespace detail {
inline std::atomic<bool> spans_on_flag = false;
inline std::atomic<SpanTimer*> span_timer = nullptr;
}  // namespace detail

inline bool spans_on() { return detail::spans_on_flag.load(std::memory_order_relaxed); }
// A span that is under way when this changes is recorded if they were on when it began.
void set_spans_on(bool on);

// For times measured elsewhere, such as on a device. Recorded whether spans are on or off: ask spans_on() first.
void record_span(const SpanEvent& event) noexcept;

// When something was over, by now_ns(); 0: not yet; negative: it never will be. Asked until it knows; must not throw.
using SpanEnd = std::function<int64_t()>;

// Times of work that was asked for and is done elsewhere. Threads: any, at the same time.
class SpanTimer {
 public:
  virtual ~SpanTimer() = default;
  // The end of the work that the calling thread has asked for so far; negative: cannot be had.
  virtual int64_t mark() noexcept = 0;
  // Calls record_span() with their times, once both are known. Takes the marks back, as drop() does one.
  virtual void record(const SpanEvent& event, int64_t from_mark, int64_t to_mark) noexcept = 0;
  virtual void record(const SpanEvent& event, int64_t from_mark, SpanEnd end) noexcept = 0;
  virtual void drop(int64_t mark) noexcept = 0;
};
// One at a time, null for none. Requires: no span is open when one goes.
void set_span_timer(SpanTimer* timer);
bool is_timed_elsewhere(SpanCategory category);

// Something that ends elsewhere than where it began, perhaps on another thread. Without end() it leaves no trace.
class OpenSpan {
 public:
  OpenSpan() = default;
  OpenSpan(OpenSpan&& other) noexcept
      : event_(std::exchange(other.event_, std::nullopt)), mark_(std::exchange(other.mark_, -1)) {}
  OpenSpan& operator=(OpenSpan&& other) noexcept {
    forget();
    event_ = std::exchange(other.event_, std::nullopt);
    mark_ = std::exchange(other.mark_, -1);
    return *this;
  }
  OpenSpan(const OpenSpan&) = delete;
  OpenSpan& operator=(const OpenSpan&) = delete;
  ~OpenSpan() { forget(); }

  bool is_open() const { return event_.has_value(); }
  void set_value(int64_t value) {
    if (event_) event_->value = value;
  }
  // Later calls do nothing.
  void end() noexcept {
    if (!event_) return;
    event_->end_ns = now_ns();
    mark_ < 0 ? record_span(*event_) : end_elsewhere();
    event_.reset();
  }
  // It is over when that says so, wherever it began. With a timer that may be later than now; without one it was waited for, and is over
  // now where nobody noted when.
  void end_when(SpanEnd end) noexcept {
    if (!event_) return;
    mark_ < 0 ? end_noted(end()) : end_later(std::move(end));
    event_.reset();
  }

 private:
  friend OpenSpan begin_span(const SpanEvent& what);
  void begin_elsewhere() noexcept;
  void end_elsewhere() noexcept;
  void end_later(SpanEnd end) noexcept;
  void end_noted(int64_t end_ns) noexcept {
    event_->end_ns = end_ns > 0 ? end_ns : now_ns();
    record_span(*event_);
  }
  void forget() noexcept {
    if (mark_ >= 0) drop_mark();
  }
  void drop_mark() noexcept;

  std::optional<SpanEvent> event_;
  int64_t mark_ = -1;  // of the timer, where it was asked
};

inline OpenSpan begin_span(const SpanEvent& what) {
  OpenSpan span;
  if (!spans_on()) return span;
  span.event_ = what;
  span.event_->start_ns = now_ns();
  if (detail::span_timer.load(std::memory_order_relaxed) != nullptr) span.begin_elsewhere();
  return span;
}

// As long as the scope.
class Span {
 public:
  explicit Span(const SpanEvent& what) : open_(begin_span(what)) {}
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;
  ~Span() { open_.end(); }

 private:
  OpenSpan open_;
};

inline constexpr size_t kSpanRingEvents = 8192;  // 448 KiB a thread; a step of a large model has a few hundred

struct SpanBatch {
  std::vector<SpanEvent> events;  // in the order they ended, the inner of two before the outer
  uint64_t num_dropped = 0;       // since the last drain
};

// Replaces what the batch held; its memory is used again.
void drain_spans(SpanBatch& batch);

}  // namespace weft
