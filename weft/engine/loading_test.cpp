// Batches of the engine's ranks: how many, which, and where a resumed run goes on.
#include "weft/engine/loading.h"

#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "tests/support/ranks.h"
#include "weft/engine/engine_test_impl.h"

namespace weft {
namespace {

struct Numbers {
  int64_t num_samples = 64;

  int64_t size() const { return num_samples; }
  data::Tensors get(int64_t i) const { return {at::full({1}, i, at::kLong)}; }
};

std::vector<int64_t> column(const at::Tensor& data) {
  const auto* const first = data.const_data_ptr<int64_t>();
  return {first, first + data.numel()};
}

using Batches = std::vector<std::vector<int64_t>>;

// What each rank's loader gives to its end. No step is taken, so ranks may come one after another.
std::vector<Batches> batches_of(int size, int64_t num_samples, const LoadOptions& options,
                                const std::string& more = "") {
  std::vector<Batches> out(static_cast<size_t>(size));
  const std::string run = fresh_run();
  test::run_ranks_as_threads(size, [&](test::RankContext& ctx) {
    Model model;
    const Engine engine(model.tensors(), settings(size, 1, more), world(run, ctx.rank(), size));
    auto& mine = out[static_cast<size_t>(ctx.rank())];
    for (auto& batch : engine.loader(std::make_shared<Numbers>(Numbers{num_samples}), options))
      mine.push_back(column(batch.data));
  });
  return out;
}

std::vector<int64_t> all_samples(const std::vector<Batches>& ranks) {
  std::vector<int64_t> out;
  for (const auto& batches : ranks)
    for (const auto& batch : batches) out.insert(out.end(), batch.begin(), batch.end());
  std::ranges::sort(out);
  return out;
}

// 64 samples are 21 for each of 3 ranks: four batches of 5 and one of 1; one sample is left out.
TEST(EngineLoader, RanksHaveEquallyManyBatchesAndNoSampleInCommon) {
  const auto ranks = batches_of(3, 64, {});
  for (const auto& batches : ranks) {
    ASSERT_EQ(batches.size(), 5U);
    EXPECT_EQ(batches.front().size(), 5U);
    EXPECT_EQ(batches.back().size(), 1U);
  }
  const auto all = all_samples(ranks);
  EXPECT_EQ(all.size(), 63U);
  EXPECT_EQ(std::ranges::adjacent_find(all), all.end()) << "a sample came twice";
}

TEST(EngineLoader, PartialBatchesAreLeftOutWhereTheConfigOrTheCallSays) {
  const std::string config = R"(, "dataloader_drop_last": true)";
  EXPECT_EQ(batches_of(3, 64, {}, config)[2].size(), 4U);
  EXPECT_EQ(batches_of(3, 64, {.drop_partial = true})[2].size(), 4U);
  EXPECT_EQ(batches_of(3, 64, {.drop_partial = false}, config)[2].size(), 5U);
}

TEST(EngineLoader, SamplesComeTwiceRatherThanNotWhereAsked) {
  const auto all = all_samples(batches_of(3, 64, {.drop_last = false}));
  EXPECT_EQ(all.size(), 66U);
  std::vector<int64_t> unique = all;
  unique.erase(std::ranges::unique(unique).begin(), unique.end());
  EXPECT_EQ(unique.size(), 64U);
}

TEST(EngineLoader, SeedAndEpochDecideTheOrder) {
  const auto first = batches_of(2, 64, {.seed = 3});
  EXPECT_EQ(batches_of(2, 64, {.seed = 3}), first);
  EXPECT_NE(batches_of(2, 64, {.epoch = 1, .seed = 3}), first);
  EXPECT_NE(batches_of(2, 64, {.seed = 5}), first);
  std::vector<int64_t> evens(5);
  for (size_t i = 0; i < evens.size(); ++i) evens[i] = 2 * static_cast<int64_t>(i);
  EXPECT_EQ(batches_of(2, 64, {.shuffle = false})[0].front(), evens);
}

TEST(EngineLoader, AResumedRunTakesTheRestAlsoWithAnotherWorld) {
  const LoadOptions options{.epoch = 2, .seed = 9};
  std::vector<Batches> before(2);
  data::SamplerState state;
  const std::string run = fresh_run();
  test::run_ranks_as_threads(2, [&](test::RankContext& ctx) {
    Model model;
    const Engine engine(model.tensors(), settings(2, 1), world(run, ctx.rank(), 2));
    auto loader = engine.loader(std::make_shared<Numbers>(), options);
    for (int i = 0; i < 3; ++i) before[static_cast<size_t>(ctx.rank())].push_back(column(loader.next()->data));
    if (ctx.rank() == 0) state = loader.state();
  });
  const LoadOptions resumed{.seed = 9, .resume = state};
  auto same = batches_of(2, 64, resumed);
  for (size_t rank = 0; rank < 2; ++rank)
    same[rank].insert(same[rank].begin(), before[rank].begin(), before[rank].end());
  EXPECT_EQ(same, batches_of(2, 64, options));
  auto all = all_samples(batches_of(1, 64, resumed));
  const auto taken = all_samples(before);
  all.insert(all.end(), taken.begin(), taken.end());
  std::ranges::sort(all);
  std::vector<int64_t> every(64);
  std::iota(every.begin(), every.end(), 0);
  EXPECT_EQ(all, every);
}

// The loop of the engine's page: it ends on all ranks at once, whatever the number of samples.
TEST(EngineLoader, TrainsEpochAfterEpoch) {
  const std::string run = fresh_run();
  test::run_ranks_as_threads(3, [&](test::RankContext& ctx) {
    Model model;
    Engine engine(model.tensors(), settings(3, 2), world(run, ctx.rank(), 3));
    auto loader = engine.loader(std::make_shared<Numbers>(Numbers{67}), {.num_threads = 0});
    for (; loader.epoch() < 3; loader.set_epoch(loader.epoch() + 1)) {
      for (auto& batch : loader) {
        engine.backward(model.loss(column(batch.data).front()));
        engine.step();
      }
    }
    EXPECT_EQ(engine.micro_steps(), 3 * 5);
    EXPECT_EQ(engine.global_steps(), 3 * 5 / 2);
  });
}

}  // namespace
}  // namespace weft
