// Training with gradients that travel as int8: how far from fp32 it is, that ranks stay equal, what is sent, what is
// refused.
#include "weft/engine/compression.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/ranks.h"
#include "weft/base/error.h"
#include "weft/engine/engine_test_impl.h"
#include "weft/plan/schedule.h"

namespace weft {
namespace {

constexpr const char* kInt8 = R"(, "weft": {"compress": "int8"})";

double mean(const std::vector<float>& losses, size_t first) {
  double sum = 0;
  for (size_t i = first; i < losses.size(); ++i) sum += losses[i];
  return sum / static_cast<double>(losses.size() - first);
}

TEST(EngineCompression, StaysNearFp32AndRanksStayEqual) {
  constexpr int kSteps = 50;
  for (const int size : {2, 3}) {
    const auto expected = train_together(size, settings(size, 1), kSteps);
    for (const char* more : {kInt8, R"(, "zero_optimization": {"stage": 2}, "weft": {"compress": "int8"})",
                             R"(, "weft": {"compress": "int8", "common_parameters": false}, "zero_optimization": {)"
                             R"("stage": 1, "overlap_comm": true, "reduce_bucket_size": 300})"}) {
      const auto got = train_together(size, settings(size, 1, more), kSteps);
      for (size_t rank = 0; rank < got.size(); ++rank) {
        expect_same_bits(got[rank], got[0], cat(size, " ranks, ", more));
        // Rounding is off by at most 1/254 of the largest gradient in a block; AdamW divides by the gradient's own size,
        // so that small ones move differently for a while. That made up to 1.8 % of a loss here.
        for (size_t step = 0; step < kSteps; ++step)
          EXPECT_NEAR(got[rank].losses[step], expected[rank].losses[step], 0.02 * expected[rank].losses[step] + 0.005)
              << size << " ranks, step " << step << more;
      }
      EXPECT_NEAR(mean(got[0].losses, 40), mean(expected[0].losses, 40), 0.01 * mean(expected[0].losses, 40));
      EXPECT_NE(got[0].losses, expected[0].losses) << "nothing was compressed";
    }
  }
}

TEST(EngineCompression, AccumulatesAndTrainsInBf16) {
  for (
      const char* more :
      {kInt8, R"(, "weft": {"compress": "int8"}, "bf16": {"enabled": true})",
       R"(, "weft": {"compress": "int8", "reduce_each": "step"}, "zero_optimization": {"stage": 1})",
       R"(, "weft": {"compress": "int8", "bucket": "auto"}, "zero_optimization": {"stage": 2, "overlap_comm": true})"}) {
    const auto got = train_together(3, settings(3, 2, more), 12);
    for (size_t rank = 0; rank < got.size(); ++rank) expect_same_bits(got[rank], got[0], more);
    EXPECT_LT(mean(got[0].losses, 18), got[0].losses.front()) << more;
    const auto again = train_together(3, settings(3, 2, more), 12);
    EXPECT_TRUE(got[0].tuning || again[0].losses == got[0].losses) << "the same run, the same bits: " << more;
  }
}

TEST(EngineCompression, ABadGradientIsSkippedAndLeavesNothingBehind) {
  const std::string run = fresh_run();
  test::run_ranks_as_threads(2, [&](test::RankContext& ctx) {
    Model model;
    Engine engine(model.tensors(), settings(2, 1, kInt8), world(run, ctx.rank(), 2));
    for (int64_t step = 0; step < 6; ++step) {
      const bool bad = step == 2;
      const double factor = bad && ctx.rank() == 1 ? std::numeric_limits<double>::infinity() : 1;
      engine.backward(model.loss(step) * factor);
      EXPECT_EQ(engine.step().updated, !bad) << step;
      EXPECT_TRUE(model.first.detach().isfinite().all().item<bool>());
    }
    EXPECT_EQ(engine.skipped_steps(), 1);
  });
}

TEST(EngineCompression, SendsWhatThePlanSays) {
  for (const int size : {1, 2, 3}) {
    for (const int stage : {0, 1, 2}) {
      const std::string run = fresh_run();
      test::run_ranks_as_threads(size, [&](test::RankContext& ctx) {
        Model model;
        const auto config = settings(size, 2, cat(kInt8, R"(, "zero_optimization": {"stage": )", stage, "}"));
        Engine engine(model.tensors(), config, world(run, ctx.rank(), size));
        for (int i = 0; i < 8; ++i) {
          engine.backward(model.loss(i));
          engine.step();
        }
        const auto schedule = make_schedule(engine.plan(), stage);
        EXPECT_EQ(engine.totals().num_collectives, 4 * schedule.num_collectives());
        EXPECT_EQ(engine.totals().sent_bytes, 4 * schedule.sent_bytes());
        // Parameters are common here, so that gradients are all there is to send.
        plan::Plan whole = engine.plan();
        whole.options.compress = false;
        const auto uncompressed = static_cast<double>(make_schedule(whole, stage).sent_bytes());
        EXPECT_NEAR(static_cast<double>(schedule.sent_bytes()), 0.255 * uncompressed, 0.005 * uncompressed);
      });
    }
  }
}

TEST(EngineCompression, RefusesWhatElseDecidesAboutTheWire) {
  const auto what_of = [](const char* more) -> std::string {
    const Model model;
    try {
      const Engine engine(model.tensors(), settings(1, 1, more), world(fresh_run(), 0, 1));
    } catch (const Error& error) {
      EXPECT_EQ(error.text().title, "gradients cannot be compressed like this");
      return error.text().what;
    }
    return "taken";
  };
  EXPECT_EQ(what_of(R"(, "weft": {"compress": "int8"}, "communication_data_type": "bf16")"),
            "\"compress\": \"int8\" with \"communication_data_type\"");
  EXPECT_EQ(what_of(R"(, "weft": {"compress": "int8", "shard_update": false})"),
            "\"compress\": \"int8\" with \"shard_update\": false in stage 0");
  EXPECT_EQ(what_of(R"(, "weft": {"compress": "int8"}, "fp16": {"enabled": true})"),
            "\"compress\": \"int8\" with fp16, whose loss scale changes between steps");
  EXPECT_EQ(what_of(kInt8), "taken") << "one rank has nothing to send, so there is nothing to refuse";
}

}  // namespace
}  // namespace weft
