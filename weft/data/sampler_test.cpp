#include "weft/data/sampler.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/randperm.h>
#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "weft/base/error.h"
#include "weft/data/test_refusal_impl.h"

namespace weft::data {
namespace {

std::vector<int64_t> samples_of(const DistributedSampler& sampler) {
  std::vector<int64_t> out;
  for (int64_t i = 0; i < sampler.size(); ++i) out.push_back(sampler.at(i));
  return out;
}

std::vector<int64_t> torch_order(int64_t n, uint64_t seed) {
  const auto order = at::randperm(n, at::Generator(at::detail::createCPUGenerator(seed)), at::kLong);
  const auto* const first = order.const_data_ptr<int64_t>();
  return {first, first + n};
}

// What all ranks take in turn: the epoch as a whole.
std::vector<int64_t> interleaved(SamplerOptions options, const SamplerState* state = nullptr) {
  std::vector<DistributedSampler> ranks;
  for (options.rank = 0; options.rank < options.world; ++options.rank) {
    ranks.emplace_back(options);
    if (state != nullptr) ranks.back().resume(*state);
  }
  std::vector<int64_t> out;
  for (int64_t i = 0; i < ranks[0].size(); ++i) {
    for (const auto& rank : ranks) out.push_back(rank.at(i));
  }
  return out;
}

TEST(DistributedSampler, TheRanksTogetherTakeTorchsOrder) {
  for (const int64_t world : {1, 2, 5, 20}) {
    EXPECT_EQ(interleaved({.num_samples = 100, .world = world, .seed = 9}), torch_order(100, 9)) << world;
  }
  // Past the end, from the start again; also more than once.
  EXPECT_EQ(interleaved({.num_samples = 3, .world = 8, .shuffle = false}),
            (std::vector<int64_t>{0, 1, 2, 0, 1, 2, 0, 1}));
  EXPECT_EQ(interleaved({.num_samples = 5, .world = 3, .shuffle = false, .drop_last = true}),
            (std::vector<int64_t>{0, 1, 2}));
}

TEST(DistributedSampler, EveryEpochHasItsOwnOrder) {
  DistributedSampler sampler({.num_samples = 100, .seed = 9});
  EXPECT_EQ(sampler.epoch(), 0);
  const auto first = samples_of(sampler);
  sampler.set_epoch(3);
  EXPECT_EQ(samples_of(sampler), torch_order(100, 12));
  sampler.set_epoch(0);
  EXPECT_EQ(samples_of(sampler), first);
  EXPECT_NE(first, torch_order(100, 12));
}

TEST(DistributedSampler, TheLargestSeedAndEpochAdd) {
  const int64_t most = std::numeric_limits<int64_t>::max();
  DistributedSampler sampler({.num_samples = 10, .seed = most});
  sampler.set_epoch(most);
  EXPECT_EQ(samples_of(sampler), torch_order(10, std::numeric_limits<uint64_t>::max() - 1));
}

TEST(DistributedSampler, AResumedEpochIsTheRestOfTheWhole) {
  const SamplerOptions options{.num_samples = 23, .rank = 1, .world = 4, .seed = 2};
  DistributedSampler whole(options);
  whole.set_epoch(5);
  const auto all = samples_of(whole);
  for (int64_t taken = 0; taken <= whole.size(); ++taken) {
    DistributedSampler resumed(options);
    resumed.resume(whole.state(taken));
    EXPECT_EQ(resumed.epoch(), 5);
    EXPECT_EQ(samples_of(resumed), std::vector<int64_t>(all.begin() + taken, all.end()));
    // And once more from there: states of a resumed sampler count from the start of the epoch.
    EXPECT_EQ(resumed.state(resumed.size()), whole.state(whole.size()));
  }
}

TEST(DistributedSampler, TheEpochAfterAResumedOneIsWhole) {
  DistributedSampler sampler({.num_samples = 10, .world = 2});
  sampler.resume(DistributedSampler({.num_samples = 10, .world = 2}).state(3));
  EXPECT_EQ(sampler.size(), 2);
  sampler.set_epoch(1);
  EXPECT_EQ(sampler.size(), 5);
  sampler.resume(sampler.state(3));
  sampler.set_epoch(1);  // the epoch under way, from its start
  EXPECT_EQ(sampler.size(), 5);
}

// 4 ranks, then 3, then 5: through all of it each sample comes once, then the padding.
TEST(DistributedSampler, WorldsMayChangeWithinAnEpoch) {
  const int64_t n = 60;
  std::vector<int64_t> seen;
  SamplerState state{.epoch = 2, .num_samples = n, .seed = 7};
  for (const auto& [world, taken] : {std::pair<int64_t, int64_t>{4, 5}, {3, 6}, {5, 5}}) {
    const SamplerOptions options{.num_samples = n, .world = world, .seed = 7};
    const auto part = interleaved(options, &state);
    seen.insert(seen.end(), part.begin(), part.begin() + world * taken);
    DistributedSampler sampler(options);
    sampler.resume(state);
    state = sampler.state(taken);
  }
  EXPECT_EQ(state.consumed, 63);
  const auto order = torch_order(n, 9);
  EXPECT_EQ(std::vector<int64_t>(seen.begin(), seen.begin() + n), order);
  EXPECT_EQ(std::vector<int64_t>(seen.begin() + n, seen.end()), std::vector<int64_t>(order.begin(), order.begin() + 3));
}

TEST(DistributedSampler, RefusesWhatCannotBe) {
  EXPECT_THROW(DistributedSampler({.num_samples = 0}), Error);
  DistributedSampler sampler({.num_samples = 4});
  EXPECT_EQ(refusal_of([&] { sampler.set_epoch(-1); }).what, "the epoch is -1, 0 is the first");
  EXPECT_THROW(sampler.resume({.num_samples = 5}), Error);
  EXPECT_EQ(samples_of(sampler), torch_order(4, 0));  // as it was
}

// The global generator is the model's; dealing out samples must not draw from it.
TEST(DistributedSampler, LeavesTheGlobalGeneratorAlone) {
  at::Generator global = at::detail::getDefaultCPUGenerator();
  global.set_current_seed(5);
  const DistributedSampler sampler({.num_samples = 100});
  EXPECT_EQ(at::randperm(20, at::kLong).const_data_ptr<int64_t>()[0], torch_order(20, 5)[0]);
}

}  // namespace
}  // namespace weft::data
