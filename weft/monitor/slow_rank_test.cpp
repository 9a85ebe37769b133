#include "weft/monitor/slow_rank.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>

#include "weft/base/text.h"

namespace weft {
namespace {

constexpr double kStepMs = 200;
constexpr double RankNumbers::* kParts[] = {&RankNumbers::data_ms, &RankNumbers::forward_ms, &RankNumbers::backward_ms,
                                            &RankNumbers::optimizer_ms};
constexpr const char* kNames[] = {"data", "forward", "backward", "optimizer"};
constexpr double kShares[] = {0.02, 0.3, 0.55, 0.13};
constexpr int kNumBuckets = 6;

// A world whose steps scatter like those of a shared machine: 8 % from step to step in common, 5 % in each rank and part, and now and
// then a step twice as long.
class World {
 public:
  World(int num_ranks, uint32_t seed) : num_ranks_(num_ranks), random_(seed) {}

  struct Slowdown {
    int rank = -1;
    int part = 0;
    double ms = 0;
    int bucket = 0;  // of backward
  };

  // How many times as long anything takes a rank's processor; 1 unless it is said.
  std::map<int, double> paces = {};

  std::vector<RankNumbers> step(const Slowdown& slow) {
    std::vector<RankNumbers> out(static_cast<size_t>(num_ranks_));
    const double common = scatter(0.08);
    for (int rank = 0; rank < num_ranks_; ++rank) {
      RankNumbers& one = out[static_cast<size_t>(rank)];
      const double pace = paces.contains(rank) ? paces[rank] : 1, all = pace * common;
      one.pace_us = 20 * pace * scatter(0.02);
      const double hiccup = std::uniform_real_distribution(0.0, 1.0)(random_) < 0.03 ? 2 : 1;
      for (int part = 0; part < 4; ++part) one.*kParts[part] = kStepMs * kShares[part] * all * hiccup * scatter(0.05);
      one.num_buckets = kNumBuckets;
      for (int i = 0; i < kNumBuckets; ++i)
        one.ready_ms[static_cast<size_t>(i)] = one.backward_ms * (i + 1) / kNumBuckets;
      if (rank == slow.rank) apply(slow, one);
      for (const auto part : kParts) one.busy_ms += one.*part;
      one.reduce_ms = 10 * scatter(0.1);
    }
    return out;
  }

 private:
  static void apply(const Slowdown& slow, RankNumbers& one) {
    one.*kParts[slow.part] += slow.ms;
    if (slow.part != 2) return;
    for (int i = slow.bucket; i < kNumBuckets; ++i) one.ready_ms[static_cast<size_t>(i)] += slow.ms;
  }
  double scatter(double sigma) { return std::exp(std::normal_distribution(0.0, sigma)(random_)); }

  int num_ranks_;
  std::mt19937 random_;
};

SlowRanks finder() {
  SlowRankOptions options;
  for (int i = 0; i < kNumBuckets; ++i) options.bucket_names.push_back(cat("blocks.", i));
  return SlowRanks(options);
}

TEST(SlowRanks, NamesRankPartAndPlaceOfTwoHundredSlowdowns) {
  std::mt19937 random(7);
  const auto draw = [&](int from, int to) { return std::uniform_int_distribution(from, to)(random); };
  int num_right = 0, num_places = 0, num_backward = 0;
  for (uint32_t trial = 0; trial < 200; ++trial) {
    const int num_ranks = draw(2, 8);
    const World::Slowdown slow{.rank = draw(0, num_ranks - 1),
                               .part = draw(0, 3),
                               .ms = kStepMs * std::uniform_real_distribution(0.05, 0.5)(random),
                               .bucket = draw(0, kNumBuckets - 1)};
    World world(num_ranks, trial);
    SlowRanks slow_ranks = finder();
    for (int64_t step = 1; step <= 160; ++step) slow_ranks.add(step, world.step(step > 64 ? slow : World::Slowdown()));
    const auto& found = slow_ranks.now();
    const bool is_right = found.size() == 1 && found[0].rank == slow.rank && found[0].phase == kNames[slow.part];
    num_right += is_right ? 1 : 0;
    if (!is_right) continue;
    EXPECT_NEAR(static_cast<double>(found[0].since_step), 65, 12) << "trial " << trial;
    if (slow.part != 2) continue;
    ++num_backward;
    num_places += found[0].where == cat("blocks.", slow.bucket) ? 1 : 0;
  }
  EXPECT_GE(num_right, 196);
  EXPECT_GE(num_places, num_backward * 9 / 10) << "of " << num_backward;
}

TEST(SlowRanks, IsQuietWhereNobodyIsSlow) {
  for (const int num_ranks : {2, 3, 8}) {
    World world(num_ranks, 99);
    SlowRanks slow_ranks = finder();
    for (int64_t step = 1; step <= 1000; ++step) {
      const auto news = slow_ranks.add(step, world.step({}));
      EXPECT_TRUE(news.empty()) << num_ranks << " ranks, step " << step << ": " << text_of(news.front());
    }
  }
}

// Of a step of 10 ms: 6 % is the host's scheduler, 9 % is not.
TEST(SlowRanks, NamesNobodyForWhatASchedulerDoes) {
  for (const auto& [more_ms, is_named] : {std::pair(0.6, false), std::pair(0.9, true)}) {
    SlowRanks slow_ranks = finder();
    std::vector<RankNumbers> ranks(2, {.busy_ms = 10, .forward_ms = 3, .backward_ms = 6, .optimizer_ms = 1});
    ranks[1].forward_ms += more_ms;
    for (int64_t step = 1; step <= 64; ++step) slow_ranks.add(step, ranks);
    EXPECT_EQ(!slow_ranks.now().empty(), is_named) << more_ms;
  }
}

TEST(SlowRanks, SaysOnceThatItBeganAndOnceThatItIsOver) {
  World world(3, 5);
  SlowRanks slow_ranks = finder();
  std::vector<SlowRank> news;
  for (int64_t step = 1; step <= 300; ++step) {
    const bool is_slow = step > 50 && step <= 150;
    for (auto& one : slow_ranks.add(step, world.step(is_slow ? World::Slowdown{1, 1, 40} : World::Slowdown())))
      news.push_back(one);
  }
  ASSERT_EQ(news.size(), 2U);
  EXPECT_EQ(news[0].rank, 1);
  EXPECT_FALSE(news[0].is_over);
  EXPECT_TRUE(news[1].is_over);
  EXPECT_NEAR(news[0].ms, 40, 5);
  EXPECT_NE(text_of(news[0]).find("rank 1 is slow: forward takes "), std::string::npos) << text_of(news[0]);
  EXPECT_EQ(text_of(news[1]), "rank 1 is no longer slow in forward");
}

TEST(SlowRanks, ALinkThatGotSlowerIsNobodys) {
  World world(4, 11);
  SlowRanks slow_ranks = finder();
  for (int64_t step = 1; step <= 200; ++step) {
    auto ranks = world.step({});
    for (RankNumbers& one : ranks) {
      one.reduce_ms += step > 100 ? 60 : 0;
      one.exposed_comm_ms = step > 100 ? 55 : 2;
    }
    slow_ranks.add(step, ranks);
  }
  ASSERT_EQ(slow_ranks.now().size(), 1U);
  EXPECT_EQ(slow_ranks.now()[0].rank, -1);
  EXPECT_EQ(slow_ranks.now()[0].phase, "link");
  EXPECT_NEAR(slow_ranks.now()[0].ms, 60, 5);
}

std::vector<std::string> named(const SlowRanks& slow_ranks) {
  std::vector<std::string> out;
  for (const SlowRank& one : slow_ranks.now()) out.push_back(cat(one.rank, " ", one.phase));
  return out;
}

TEST(SlowRanks, ASlowProcessorIsNoLayersFault) {
  for (const int num_ranks : {2, 5}) {
    World world(num_ranks, 21);
    SlowRanks slow_ranks = finder();
    for (int64_t step = 1; step <= 400; ++step) {
      if (step == 100) world.paces[1] = 1.1;
      slow_ranks.add(step, world.step({}));
    }
    ASSERT_EQ(named(slow_ranks), std::vector<std::string>{"1 processor"}) << num_ranks;
    const SlowRank& found = slow_ranks.now()[0];
    EXPECT_NEAR(found.percent, 10, 3);
    EXPECT_NEAR(static_cast<double>(found.since_step), 100, 12);
    EXPECT_NE(text_of(found).find("rank 1 is slow: for the same work its processor takes"), std::string::npos)
        << text_of(found);
    EXPECT_NE(text_of(found).find("longer than those of other ranks, since step"), std::string::npos);
  }
}

// On a machine with neighbours the cores of ranks differ by more than what is looked for.
TEST(SlowRanks, FindsThePartWhateverTheProcessorsAreLike) {
  for (const double pace : {0.85, 1.15}) {
    for (int part = 0; part < 4; ++part) {
      World world(2, 33);
      world.paces[0] = pace;
      SlowRanks slow_ranks = finder();
      const World::Slowdown slow{.rank = 0, .part = part, .ms = 0.12 * kStepMs};
      for (int64_t step = 1; step <= 200; ++step) slow_ranks.add(step, world.step(slow));
      std::vector<std::string> found = named(slow_ranks);
      std::erase(found, cat(pace > 1 ? 0 : 1, " processor"));
      EXPECT_EQ(found, std::vector<std::string>{cat(0, " ", kNames[part])}) << pace;
    }
  }
}

TEST(SlowRanks, AReductionThatMovedIntoALateRanksBackwardIsNotNamed) {
  World world(2, 8);
  SlowRanks slow_ranks = finder();
  for (int64_t step = 1; step <= 200; ++step) {
    auto ranks = world.step({.rank = 1, .part = 0, .ms = 60});
    ranks[1].reduce_ms = 20;
    ranks[1].backward_ms += 20;
    ranks[0].reduce_ms = 80;  // it waits
    slow_ranks.add(step, ranks);
  }
  EXPECT_EQ(named(slow_ranks), std::vector<std::string>{"1 data"});
}

TEST(SlowRanks, WithoutAPaceEverybodyIsEquallyFast) {
  World world(3, 5);
  SlowRanks slow_ranks = finder();
  for (int64_t step = 1; step <= 200; ++step) {
    auto ranks = world.step({.rank = 2, .part = 1, .ms = 40});
    for (RankNumbers& one : ranks) one.pace_us = step % 2 == 0 ? 0 : NAN;
    slow_ranks.add(step, ranks);
  }
  EXPECT_EQ(named(slow_ranks), std::vector<std::string>{"2 forward"});
}

TEST(SlowRanks, FindsOneOfAThousandRanks) {
  World world(1000, 3);
  SlowRanks slow_ranks = finder();
  for (int64_t step = 1; step <= 64; ++step) slow_ranks.add(step, world.step({.rank = 637, .part = 1, .ms = 40}));
  EXPECT_EQ(named(slow_ranks), std::vector<std::string>{"637 forward"});
}

TEST(SlowRanks, TakesAnyNumbers) {
  SlowRanks slow_ranks = finder();
  RankNumbers odd{.step_ms = NAN,
                  .busy_ms = INFINITY,
                  .forward_ms = -1e300,
                  .backward_ms = NAN,
                  .num_buckets = 1e300,
                  .pace_us = -INFINITY};
  odd.ready_ms.fill(-INFINITY);
  for (int64_t step = 1; step <= 100; ++step)
    slow_ranks.add(step, std::vector<RankNumbers>(step % 50 == 0 ? 3 : 2, odd));
  EXPECT_TRUE(slow_ranks.now().empty());
}

// More buckets than a rank tells of one by one: the layers are still those that are late, and not the 33rd for all that follow.
TEST(SlowRanks, FindsTheLayerAmongManyBuckets) {
  constexpr int kBuckets = 100, kLate = 70;
  std::vector<std::string> names;
  for (int bucket = 0; bucket < kBuckets; ++bucket) names.push_back(cat("layers.", kBuckets - 1 - bucket));
  SlowRanks slow_ranks({.bucket_names = names});
  for (int64_t step = 1; step <= 64; ++step) {
    std::vector<RankNumbers> ranks;
    for (const double late_ms : {0.0, 30.0, 0.0}) {
      StepTimes times{.step_ms = 130, .backward_busy_ms = 100 + late_ms, .busy_ms = 100 + late_ms};
      for (int bucket = 0; bucket < kBuckets; ++bucket)
        times.buckets.push_back({.bucket = bucket, .ready_ms = bucket + (bucket >= kLate ? late_ms : 0)});
      ranks.push_back(numbers_of(times));
    }
    slow_ranks.add(step, ranks);
  }
  ASSERT_EQ(slow_ranks.now().size(), 1U);
  EXPECT_EQ(slow_ranks.now()[0].rank, 1);
  EXPECT_EQ(slow_ranks.now()[0].where, "layers.30 to layers.28") << "of buckets 69 to 71";
}

TEST(RankNumbers, EveryBucketHasOnePlace) {
  for (const size_t num : {1, 2, 31, 32, 33, 64, 65, 1000}) {
    size_t next = 0;
    for (size_t place = 0; place < std::min(num, kNumReadyTimes); ++place) {
      const BucketRange range = buckets_of_place(place, num);
      EXPECT_EQ(range.first, next) << num;
      EXPECT_LE(range.first, range.last) << num;
      next = range.last + 1;
    }
    EXPECT_EQ(next, num);
    StepTimes times;
    for (size_t bucket = 0; bucket < num; ++bucket)
      times.buckets.push_back({.bucket = static_cast<int32_t>(bucket), .ready_ms = 1.0 + static_cast<double>(bucket)});
    const RankNumbers told = numbers_of(times);
    for (size_t place = 0; place < std::min(num, kNumReadyTimes); ++place)
      EXPECT_EQ(told.ready_ms[place], 1.0 + static_cast<double>(buckets_of_place(place, num).last)) << num;
  }
}

TEST(RankNumbers, ComeOutAsTheyWentIn) {
  StepTimes times{.step_ms = 1,
                  .data_ms = 2,
                  .exposed_comm_ms = 3,
                  .busy_ms = 4,
                  .buckets = {{.bucket = 5, .ready_ms = 6}, {.bucket = -3}}};
  RankNumbers numbers = numbers_of(times);
  numbers.gpu_percent = 7;
  std::array<double, kNumRankNumbers> packed = {};
  numbers.pack(packed);
  const RankNumbers back = RankNumbers::unpack(packed);
  EXPECT_EQ(back.step_ms, 1);
  EXPECT_EQ(back.data_ms, 2);
  EXPECT_EQ(back.exposed_comm_ms, 3);
  EXPECT_EQ(back.busy_ms, 4);
  EXPECT_EQ(back.num_buckets, 6);
  EXPECT_EQ(back.ready_ms[5], 6);
  EXPECT_EQ(back.gpu_percent, 7);
}

}  // namespace
}  // namespace weft
