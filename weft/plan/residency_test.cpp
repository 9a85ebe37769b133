#include "weft/plan/residency.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

namespace weft::plan {
namespace {

using Sizes = std::vector<int64_t>;

std::vector<Touch> trace_of(const std::vector<int>& units) {
  std::vector<Touch> out;
  for (const int unit : units) out.push_back({.unit = unit});
  return out;
}

// Forward through `num_units` layers and back.
std::vector<Touch> there_and_back(int num_units) {
  std::vector<int> units;
  for (int unit = 0; unit < num_units; ++unit) units.push_back(unit);
  for (int unit = num_units - 2; unit >= 0; --unit) units.push_back(unit);
  return trace_of(units);
}

// The rule once more, in the plainest words: whatever is needed and not there is gathered; who is needed last makes room.
int64_t furthest_next_use(const std::vector<Touch>& trace, const Sizes& sizes, int64_t max_live) {
  std::map<int, int64_t> live;
  int64_t gathered = 0;
  const auto next_use = [&](int unit, size_t after) {
    for (size_t i = after; i < trace.size(); ++i) {
      if (trace[i].unit == unit) return i;
    }
    return trace.size();
  };
  const auto total = [&] {
    int64_t sum = 0;
    for (const auto& [unit, size] : live) sum += size;
    return sum;
  };
  for (size_t i = 0; i < trace.size(); ++i) {
    const int unit = trace[i].unit;
    std::erase_if(live, [&](const auto& one) { return next_use(one.first, i) == trace.size(); });
    if (live.contains(unit)) continue;
    const int64_t size = sizes[static_cast<size_t>(unit)];
    while (!live.empty() && total() + size > max_live) {
      const auto last = std::ranges::max_element(live, {}, [&](const auto& one) { return next_use(one.first, i); });
      live.erase(last);
    }
    live[unit] = size;
    gathered += size;
  }
  return gathered;
}

// Walks through the stays as an engine would: whatever is touched is there, and never more than the limit.
void expect_sound(const std::vector<Touch>& trace, const Sizes& sizes, const ResidencyLimits& limits,
                  const Residency& plan) {
  int64_t gathered = 0, peak = 0;
  for (int at = kBeforeFirst; at < std::ssize(trace); ++at) {
    int64_t live = 0;
    std::vector<int> present(sizes.size(), 0);
    for (const Stay& stay : plan.stays) {
      if (at < stay.start || at > stay.last) continue;
      live += sizes[static_cast<size_t>(stay.unit)];
      ++present[static_cast<size_t>(stay.unit)];
    }
    peak = std::max(peak, live);
    EXPECT_LE(*std::ranges::max_element(present), 1) << "a unit is there twice at " << at;
    if (at < 0) continue;
    EXPECT_EQ(present[static_cast<size_t>(trace[static_cast<size_t>(at)].unit)], 1) << "at " << at;
  }
  for (size_t i = 0; i < plan.stays.size(); ++i) {
    const Stay& stay = plan.stays[i];
    gathered += sizes[static_cast<size_t>(stay.unit)];
    EXPECT_LE(stay.start, stay.first);
    EXPECT_LE(stay.first, stay.last);
    EXPECT_LE(plan.stays[i > 0 ? i - 1 : 0].start, stay.start) << "collectives keep their order";
  }
  EXPECT_EQ(plan.gathered_elements, gathered);
  EXPECT_EQ(plan.peak_elements, peak);
  const int64_t largest = *std::ranges::max_element(sizes);
  EXPECT_LE(peak, std::max(limits.max_live, largest));
}

TEST(Residency, WithRoomForAllEachIsGatheredOnce) {
  const auto trace = there_and_back(5);
  const Sizes sizes = {3, 3, 3, 3, 3};
  const Residency plan = make_residency(trace, sizes, {.max_live = 15, .prefetch = 3});
  EXPECT_EQ(plan.gathered_elements, 15);
  expect_sound(trace, sizes, {.max_live = 15, .prefetch = 3}, plan);
}

// Forward keeps what backward needs first; the rest is brought a second time.
TEST(Residency, WithLittleRoomTheFirstLayersComeTwice) {
  const auto trace = there_and_back(4);
  const Sizes sizes = {1, 1, 1, 1};
  const Residency plan = make_residency(trace, sizes, {.max_live = 2});
  EXPECT_EQ(plan.gathered_elements, 6);
  expect_sound(trace, sizes, {.max_live = 2}, plan);
}

TEST(Residency, GathersBeginBeforeTheyAreNeeded) {
  const auto trace = trace_of({0, 1, 2});
  const Sizes sizes = {10, 10, 10};
  const Residency without = make_residency(trace, sizes, {.max_live = 30});
  const Residency with = make_residency(trace, sizes, {.max_live = 30, .prefetch = 10});
  EXPECT_EQ(without.stays[1].start, 1);
  EXPECT_EQ(with.stays[0].start, kBeforeFirst);
  EXPECT_EQ(with.stays[1].start, 0);
  EXPECT_EQ(with.stays[2].start, 1);
  EXPECT_EQ(with.gathered_elements, without.gathered_elements);
}

TEST(Residency, AUnitOfOneOperatorDoesNotPushOutAnother) {
  const std::vector<Touch> trace = {{.unit = 0}, {.unit = 1, .with_previous = true}, {.unit = 2}};
  const Residency plan = make_residency(trace, {1, 1, 1}, {.max_live = 1});
  EXPECT_EQ(plan.peak_elements, 2);
  EXPECT_EQ(plan.stays[0].last, 1) << "until the operator has ended";
}

TEST(Residency, WhatIsUsedAgainFarAwayLeavesMeanwhile) {
  const auto trace = trace_of({0, 1, 2, 1, 0});
  const Residency near = make_residency(trace, {4, 4, 4}, {.max_live = 100, .max_reuse_distance = 12});
  EXPECT_EQ(near.gathered_elements, 12);
  const Residency far = make_residency(trace, {4, 4, 4}, {.max_live = 100, .max_reuse_distance = 11});
  EXPECT_EQ(far.gathered_elements, 16) << "unit 0 is 12 elements away";
}

TEST(Residency, AnEmptyTraceGathersNothing) {
  const Residency plan = make_residency({}, {1, 2}, {.max_live = 3, .prefetch = 3});
  EXPECT_TRUE(plan.stays.empty());
  EXPECT_EQ(plan.peak_elements, 0);
}

TEST(Residency, MovesWhatTheFurthestNextUseMoves) {
  std::mt19937 rng(7);
  const auto draw = [&](int low, int high) { return std::uniform_int_distribution(low, high)(rng); };
  for (int trial = 0; trial < 300; ++trial) {
    Sizes sizes;
    for (int unit = draw(1, 8); unit > 0; --unit) sizes.push_back(draw(1, 9));
    std::vector<int> units;
    for (int touch = draw(1, 40); touch > 0; --touch) units.push_back(draw(0, static_cast<int>(sizes.size()) - 1));
    units.erase(std::ranges::unique(units).begin(), units.end());
    const auto trace = trace_of(units);
    const ResidencyLimits limits{.max_live = draw(0, 40), .prefetch = draw(0, 20)};
    const Residency plan = make_residency(trace, sizes, limits);
    EXPECT_EQ(plan.gathered_elements, furthest_next_use(trace, sizes, limits.max_live));
    expect_sound(trace, sizes, limits, plan);
  }
}

}  // namespace
}  // namespace weft::plan
