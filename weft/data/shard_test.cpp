#include "weft/data/shard.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "weft/data/test_refusal_impl.h"

namespace weft::data {
namespace {

constexpr int64_t kSizes[] = {1, 2, 3, 5, 7, 8, 16, 31, 64, 97};
constexpr int64_t kWorlds[] = {1, 2, 3, 4, 5, 8, 9, 16, 100};

std::vector<int64_t> places_of(const SamplerOptions& options, int64_t consumed = 0) {
  const ShardPlaces places(options, consumed);
  std::vector<int64_t> out;
  for (int64_t i = 0; i < places.size(); ++i) out.push_back(places.at(i));
  return out;
}

// How often each sample comes in the epoch of all ranks, from `consumed` on.
std::vector<int64_t> counts_of(SamplerOptions options, int64_t consumed = 0) {
  std::vector<int64_t> counts(static_cast<size_t>(options.num_samples));
  for (options.rank = 0; options.rank < options.world; ++options.rank) {
    for (const int64_t place : places_of(options, consumed)) ++counts[static_cast<size_t>(place)];
  }
  return counts;
}

// Calls body for every size, world and drop_last that the sampler accepts.
template <typename Body>
void for_each_shape(Body body) {
  for (const int64_t n : kSizes) {
    for (const int64_t world : kWorlds) {
      for (const bool drop_last : {false, true}) {
        if (drop_last && world > n) continue;
        SCOPED_TRACE(testing::Message() << n << " samples, " << world << " ranks, drop_last " << drop_last);
        body(SamplerOptions{.num_samples = n, .world = world, .drop_last = drop_last});
      }
    }
  }
}

TEST(ShardPlaces, EverySampleComesOnceWhereTheWorldDivides) {
  for_each_shape([](const SamplerOptions& options) {
    if (options.num_samples % options.world != 0) return;
    EXPECT_EQ(counts_of(options), std::vector<int64_t>(static_cast<size_t>(options.num_samples), 1));
  });
}

TEST(ShardPlaces, PaddingRepeatsTheFirstSamplesInOrder) {
  for_each_shape([](const SamplerOptions& options) {
    if (options.drop_last) return;
    const auto counts = counts_of(options);
    const int64_t total = (options.num_samples + options.world - 1) / options.world * options.world;
    EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), int64_t{0}), total);
    EXPECT_TRUE(std::ranges::is_sorted(counts, std::greater<>()));
    EXPECT_LE(counts.front() - counts.back(), 1);
    EXPECT_GE(counts.back(), 1);
  });
}

TEST(ShardPlaces, DropLastLeavesOutLessThanOneRound) {
  for_each_shape([](const SamplerOptions& options) {
    if (!options.drop_last) return;
    const auto counts = counts_of(options);
    EXPECT_EQ(std::ranges::count(counts, 0), options.num_samples % options.world);
    EXPECT_EQ(*std::ranges::max_element(counts), 1);
  });
}

TEST(ShardPlaces, RanksTakeEquallyMany) {
  for_each_shape([](SamplerOptions options) {
    const auto first = places_of(options).size();
    EXPECT_GT(first, 0U);
    for (options.rank = 1; options.rank < options.world; ++options.rank) EXPECT_EQ(places_of(options).size(), first);
  });
}

TEST(ShardPlaces, ResumingWithTheSameWorldGoesOnAsIfNothingHappened) {
  for_each_shape([](SamplerOptions options) {
    options.rank = options.world / 2;
    const ShardPlaces whole(options);
    const auto all = places_of(options);
    for (int64_t taken = 0; taken <= whole.size(); ++taken) {
      const std::vector<int64_t> rest(all.begin() + taken, all.end());
      EXPECT_EQ(places_of(options, whole.consumed_after(taken)), rest) << "after " << taken;
    }
  });
}

// Samples seen before and after the change of worlds: each at least once with padding, at most once with drop_last, and
// exactly once where the new world divides what is left.
TEST(ShardPlaces, ResumingWithAnotherWorldKeepsWhatWasSeen) {
  for_each_shape([](const SamplerOptions& before) {
    const ShardPlaces places(before);
    const int64_t consumed = places.consumed_after(places.size() / 2);
    const int64_t left = before.num_samples - consumed;
    for (const int64_t world : kWorlds) {
      SamplerOptions after = before;
      after.world = world;
      auto counts = counts_of(after, consumed);
      for (int64_t place = 0; place < consumed; ++place) ++counts[static_cast<size_t>(place % before.num_samples)];
      const auto [least, most] = std::ranges::minmax(counts);
      EXPECT_TRUE(before.drop_last || least >= 1) << world;
      EXPECT_TRUE(most <= 1 || (!before.drop_last && left % world != 0)) << world;
      EXPECT_TRUE(!before.drop_last || std::ranges::count(counts, 0) == left % world) << world;
    }
  });
}

TEST(ShardPlaces, NothingIsLeftAfterThePaddedEnd) {
  const SamplerOptions options{.num_samples = 3, .world = 8};
  EXPECT_EQ(ShardPlaces(options, 8).size(), 0);
  EXPECT_EQ(ShardPlaces({.num_samples = 3, .world = 2}, 8).size(), 0);
}

TEST(ShardPlaces, LargestNumbersDoNotOverflow) {
  const int64_t most = std::numeric_limits<int64_t>::max() / 4;
  const SamplerOptions options{.num_samples = most, .rank = most - 1, .world = most};
  check(options);
  const ShardPlaces places(options);
  EXPECT_EQ(places.size(), 1);
  EXPECT_EQ(places.at(0), most - 1);
}

TEST(CheckOptions, SaysWhatIsWrong) {
  const int64_t huge = std::numeric_limits<int64_t>::max();
  const std::pair<SamplerOptions, std::string> cases[] = {
      {{.num_samples = 0}, "the dataset has 0 samples, at least 1 is needed"},
      {{.num_samples = -4}, "the dataset has -4 samples, at least 1 is needed"},
      {{.num_samples = huge}, "the dataset has 9223372036854775807 samples, 2305843009213693951 is the most"},
      {{.num_samples = 9, .rank = 2, .world = 2}, "the rank is 2, a world of 2 has ranks 0 to 1"},
      {{.num_samples = 9, .rank = -1, .world = 2}, "the rank is -1, a world of 2 has ranks 0 to 1"},
      {{.num_samples = 9, .world = 0}, "the world is 0 ranks, at least 1 is needed"},
      {{.num_samples = 9, .seed = -1}, "the seed is -1, 0 is the least"},
      {{.num_samples = 3, .world = 4, .drop_last = true}, "drop_last with 3 samples for 4 ranks leaves none"},
  };
  for (const auto& [options, what] : cases) {
    const ErrorText text = refusal_of([&] { check(options); });
    EXPECT_EQ(text.title, "the samples cannot be shared out");
    EXPECT_EQ(text.what, what);
    EXPECT_FALSE(text.fix.empty());
  }
}

TEST(CheckOptions, ListsAllProblemsAtOnce) {
  const auto text = refusal_of([] { check({.num_samples = 0, .rank = 5, .world = 2, .seed = -7}); });
  EXPECT_EQ(text.what,
            "the dataset has 0 samples, at least 1 is needed; the rank is 5, a world of 2 has ranks 0 to 1; "
            "the seed is -7, 0 is the least");
  EXPECT_EQ(text.where, "rank 5 of 2");
}

TEST(CheckState, RefusesThePositionOfAnotherOrder) {
  const SamplerOptions options{.num_samples = 10, .seed = 3};
  const SamplerState good{.epoch = 1, .consumed = 4, .num_samples = 10, .seed = 3};
  check(good, options);
  const auto changed = [&](auto change) {
    SamplerState state = good;
    change(state);
    return refusal_of([&] { check(state, options); }).what;
  };
  EXPECT_EQ(changed([](auto& s) { s.num_samples = 11; }), "the dataset has 10 samples now, it had 11");
  EXPECT_EQ(changed([](auto& s) { s.seed = 0; }), "the seed is 3 now, it was 0");
  EXPECT_EQ(changed([](auto& s) { s.shuffle = false; }), "shuffle is on now, it was off");
  EXPECT_EQ(changed([](auto& s) { s.epoch = -1; }), "the saved epoch is -1, 0 is the least");
  EXPECT_EQ(changed([](auto& s) { s.consumed = -1; }), "the saved position is -1, outside every epoch");
  EXPECT_NE(changed([](auto& s) { s.consumed = std::numeric_limits<int64_t>::max(); }), "");
}

}  // namespace
}  // namespace weft::data
