#include "weft/monitor/step_times.h"

#include <gtest/gtest.h>

#include <climits>

#include "weft/monitor/test_spans_impl.h"

namespace weft {
namespace {

SpanEvent span_in_ms(SpanCategory category, int64_t start_ms, int64_t end_ms, int64_t value = 0) {
  return span_of(category, start_ms * kMs, end_ms * kMs, value);
}

SpanEvent reduce(int32_t bucket, int64_t start_ms, int64_t end_ms, int64_t bytes = 1024) {
  SpanEvent event = span_in_ms(SpanCategory::kReduce, start_ms, end_ms);
  event.bucket = bucket;
  event.bytes = bytes;
  return event;
}

// 100 ms from `at`: 5 data, 30 forward, 40 backward, 20 optimizer of which 8 wait for two buckets, 5 other.
std::vector<SpanEvent> whole_step(int64_t number, int64_t at) {
  return {span_in_ms(SpanCategory::kData, at, at + 5),
          span_in_ms(SpanCategory::kForward, at + 5, at + 35),
          reduce(0, at + 50, at + 65),
          span_in_ms(SpanCategory::kBackward, at + 35, at + 75),
          reduce(1, at + 60, at + 83),
          span_in_ms(SpanCategory::kExposedWait, at + 75, at + 83),
          span_in_ms(SpanCategory::kOptimizer, at + 75, at + 95),
          span_in_ms(SpanCategory::kStep, at, at + 100, number)};
}

TEST(StepTimes, PartsAddUpToTheStep) {
  StepCollector collector;
  const auto steps = collector.add(whole_step(7, 1000));
  ASSERT_EQ(steps.size(), 1U);
  const StepTimes& step = steps[0];
  EXPECT_EQ(step.step, 7);
  EXPECT_DOUBLE_EQ(step.step_ms, 100);
  EXPECT_DOUBLE_EQ(step.data_ms, 5);
  EXPECT_DOUBLE_EQ(step.forward_ms, 30);
  EXPECT_DOUBLE_EQ(step.backward_ms, 40);
  EXPECT_DOUBLE_EQ(step.optimizer_ms, 20);
  EXPECT_DOUBLE_EQ(step.other_ms, 5);
  EXPECT_DOUBLE_EQ(step.exposed_comm_ms, 8);
  EXPECT_DOUBLE_EQ(step.optimizer_busy_ms, 12) << "eight of its twenty are a wait";
  EXPECT_DOUBLE_EQ(step.backward_busy_ms, 40);
  EXPECT_DOUBLE_EQ(step.busy_ms, 92);
  EXPECT_DOUBLE_EQ(step.buckets[0].ready_ms, 15) << "50, where backward began at 35";
  EXPECT_DOUBLE_EQ(step.buckets[1].ready_ms, 25);
  EXPECT_DOUBLE_EQ(step.reduce_ms, 33) << "50 to 83: five milliseconds of it are two buckets at once";
  ASSERT_EQ(step.buckets.size(), 2U);
  EXPECT_EQ(step.buckets[1].bucket, 1);
  EXPECT_DOUBLE_EQ(step.buckets[0].ms, 15);
  EXPECT_DOUBLE_EQ(step.buckets[1].ms, 23);
  EXPECT_EQ(step.buckets[1].bytes, 1024);
}

TEST(StepTimes, StepsMayComeInPiecesOrSeveralAtOnce) {
  std::vector<SpanEvent> all;
  for (int64_t i = 0; i < 3; ++i) {
    for (const SpanEvent& event : whole_step(i, 100 * i)) all.push_back(event);
  }
  StepCollector at_once, one_by_one;
  const auto expected = at_once.add(all);
  ASSERT_EQ(expected.size(), 3U);
  std::vector<StepTimes> found;
  for (const SpanEvent& event : all) {
    for (const StepTimes& step : one_by_one.add({&event, 1})) found.push_back(step);
  }
  ASSERT_EQ(found.size(), 3U);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(found[i].step, static_cast<int64_t>(i));
    EXPECT_EQ(found[i].exposed_comm_ms, expected[i].exposed_comm_ms);
    EXPECT_EQ(found[i].other_ms, expected[i].other_ms);
    EXPECT_EQ(found[i].buckets.size(), 2U);
  }
}

TEST(StepTimes, AWaitInsideAWaitIsWaitedOnce) {
  StepCollector collector;
  const auto steps = collector.add(
      std::vector{span_in_ms(SpanCategory::kExposedWait, 10, 20), span_in_ms(SpanCategory::kExposedWait, 5, 30),
                  span_in_ms(SpanCategory::kExposedWait, 40, 41), span_in_ms(SpanCategory::kStep, 0, 50)});
  EXPECT_DOUBLE_EQ(steps.at(0).exposed_comm_ms, 26);
}

TEST(StepTimes, WhatLiesBeforeTheStepIsNotInIt) {
  StepCollector collector;
  const auto steps = collector.add(std::vector{span_in_ms(SpanCategory::kForward, 0, 60), reduce(0, 10, 70),
                                               span_in_ms(SpanCategory::kStep, 50, 100)});
  EXPECT_DOUBLE_EQ(steps.at(0).forward_ms, 10) << "an evaluation that ran on is cut";
  EXPECT_DOUBLE_EQ(steps.at(0).buckets.at(0).ms, 60) << "a reduce is a whole one";
}

TEST(StepTimes, ALateReduceCountsForTheNextStep) {
  StepCollector collector;
  EXPECT_TRUE(collector.add(std::vector{span_in_ms(SpanCategory::kStep, 0, 10)}).at(0).buckets.empty());
  const auto next = collector.add(std::vector{reduce(4, 2, 9), span_in_ms(SpanCategory::kStep, 10, 20)});
  EXPECT_EQ(next.at(0).buckets.at(0).bucket, 4);
}

TEST(StepTimes, SurvivesTimesThatCannotBe) {
  StepCollector collector;
  SpanEvent huge = span_in_ms(SpanCategory::kForward, 0, 0);
  huge.start_ns = INT64_MIN;
  huge.end_ns = INT64_MAX;
  SpanEvent odd = span_in_ms(static_cast<SpanCategory>(99), 1, 2);
  const auto steps =
      collector.add(std::vector{span_in_ms(SpanCategory::kForward, 9, 3), odd, reduce(-1, 8, 1, -5),
                                span_in_ms(SpanCategory::kStep, 10, 5), huge, span_in_ms(SpanCategory::kStep, 20, 30)});
  ASSERT_EQ(steps.size(), 2U);
  EXPECT_EQ(steps[0].step_ms, 0);
  EXPECT_EQ(steps[0].forward_ms, 0);
  EXPECT_EQ(steps[0].buckets.at(0).bytes, 0);
}

TEST(StepTimes, WithoutStepsMemoryStaysBounded) {
  StepCollector collector;
  const std::vector<SpanEvent> many(StepCollector::kMaxPending + 5, span_in_ms(SpanCategory::kForward, 1, 2));
  EXPECT_TRUE(collector.add(many).empty());
  EXPECT_EQ(collector.num_forgotten(), 5U);
  EXPECT_EQ(collector.add(std::vector{span_in_ms(SpanCategory::kStep, 0, 3)}).size(), 1U);
}

TEST(StepHistory, LeavesTheWarmUpOut) {
  StepHistory history;
  for (int i = 0; i < 15; ++i)
    history.add({.step_ms = i < 5 ? 1000.0 : 10.0 + i, .exposed_comm_ms = i < 5 ? 500.0 : 1.0});
  const StepSummary summary = history.summary();
  EXPECT_DOUBLE_EQ(summary.step_ms.min, 15);
  EXPECT_DOUBLE_EQ(summary.step_ms.median, 19);
  EXPECT_DOUBLE_EQ(summary.step_ms.p90, 23);
  EXPECT_DOUBLE_EQ(summary.exposed_comm_ms.p90, 1);
  EXPECT_DOUBLE_EQ(StepHistory().summary().step_ms.median, 0);
}

TEST(Breakdown, SpeaksEverySoManySteps) {
  Breakdown breakdown(2);
  StepCollector collector;
  EXPECT_TRUE(breakdown.add(collector.add(whole_step(1, 0)).at(0)).empty());
  const auto lines = breakdown.add(collector.add(whole_step(2, 100)).at(0));
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0],
            "step 2: 100.0 ms a step over 2: forward 30.0, backward 40.0, optimizer 20.0, data 5.0, other 5.0");
  EXPECT_EQ(
      lines[1],
      "  waiting for communication 8.0 ms (8.0 %); 2 buckets, 2.0 KiB, on their way for 33.0 ms, longest bucket 1 "
      "with 23.0 ms");
  EXPECT_TRUE(breakdown.add({.step = 3}).empty());
  EXPECT_EQ(breakdown.add({.step = 4}).size(), 1U) << "one rank has nothing to say of communication";
}

TEST(Breakdown, WithoutAnIntervalIsSilent) {
  for (const int64_t never : {int64_t{0}, int64_t{-1}, INT64_MIN}) {
    Breakdown breakdown(never);
    EXPECT_TRUE(breakdown.add({.step = 0, .step_ms = 1}).empty());
  }
}

}  // namespace
}  // namespace weft
