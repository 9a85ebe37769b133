#include "weft/sim/collective_cost.h"

#include <gtest/gtest.h>

#include <limits>
#include <set>
#include <tuple>

#include "weft/base/error.h"
#include "weft/base/text.h"
#include "weft/sim/collective_replay.h"

namespace weft::sim {
namespace {

// The classroom: 8 ranks, 5 MB, 1 MB/s.
constexpr Problem kClassroom{.world = 8, .bytes = 5'000'000};
constexpr Link kSlowLink{.latency_s = 0, .bytes_per_s = 1e6};

std::string described(const Schedule& schedule) {
  return cat(name_of(schedule.algorithm), ", world ", schedule.problem.world, ", bytes ", schedule.problem.bytes,
             ", root ", schedule.problem.root);
}

std::string pairs_of(const Schedule& schedule, int step) {
  std::string out;
  for (const Transfer& message : schedule.transfers) {
    if (message.step == step) out += cat(out.empty() ? "" : " ", message.from, ">", message.to);
  }
  return out;
}

template <typename Body>
void sweep(Body body) {
  for (const Algorithm algorithm : kAllAlgorithms) {
    for (const int world : {1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 16}) {
      for (const uint64_t bytes : {uint64_t{0}, uint64_t{1}, uint64_t{5}, uint64_t{5'000'000}}) {
        for (const int root : std::set<int>{0, world / 2, world - 1}) {
          body(make_schedule(algorithm, {.world = world, .bytes = bytes, .root = root},
                             {.latency_s = 1e-3, .bytes_per_s = 1e6}));
        }
      }
    }
  }
}

TEST(CollectiveCost, TheClassroomExamples) {
  const std::tuple<Algorithm, double, int> cases[] = {
      {Algorithm::kSerialBroadcast, 35, 7},      {Algorithm::kTreeBroadcast, 15, 3},
      {Algorithm::kTreeReduce, 15, 3},           {Algorithm::kReduceThenBroadcast, 30, 6},
      {Algorithm::kRingReduceScatter, 4.375, 7}, {Algorithm::kRingAllGather, 4.375, 7},
      {Algorithm::kRingAllReduce, 8.75, 14}};
  for (const auto& [algorithm, time_s, steps] : cases) {
    const Schedule schedule = make_schedule(algorithm, kClassroom, kSlowLink);
    EXPECT_DOUBLE_EQ(schedule.time_s(), time_s) << name_of(algorithm);
    EXPECT_EQ(schedule.num_steps(), steps) << name_of(algorithm);
  }
}

TEST(CollectiveCost, TheTreeHalvesTheDistanceEachStep) {
  const Schedule tree = make_schedule(Algorithm::kTreeBroadcast, kClassroom, kSlowLink);
  EXPECT_EQ(pairs_of(tree, 0), "0>4");
  EXPECT_EQ(pairs_of(tree, 1), "0>2 4>6");
  EXPECT_EQ(pairs_of(tree, 2), "0>1 2>3 4>5 6>7");
  const Schedule up = make_schedule(Algorithm::kTreeReduce, kClassroom, kSlowLink);
  EXPECT_EQ(pairs_of(up, 0), "1>0 3>2 5>4 7>6");
  EXPECT_EQ(pairs_of(up, 2), "4>0");
}

TEST(CollectiveCost, EveryScheduleEndsWithWhatItPromises) {
  sweep([](const Schedule& schedule) {
    const auto states = replay(schedule);
    ASSERT_EQ(states.size(), static_cast<size_t>(schedule.num_steps()) + 1) << described(schedule);
    EXPECT_TRUE(is_complete(schedule, states.back())) << described(schedule);
    // And not before: a step could otherwise be saved.
    const bool is_early = states.size() > 1 && is_complete(schedule, states[states.size() - 2]);
    EXPECT_FALSE(is_early) << described(schedule);
  });
}

TEST(CollectiveCost, AMissingMessageIsNoticed) {
  for (const Algorithm algorithm : kAllAlgorithms) {
    const Schedule whole = make_schedule(algorithm, kClassroom, kSlowLink);
    for (size_t i = 0; i < whole.transfers.size(); ++i) {
      Schedule broken = whole;
      broken.transfers[i].to = broken.transfers[i].from;  // went nowhere
      broken.transfers[i].adds = false;
      EXPECT_FALSE(is_complete(broken, replay(broken).back())) << name_of(algorithm) << " " << i;
    }
  }
}

TEST(CollectiveCost, OneSendAndOneReceiveAtATime) {
  sweep([](const Schedule& schedule) {
    const auto& all = schedule.transfers;
    for (size_t i = 0; i < all.size(); ++i) {
      EXPECT_NE(all[i].from, all[i].to) << described(schedule);
      for (size_t j = i + 1; j < all.size(); ++j) {
        const bool apart = all[i].end_s <= all[j].start_s || all[j].end_s <= all[i].start_s;
        const bool share = all[i].from == all[j].from || all[i].to == all[j].to;
        EXPECT_TRUE(apart || !share) << described(schedule);
      }
    }
  });
}

TEST(CollectiveCost, NothingIsSentOnBeforeItIsThere) {
  sweep([](const Schedule& schedule) {
    for (const Transfer& later : schedule.transfers) {
      for (const Transfer& earlier : schedule.transfers) {
        const bool feeds = earlier.step < later.step && earlier.to == later.from && earlier.part == later.part;
        EXPECT_TRUE(!feeds || earlier.end_s <= later.start_s) << described(schedule);
      }
    }
  });
}

TEST(CollectiveCost, TimesAreTheFormulasWhereTheBytesDivide) {
  for (const Algorithm algorithm : kAllAlgorithms) {
    for (const int world : {1, 2, 3, 5, 8, 12}) {
      const Problem problem{.world = world, .bytes = 840'000};
      const Link link{.latency_s = 2e-3, .bytes_per_s = 3e6};
      EXPECT_NEAR(make_schedule(algorithm, problem, link).time_s(), formula_time_s(algorithm, problem, link), 1e-9)
          << name_of(algorithm) << ", world " << world;
    }
  }
}

TEST(CollectiveCost, PartsAddUp) {
  for (const int parts : {1, 2, 3, 7, 8}) {
    for (const uint64_t bytes : {uint64_t{0}, uint64_t{1}, uint64_t{6}, uint64_t{1'000'003}, UINT64_MAX}) {
      uint64_t sum = 0;
      for (int part = 0; part < parts; ++part) sum += part_bytes(bytes, parts, part);
      EXPECT_EQ(sum, bytes) << parts;
    }
  }
}

TEST(CollectiveCost, TheBusiestRankOfARingSendsNearlyTwiceTheBytes) {
  const Schedule ring = make_schedule(Algorithm::kRingAllReduce, kClassroom, kSlowLink);
  EXPECT_EQ(ring.busiest_bytes(), 5'000'000U * 2 * 7 / 8);
  EXPECT_EQ(ring.total_bytes(), 8 * ring.busiest_bytes());
  EXPECT_EQ(make_schedule(Algorithm::kSerialBroadcast, kClassroom, kSlowLink).busiest_bytes(), 35'000'000U);
}

TEST(CollectiveCost, OneRankSendsNothing) {
  for (const Algorithm algorithm : kAllAlgorithms) {
    const Schedule alone = make_schedule(algorithm, {.world = 1, .bytes = 7}, kSlowLink);
    EXPECT_TRUE(alone.transfers.empty()) << name_of(algorithm);
    EXPECT_EQ(alone.time_s(), 0) << name_of(algorithm);
    EXPECT_EQ(alone.busiest_bytes(), 0U) << name_of(algorithm);
  }
}

TEST(CollectiveCost, WhatCannotBeIsRefused) {
  const auto refused = [](const Problem& problem, const Link& link) {
    EXPECT_THROW(make_schedule(Algorithm::kTreeBroadcast, problem, link), Error);
    EXPECT_THROW(formula_time_s(Algorithm::kTreeBroadcast, problem, link), Error);
  };
  refused({.world = 0}, kSlowLink);
  refused({.world = 4, .bytes = 1, .root = 4}, kSlowLink);
  refused({.world = 4, .bytes = 1, .root = -1}, kSlowLink);
  refused(kClassroom, {.latency_s = 0, .bytes_per_s = 0});
  refused(kClassroom, {.latency_s = -1, .bytes_per_s = 1});
  refused(kClassroom, {.latency_s = 0, .bytes_per_s = std::numeric_limits<double>::infinity()});
}

}  // namespace
}  // namespace weft::sim
