// Every optimizer in every precision: the same bits in every stage, and the arithmetic of torch's own on the fp32 masters.
#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include <cmath>

#include "tests/support/ranks.h"
#include "weft/base/error.h"
#include "weft/engine/engine_test_impl.h"

namespace weft {
namespace {

constexpr int kSweepSteps = 6;

struct Kind {
  const char *name, *type, *params;
};

constexpr Kind kKinds[] = {
    {"adam", "Adam", R"("lr": 0.01, "adam_w_mode": false, "weight_decay": 0.1)"},
    {"adamw", "AdamW", R"("lr": 0.01, "betas": [0.8, 0.95], "weight_decay": 0.1)"},
    {"torch_adam", "Adam", R"("lr": 0.01, "torch_adam": true)"},
    {"fused_adam", "FusedAdam", R"("lr": 0.01, "weight_decay": 0.1)"},
    {"lion", "Lion", R"("lr": 0.001, "weight_decay": 0.1)"},
    {"adagrad", "Adagrad", R"("lr": 0.01, "weight_decay": 0.1, "lr_decay": 0.1, "initial_accumulator_value": 0.1)"},
    {"lamb", "Lamb", R"("lr": 0.01, "weight_decay": 0.1)"},
    {"sgd", "SGD", R"("lr": 0.02, "weight_decay": 0.1)"},
    {"momentum", "SGD", R"("lr": 0.02, "momentum": 0.9, "dampening": 0.2)"},
    {"nesterov", "SGD", R"("lr": 0.02, "momentum": 0.9, "nesterov": true, "weight_decay": 0.1)"}};

constexpr const char* kPrecisions[] = {"", R"(, "bf16": {"enabled": true})",
                                       R"(, "fp16": {"enabled": true, "initial_scale_power": 6})"};

constexpr const char* kSweepStages[] = {
    R"(, "zero_optimization": {"stage": 0}, "weft": {"shard_update": false})", R"(, "zero_optimization": {"stage": 0})",
    R"(, "zero_optimization": {"stage": 1, "reduce_bucket_size": 300})",
    R"(, "zero_optimization": {"stage": 2}, "weft": {"common_parameters": false})",
    R"(, "zero_optimization": {"stage": 3, "stage3_param_persistence_threshold": 9}, "weft": {"common_parameters": false})"};

config::Resolved config_for(const Kind& kind, int size, const std::string& more) {
  auto out = settings(size, 1, cat(R"(, "gradient_clipping": 0)", more));
  out.optimizer = {.type = kind.type, .params = arguments(kind.params)};
  return out;
}

class EngineSweep : public testing::TestWithParam<Kind> {};

TEST_P(EngineSweep, HasTheSameBitsInEveryStage) {
  for (const char* precision : kPrecisions) {
    for (const int size : {1, 2, 3}) {
      const auto expected =
          train_together(size, config_for(GetParam(), size, cat(precision, kSweepStages[0])), kSweepSteps);
      EXPECT_EQ(expected[0].num_skipped, 0);
      for (const char* zero : kSweepStages) {
        const auto got = train_together(size, config_for(GetParam(), size, cat(precision, zero)), kSweepSteps);
        for (size_t rank = 0; rank < got.size(); ++rank) {
          expect_same_bits(got[rank], expected[0], cat(size, " ranks", precision, zero));
          EXPECT_EQ(got[rank].losses, expected[rank].losses) << precision << zero;
        }
      }
    }
  }
}

std::unique_ptr<torch::optim::Optimizer> torchs(const std::string& name, const std::vector<at::Tensor>& of) {
  using namespace torch::optim;  // NOLINT(google-build-using-namespace): a table of its names
  if (name == "adam") return std::make_unique<Adam>(of, AdamOptions(0.01).weight_decay(0.1));
  if (name == "adamw")
    return std::make_unique<AdamW>(of, AdamWOptions(0.01).betas(std::make_tuple(0.8, 0.95)).weight_decay(0.1));
  if (name == "torch_adam") return std::make_unique<AdamW>(of, AdamWOptions(0.01));
  if (name == "fused_adam") return std::make_unique<AdamW>(of, AdamWOptions(0.01).weight_decay(0.1));
  if (name == "adagrad") {
    return std::make_unique<Adagrad>(
        of, AdagradOptions(0.01).weight_decay(0.1).lr_decay(0.1).initial_accumulator_value(0.1));
  }
  if (name == "sgd") return std::make_unique<SGD>(of, SGDOptions(0.02).weight_decay(0.1));
  if (name == "momentum") return std::make_unique<SGD>(of, SGDOptions(0.02).momentum(0.9).dampening(0.2));
  if (name == "nesterov")
    return std::make_unique<SGD>(of, SGDOptions(0.02).momentum(0.9).nesterov(true).weight_decay(0.1));
  return nullptr;  // torch has no Lion and no Lamb
}

// torch is given the engine's own gradients, so that nothing but the update can differ: by a few last places a step, as torch's
// single operations are rounded otherwise and its square roots not correctly.
TEST_P(EngineSweep, DoesWhatTorchsDoesOnTheMasters) {
  for (const char* precision : kPrecisions) {
    for (const char* zero : {kSweepStages[0], kSweepStages[3]}) {
      const std::string run = fresh_run();
      test::run_ranks_as_threads(2, [&](test::RankContext& ctx) {
        Model model;
        std::vector<at::Tensor> masters;
        const at::Tensor all[] = {model.first, model.bias, model.second, model.seldom};
        for (const at::Tensor& one : all) masters.push_back(one.detach().clone().set_requires_grad(true));
        const auto optimizer = torchs(GetParam().name, masters);
        if (optimizer == nullptr) return;
        Engine engine(model.tensors(), config_for(GetParam(), 2, cat(precision, zero)), world(run, ctx.rank(), 2));
        for (int64_t i = 0; i < kSweepSteps; ++i) {
          engine.backward(model.loss(2 * i + ctx.rank()));
          for (size_t p = 0; p < masters.size(); ++p) masters[p].mutable_grad() = engine.full_grad(all[p]);
          EXPECT_TRUE(engine.step().updated);
          optimizer->step();
          for (size_t p = 0; p < masters.size(); ++p) {
            const float worst = (engine.full_param(all[p]) - masters[p].detach()).abs().max().item<float>();
            EXPECT_LT(worst, static_cast<float>(i + 1) * 4e-7F) << precision << zero << " parameter " << p;
          }
        }
      });
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, EngineSweep, testing::ValuesIn(kKinds),
                         [](const auto& one) { return std::string(one.param.name); });

// --- Steps that are left out ---------------------------------------------------------------------------------------------

constexpr const char *kSchedule = R"(, "scheduler": {"type": "WarmupLR", "params":
                                      {"warmup_num_steps": 8, "warmup_max_lr": 0.02, "warmup_type": "linear"}})",
                     *kStaticFp16 = R"(, "fp16": {"enabled": true, "loss_scale": 128})",
                     *kCheckedBf16 = R"(, "bf16": {"enabled": true, "check_grad_overflow": true})";

struct WithBadBatch {
  std::vector<at::Tensor> parameters;
  std::vector<double> rates;  // after every step
};

// `bad`: before this step there is one of which rank 1 has infinities; -1: none. State is taken over to another engine after it.
WithBadBatch train_past(const World& here, const config::Resolved& config, int64_t bad) {
  auto model = std::make_unique<Model>();
  auto engine = std::make_unique<Engine>(model->tensors(), config, here);
  WithBadBatch out;
  for (int64_t i = 0; i < kSweepSteps; ++i) {
    if (i == bad) {
      const double before = engine->get_lr();
      engine->backward(model->loss(99) * (here.rank == here.size - 1 ? INFINITY : 1));
      const StepInfo info = engine->step();
      EXPECT_FALSE(info.updated);
      EXPECT_EQ(info.lr, before);
      EXPECT_EQ(engine->get_lr(), before) << "the schedule stays where it is";
      EXPECT_EQ(engine->skipped_steps(), 1);
      auto other = std::make_unique<Model>();
      auto next = std::make_unique<Engine>(other->tensors(), config, here);
      next->set_optimizer_state(engine->optimizer_state());
      for (size_t p = 0; p < 4; ++p)
        next->set_full_param(other->tensors().parameters[p].second,
                             engine->full_param(model->tensors().parameters[p].second));
      engine = std::move(next);
      model = std::move(other);
    }
    engine->backward(model->loss(i * here.size + here.rank));
    EXPECT_TRUE(engine->step().updated);
    out.rates.push_back(engine->get_lr());
  }
  for (const auto& [name, tensor] : model->tensors().parameters) out.parameters.push_back(engine->full_param(tensor));
  return out;
}

TEST(EngineSkips, LeaveScheduleAndBiasCorrectionsAlone) {
  for (const char* precision : {kStaticFp16, kCheckedBf16}) {
    for (const char* zero : kSweepStages) {
      for (const int size : {1, 2}) {
        const std::string run = fresh_run();
        test::run_ranks_as_threads(size, [&](test::RankContext& ctx) {
          const auto config = settings(size, 1, cat(kSchedule, precision, zero));
          const World here = world(run, ctx.rank(), size);
          const WithBadBatch expected = train_past(here, config, -1);
          EXPECT_LT(expected.rates.front(), expected.rates.back());
          for (const int64_t bad : {0, 3}) {
            const WithBadBatch got = train_past(here, config, bad);
            EXPECT_EQ(got.rates, expected.rates) << precision << zero;
            for (size_t p = 0; p < 4; ++p)
              EXPECT_TRUE(got.parameters[p].equal(expected.parameters[p])) << precision << zero << bad << " " << p;
          }
        });
      }
    }
  }
}

// Without clipping nobody looks, which is what "false" asks for; clipping needs the norm, and so sees what is not finite.
TEST(EngineSkips, Bf16ThatIsNotLookedAtIsAppliedUnlessClippingSeesIt) {
  constexpr const char* kUnchecked = R"(, "bf16": {"enabled": true, "check_grad_overflow": false})";
  for (const char* zero : kSweepStages) {
    for (const bool clips : {false, true}) {
      const auto config = settings(2, 1, cat(kUnchecked, clips ? "" : R"(, "gradient_clipping": 0)", zero));
      test::run_ranks_as_threads(2, [&, run = fresh_run()](test::RankContext& ctx) {
        Model model;
        Engine engine(model.tensors(), config, world(run, ctx.rank(), 2));
        engine.backward(model.loss(0) * (ctx.rank() == 1 ? INFINITY : 1));
        EXPECT_EQ(engine.step().updated, !clips) << zero;
        EXPECT_EQ(engine.skipped_steps(), clips ? 1 : 0) << zero;
        EXPECT_EQ(engine.full_param(model.second).isfinite().all().item<bool>(), clips) << zero;
      });
    }
  }
}

}  // namespace
}  // namespace weft
