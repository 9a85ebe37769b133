#include "weft/monitor/span.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <unordered_set>

namespace weft {
namespace {

// One writer, its thread; one reader, whoever holds the registry's lock. The writer alone moves head_, the reader
// alone tail_: release on one side and acquire on the other hand the slots over.
class SpanRing {
 public:
  void push(const SpanEvent& event) noexcept {
    const uint64_t head = head_.load(std::memory_order_relaxed);
    if (head - tail_.load(std::memory_order_acquire) == kSpanRingEvents) {
      num_dropped_.fetch_add(1, std::memory_order_relaxed);
      return;
    }
    slots_[head % kSpanRingEvents] = event;
    head_.store(head + 1, std::memory_order_release);
  }

  // Requires: one reader at a time. Returns the events dropped since the last call.
  uint64_t drain_into(std::vector<SpanEvent>& out) {
    const uint64_t head = head_.load(std::memory_order_acquire);
    for (uint64_t at = tail_.load(std::memory_order_relaxed); at < head; ++at)
      out.push_back(slots_[at % kSpanRingEvents]);
    tail_.store(head, std::memory_order_release);
    return num_dropped_.exchange(0, std::memory_order_relaxed);
  }

  void leave() { owner_left_.store(true, std::memory_order_release); }
  bool owner_left() const { return owner_left_.load(std::memory_order_acquire); }

 private:
  // The two ends on lines of their own: the reader's progress must not slow the writer down.
  alignas(64) std::atomic<uint64_t> head_ = 0;
  std::atomic<uint64_t> num_dropped_ = 0;
  std::atomic<bool> owner_left_ = false;
  alignas(64) std::atomic<uint64_t> tail_ = 0;
  const std::unique_ptr<SpanEvent[]> slots_ = std::make_unique<SpanEvent[]>(kSpanRingEvents);
};

struct SpanRegistry {
  std::mutex mutex;
  std::vector<std::shared_ptr<SpanRing>> rings;
  std::atomic<uint64_t> num_lost = 0;  // events that found no ring
  std::vector<std::string> tracks = {"compute", "bucket", "reduce", "gather", "exposed wait", "data", "disk"};
  std::unordered_set<std::string> names;
};

// Never destroyed: threads may record while the process winds down.
SpanRegistry& span_registry() {
  static SpanRegistry& one = *new SpanRegistry;
  return one;
}

// Trivial, so that it can still be read after the holder below is gone.
thread_local bool thread_is_ending = false;

struct RingHolder {
  std::shared_ptr<SpanRing> ring;
  RingHolder() = default;
  RingHolder(const RingHolder&) = delete;
  RingHolder& operator=(const RingHolder&) = delete;
  ~RingHolder() {
    thread_is_ending = true;
    if (ring) ring->leave();
  }
};

// Throws std::bad_alloc.
SpanRing& ring_of_this_thread() {
  thread_local RingHolder holder;
  if (!holder.ring) {
    auto ring = std::make_shared<SpanRing>();
    const std::lock_guard lock(span_registry().mutex);
    span_registry().rings.push_back(ring);
    holder.ring = std::move(ring);
  }
  return *holder.ring;
}

constexpr size_t kMaxTracks = 1000;

}  // namespace

std::string_view name_of(SpanCategory category) {
  constexpr std::string_view kNames[kNumSpanCategories] = {"step",   "forward", "backward", "optimizer",
                                                           "bucket", "reduce",  "gather",   "exposed_wait",
                                                           "data",   "disk",    "other"};
  const auto index = static_cast<size_t>(category);
  return index < std::size(kNames) ? kNames[index] : "other";
}

Track track_of(SpanCategory category) {
  switch (category) {
    case SpanCategory::kBucket: return Track::kBucket;
    case SpanCategory::kReduce: return Track::kReduce;
    case SpanCategory::kGather: return Track::kGather;
    case SpanCategory::kExposedWait: return Track::kExposedWait;
    case SpanCategory::kData: return Track::kData;
    case SpanCategory::kDisk: return Track::kDisk;
    default: return Track::kCompute;
  }
}

Track track_named(std::string_view name) {
  const std::lock_guard lock(span_registry().mutex);
  auto& tracks = span_registry().tracks;
  auto found = std::ranges::find(tracks, name);
  if (found == tracks.end() && tracks.size() < kMaxTracks) found = tracks.emplace(tracks.end(), name);
  if (found == tracks.end()) --found;
  return static_cast<Track>(found - tracks.begin());
}

std::vector<std::string> track_names() {
  const std::lock_guard lock(span_registry().mutex);
  return span_registry().tracks;
}

int64_t duration_ns(const SpanEvent& event) {
  int64_t out = 0;
  if (event.end_ns <= event.start_ns) return 0;
  return __builtin_sub_overflow(event.end_ns, event.start_ns, &out) ? INT64_MAX : out;
}

const char* intern_span_name(std::string_view name) {
  const std::lock_guard lock(span_registry().mutex);
  return span_registry().names.emplace(name).first->c_str();
}

void set_span_timer(SpanTimer* timer) { detail::span_timer.store(timer, std::memory_order_release); }

bool is_timed_elsewhere(SpanCategory category) {
  switch (category) {
    case SpanCategory::kStep:
    case SpanCategory::kForward:
    case SpanCategory::kBackward:
    case SpanCategory::kOptimizer:
    case SpanCategory::kBucket:
    case SpanCategory::kReduce:
    case SpanCategory::kGather:
    case SpanCategory::kExposedWait: return true;
    default: return false;
  }
}

void OpenSpan::begin_elsewhere() noexcept {
  SpanTimer* const timer = detail::span_timer.load(std::memory_order_acquire);
  if (timer != nullptr && is_timed_elsewhere(event_->category)) mark_ = timer->mark();
}

void OpenSpan::end_elsewhere() noexcept {
  SpanTimer* const timer = detail::span_timer.load(std::memory_order_acquire);
  const int64_t from = std::exchange(mark_, -1);
  if (timer == nullptr) return;
  if (const int64_t to = timer->mark(); to >= 0) return timer->record(*event_, from, to);
  timer->drop(from);
}

void OpenSpan::end_later(SpanEnd end) noexcept {
  SpanTimer* const timer = detail::span_timer.load(std::memory_order_acquire);
  const int64_t from = std::exchange(mark_, -1);
  if (timer != nullptr) timer->record(*event_, from, std::move(end));
}

void OpenSpan::drop_mark() noexcept {
  const int64_t mark = std::exchange(mark_, -1);
  if (SpanTimer* const timer = detail::span_timer.load(std::memory_order_acquire)) timer->drop(mark);
}

void set_spans_on(bool on) { detail::spans_on_flag.store(on, std::memory_order_relaxed); }

void record_span(const SpanEvent& event) noexcept {
  const auto lose = [] { span_registry().num_lost.fetch_add(1, std::memory_order_relaxed); };
  if (thread_is_ending) return lose();
  try {
    ring_of_this_thread().push(event);
  } catch (const std::exception&) {  // no memory for a ring
    lose();
  }
}

void drain_spans(SpanBatch& batch) {
  batch.events.clear();
  batch.num_dropped = span_registry().num_lost.exchange(0, std::memory_order_relaxed);
  {
    const std::lock_guard lock(span_registry().mutex);
    std::erase_if(span_registry().rings, [&](const std::shared_ptr<SpanRing>& ring) {
      // Asked first: what the owner wrote before it left is then in this drain.
      const bool owner_left = ring->owner_left();
      batch.num_dropped += ring->drain_into(batch.events);
      return owner_left;
    });
  }
  for (SpanEvent& event : batch.events) {
    if (event.track == Track::kOfCategory) event.track = track_of(event.category);
  }
  std::ranges::stable_sort(batch.events, [](const SpanEvent& a, const SpanEvent& b) {
    return a.end_ns != b.end_ns ? a.end_ns < b.end_ns : a.start_ns > b.start_ns;
  });
}

}  // namespace weft
