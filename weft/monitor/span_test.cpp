#include "weft/monitor/span.h"

#include <gtest/gtest.h>

#include <atomic>
#include <climits>
#include <set>
#include <thread>

namespace weft {
namespace {

// Spans are the process's: each test starts with none recorded and leaves them off.
class Spans : public testing::Test {
 protected:
  Spans() {
    SpanBatch old;
    drain_spans(old);
    set_spans_on(true);
  }
  ~Spans() override { set_spans_on(false); }

  static SpanBatch drained() {
    SpanBatch batch;
    drain_spans(batch);
    return batch;
  }
};

TEST_F(Spans, AreOffUnlessAskedFor) {
  set_spans_on(false);
  {
    const Span span({.name = "forward"});
  }
  begin_span({.name = "reduce"}).end();
  EXPECT_TRUE(drained().events.empty());
}

TEST_F(Spans, KeepWhatTheyWereGiven) {
  const int64_t before = now_ns();
  {
    const Span span(
        {.name = "reduce", .category = SpanCategory::kReduce, .bucket = 3, .bytes = 4096, .key = "peer", .value = 7});
  }
  const SpanBatch batch = drained();
  ASSERT_EQ(batch.events.size(), 1U);
  const SpanEvent& event = batch.events[0];
  EXPECT_STREQ(event.name, "reduce");
  EXPECT_EQ(event.category, SpanCategory::kReduce);
  EXPECT_EQ(event.track, Track::kReduce) << "the row of its category";
  EXPECT_EQ(event.bucket, 3);
  EXPECT_EQ(event.bytes, 4096);
  EXPECT_STREQ(event.key, "peer");
  EXPECT_EQ(event.value, 7);
  EXPECT_GE(event.start_ns, before);
  EXPECT_LE(event.start_ns, event.end_ns);
  EXPECT_LE(event.end_ns, now_ns());
  EXPECT_EQ(batch.num_dropped, 0U);
}

TEST_F(Spans, ComeOutInnerBeforeOuter) {
  {
    const Span outer({.name = "outer"});
    {
      const Span first({.name = "first"});
    }
    {
      const Span second({.name = "second"});
    }
  }
  const SpanBatch batch = drained();
  ASSERT_EQ(batch.events.size(), 3U);
  EXPECT_STREQ(batch.events[0].name, "first");
  EXPECT_STREQ(batch.events[1].name, "second");
  EXPECT_STREQ(batch.events[2].name, "outer");
  EXPECT_LE(batch.events[2].start_ns, batch.events[0].start_ns);
}

TEST_F(Spans, MayEndOnAnotherThread) {
  OpenSpan reduce = begin_span({.name = "reduce"});
  std::thread([moved = std::move(reduce)]() mutable {
    moved.end();
    moved.end();
  }).join();
  const SpanBatch batch = drained();
  ASSERT_EQ(batch.events.size(), 1U) << "a second end is none, and the thread that is gone left its ring behind";
  EXPECT_TRUE(drained().events.empty());
}

TEST_F(Spans, AMovedOneEndsOnce) {
  OpenSpan one = begin_span({.name = "one"});
  OpenSpan other;
  other = std::move(one);
  one.end();  // NOLINT(bugprone-use-after-move): the question
  EXPECT_TRUE(drained().events.empty());
  other.end();
  EXPECT_EQ(drained().events.size(), 1U);
}

TEST_F(Spans, UnderWayWhenSwitchedOffAreStillRecorded) {
  {
    const Span span({.name = "span"});
    set_spans_on(false);
  }
  EXPECT_EQ(drained().events.size(), 1U);
}

TEST_F(Spans, WhatDoesNotFitIsDroppedAndCounted) {
  for (size_t i = 0; i < kSpanRingEvents + 10; ++i) record_span({.name = "x", .value = static_cast<int64_t>(i)});
  SpanBatch batch = drained();
  EXPECT_EQ(batch.events.size(), kSpanRingEvents);
  EXPECT_EQ(batch.num_dropped, 10U);
  EXPECT_EQ(batch.events.back().value, static_cast<int64_t>(kSpanRingEvents) - 1) << "the old ones stay";
  record_span({.name = "x"});
  batch = drained();
  EXPECT_EQ(batch.events.size(), 1U) << "there is room again";
  EXPECT_EQ(batch.num_dropped, 0U) << "told once";
}

TEST_F(Spans, TracksAreNamedOnce) {
  EXPECT_EQ(track_names()[static_cast<size_t>(Track::kExposedWait)], "exposed wait");
  const Track mine = track_named("optimizer thread 0");
  EXPECT_EQ(track_named("optimizer thread 0"), mine);
  EXPECT_EQ(track_named("reduce"), Track::kReduce);
  EXPECT_EQ(track_names()[static_cast<size_t>(mine)], "optimizer thread 0");
  {
    const Span span({.name = "x", .category = SpanCategory::kReduce, .track = mine});
  }
  EXPECT_EQ(drained().events[0].track, mine);
}

TEST_F(Spans, NamesMadeAtRunTimeLiveOn) {
  std::string text = "layer 3";
  const char* name = intern_span_name(text);
  EXPECT_EQ(intern_span_name("layer 3"), name);
  text = "changed";
  EXPECT_STREQ(name, "layer 3");
}

// A device that does its work when it is told to: marks are counted, and known when the test says so.
class LateTimer final : public SpanTimer {
 public:
  LateTimer() { set_span_timer(this); }
  ~LateTimer() override { set_span_timer(nullptr); }
  LateTimer(const LateTimer&) = delete;
  LateTimer& operator=(const LateTimer&) = delete;

  int64_t mark() noexcept override { return next_++; }
  void record(const SpanEvent& event, int64_t from_mark, int64_t to_mark) noexcept override {
    record(event, from_mark, [to_mark] { return 1000 * to_mark; });
  }
  void record(const SpanEvent& event, int64_t from_mark, SpanEnd end) noexcept override {
    waiting_.emplace_back(event, std::move(end));
    waiting_.back().first.start_ns = 1000 * from_mark;
  }
  void drop(int64_t mark) noexcept override { dropped.insert(mark); }
  void finish() {
    std::erase_if(waiting_, [](auto& one) {
      one.first.end_ns = one.second();
      if (one.first.end_ns > 0) record_span(one.first);
      return one.first.end_ns != 0;
    });
  }

  std::set<int64_t> dropped;

 private:
  int64_t next_ = 5;
  std::vector<std::pair<SpanEvent, SpanEnd>> waiting_;
};

TEST_F(Spans, PhasesHaveTheTimesOfTheDevice) {
  LateTimer timer;
  {
    const Span step({.name = "forward", .category = SpanCategory::kForward});
    const Span wait({.name = "wait", .category = SpanCategory::kExposedWait});
    const Span data({.name = "batch", .category = SpanCategory::kData});
  }
  SpanBatch now = drained();
  ASSERT_EQ(now.events.size(), 1U);
  EXPECT_STREQ(now.events[0].name, "batch") << "the host's own work";
  timer.finish();
  now = drained();
  ASSERT_EQ(now.events.size(), 2U);
  EXPECT_STREQ(now.events[0].name, "wait");
  EXPECT_EQ(std::pair(now.events[0].start_ns, now.events[0].end_ns), std::pair(int64_t{6000}, int64_t{7000}));
  EXPECT_EQ(std::pair(now.events[1].start_ns, now.events[1].end_ns), std::pair(int64_t{5000}, int64_t{8000}));
  EXPECT_TRUE(timer.dropped.empty());
}

// A reduction begins when the device has made what it reduces, and ends when the host has it.
TEST_F(Spans, WhatEndsElsewhereBeginsOnTheDevice) {
  LateTimer timer;
  OpenSpan reduce = begin_span({.name = "reduce", .category = SpanCategory::kReduce, .bucket = 3});
  int64_t landed_ns = 0;
  reduce.end_when([&] { return landed_ns; });
  reduce.end_when([] { return 9'999; });
  timer.finish();
  EXPECT_TRUE(drained().events.empty()) << "it was waited for, which on a device says nothing of its end";
  landed_ns = 7'500;
  timer.finish();
  const SpanBatch now = drained();
  ASSERT_EQ(now.events.size(), 1U);
  EXPECT_EQ(std::pair(now.events[0].start_ns, now.events[0].end_ns), std::pair(int64_t{5000}, int64_t{7500}));
}

TEST_F(Spans, WithoutADeviceItBeginsWhenItIsAskedFor) {
  const int64_t before_ns = now_ns();
  OpenSpan reduce = begin_span({.name = "reduce", .category = SpanCategory::kReduce});
  reduce.end_when([&] { return before_ns + 1'000'000'000; });
  const SpanBatch now = drained();
  ASSERT_EQ(now.events.size(), 1U);
  EXPECT_GE(now.events[0].start_ns, before_ns);
  EXPECT_EQ(now.events[0].end_ns, before_ns + 1'000'000'000);
}

TEST_F(Spans, WithoutADeviceItEndsNowWhereNobodyNotedIt) {
  const int64_t before_ns = now_ns();
  OpenSpan reduce = begin_span({.name = "reduce", .category = SpanCategory::kReduce});
  reduce.end_when([] { return -1; });
  const SpanBatch now = drained();
  ASSERT_EQ(now.events.size(), 1U);
  EXPECT_GE(now.events[0].end_ns, before_ns);
}

TEST_F(Spans, AMarkThatNobodyEndsIsGivenBack) {
  LateTimer timer;
  {
    OpenSpan open = begin_span({.name = "backward", .category = SpanCategory::kBackward});
    OpenSpan other = begin_span({.name = "backward", .category = SpanCategory::kBackward});
    other = std::move(open);
    EXPECT_EQ(timer.dropped, std::set<int64_t>({6}));
  }
  EXPECT_EQ(timer.dropped, std::set<int64_t>({5, 6}));
  timer.finish();
  EXPECT_TRUE(drained().events.empty());
}

TEST_F(Spans, ATimerThatIsGoneTakesItsSpansAlong) {
  OpenSpan open;
  {
    const LateTimer timer;
    open = begin_span({.name = "step", .category = SpanCategory::kStep});
  }
  open.end();
  EXPECT_TRUE(drained().events.empty());
}

TEST(SpanEvents, DurationsAreNeverNegativeAndNeverOverflow) {
  EXPECT_EQ(duration_ns({.start_ns = 5, .end_ns = 9}), 4);
  EXPECT_EQ(duration_ns({.start_ns = 9, .end_ns = 5}), 0);
  EXPECT_EQ(duration_ns({.start_ns = INT64_MIN, .end_ns = INT64_MAX}), INT64_MAX);
  EXPECT_EQ(duration_ns({.start_ns = INT64_MAX, .end_ns = INT64_MIN}), 0);
}

TEST(SpanEvents, EveryCategoryHasANameOfItsOwn) {
  std::set<std::string_view> names;
  for (int i = 0; i < kNumSpanCategories; ++i) names.insert(name_of(static_cast<SpanCategory>(i)));
  EXPECT_EQ(names.size(), static_cast<size_t>(kNumSpanCategories));
  EXPECT_EQ(name_of(static_cast<SpanCategory>(200)), "other");
}

// Writers come and go, one hands its spans to another, two drain at once. Every event is either there once or counted.
TEST_F(Spans, AreAllThereOrCountedUnderLoad) {
  constexpr int kWriters = 4, kEvents = 30'000;
  std::atomic<bool> stop = false;
  std::atomic<uint64_t> num_seen = 0, num_dropped = 0, checksum = 0;
  const auto drain_once = [&] {
    SpanBatch batch;
    drain_spans(batch);
    num_seen += batch.events.size();
    num_dropped += batch.num_dropped;
    for (const SpanEvent& event : batch.events) {
      checksum += static_cast<uint64_t>(event.value);
      EXPECT_EQ(event.bytes, event.value * 2) << "a torn event";
    }
  };
  std::vector<std::thread> drainers, writers;
  for (int i = 0; i < 2; ++i) {
    drainers.emplace_back([&] {
      while (!stop.load()) drain_once();
    });
  }
  for (int w = 0; w < kWriters; ++w) {
    writers.emplace_back([] {
      for (int64_t i = 0; i < kEvents; ++i) {
        OpenSpan span = begin_span({.name = "x", .bytes = 2 * i, .value = i});
        if (i == kEvents / 2)
          std::thread([moved = std::move(span)]() mutable { moved.end(); }).join();
        else
          span.end();
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  stop.store(true);
  for (std::thread& drainer : drainers) drainer.join();
  drain_once();
  EXPECT_EQ(num_seen + num_dropped, static_cast<uint64_t>(kWriters) * kEvents);
  if (num_dropped == 0) {
    EXPECT_EQ(checksum, uint64_t{kWriters} * kEvents * (kEvents - 1) / 2);
  }
}

}  // namespace
}  // namespace weft
