// Parameters that are unfrozen late are updated as torch's optimizers update them: with a count of their own.
#include <ATen/TensorOperators.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adamw.h>

#include <cmath>

#include "tests/support/ranks.h"
#include "tests/support/temp_dir.h"
#include "weft/base/error.h"
#include "weft/comm/peer_lost.h"
#include "weft/engine/engine_test_impl.h"

namespace weft {
namespace {

constexpr int kJoins = 4, kSaved = 6, kEnd = 9;  // steps
constexpr double kRate = 0.01;

constexpr const char* kOfStages[] = {R"(, "weft": {"shard_update": false})",
                                     R"(, "zero_optimization": {"stage": 1, "reduce_bucket_size": 200})",
                                     R"(, "zero_optimization": {"stage": 2}, "weft": {"common_parameters": false})",
                                     R"(, "zero_optimization": {"stage": 3})",
                                     R"(, "zero_optimization": {"stage": 3, "reduce_bucket_size": 100,
                                         "stage3_param_persistence_threshold": 0}, "weft": {"common_parameters": false})"};

using Tensors = std::vector<at::Tensor>;

Tensors all_of(const Model& model) { return {model.first, model.bias, model.second, model.seldom}; }

Tensors values_of(Engine& engine, const Model& model) {
  Tensors out;
  for (const at::Tensor& one : all_of(model)) out.push_back(engine.full_param(one));
  return out;
}

// Ranks with the same samples: what two of them add up and halve is what one has.
void train_on(Engine& engine, const Model& model, int from, int to) {
  for (int64_t i = from; i < to; ++i) {
    if (i == kJoins) model.second.set_requires_grad(true);
    engine.backward(model.loss(i));
    EXPECT_TRUE(engine.step().updated);
  }
}

enum class Resuming { kNever, kUnfrozenBefore, kUnfrozenAfterwards };

Tensors train_late(const World& here, const config::Resolved& config, Resuming resume, const std::string& store) {
  auto model = std::make_unique<Model>();
  model->second.set_requires_grad(false);
  auto engine = std::make_unique<Engine>(model->tensors(), config, here);
  train_on(*engine, *model, 0, kSaved);
  if (resume != Resuming::kNever) {
    engine->save_checkpoint(store, {.in_background = false});
    engine.reset();
    model = std::make_unique<Model>();
    model->second.set_requires_grad(resume == Resuming::kUnfrozenBefore);
    engine = std::make_unique<Engine>(model->tensors(), config, here);
    model->second.set_requires_grad(true);
    EXPECT_TRUE(engine->load_checkpoint(store).has_value());
  }
  train_on(*engine, *model, kSaved, kEnd);
  return values_of(*engine, *model);
}

std::vector<Tensors> train_late_on(int size, const config::Resolved& config, Resuming resume = Resuming::kNever) {
  std::vector<Tensors> out(static_cast<size_t>(size));
  const std::string run = fresh_run();
  const test::TempDir dir;
  test::run_ranks_as_threads(size, [&](test::RankContext& ctx) {
    out[static_cast<size_t>(ctx.rank())] = train_late(world(run, ctx.rank(), size), config, resume, dir / "s");
  });
  return out;
}

config::Resolved config_of(int size, const std::string& more, const std::string& type = "AdamW",
                           const std::string& params = "") {
  auto out = settings(size, 1, cat(R"(, "gradient_clipping": 0)", more));
  out.optimizer = {.type = type, .params = arguments(cat(R"("lr": )", kRate, params))};
  return out;
}

// torch.optim.AdamW(fused=True): whole vectors, which the engine's kernels round alike.
Tensors plain_adamw() {
  Model model;
  model.second.set_requires_grad(false);
  const auto padded = [](const at::Tensor& tensor) {
    return at::constant_pad_nd(tensor.detach().reshape({-1}), {0, (64 - tensor.numel() % 64) % 64});
  };
  std::vector<Tensors> moments;
  std::vector<double> counts(4, 0);
  for (const at::Tensor& one : all_of(model))
    moments.push_back({at::zeros_like(padded(one)), at::zeros_like(padded(one))});
  for (int64_t i = 0; i < kEnd; ++i) {
    if (i == kJoins) model.second.set_requires_grad(true);
    model.loss(i).backward();
    for (size_t p = 0; p < 4; ++p) {
      at::Tensor one = all_of(model)[p];
      if (!one.grad().defined()) continue;
      const at::Tensor wide = padded(one);
      at::_fused_adamw_({wide}, {padded(one.grad())}, {moments[p][0]}, {moments[p][1]}, {},
                        {at::scalar_tensor(++counts[p])}, kRate, 0.9, 0.999, 0.1, 1e-8, false, false);
      one.detach().copy_(wide.narrow(0, 0, one.numel()).view(one.sizes()));
      one.mutable_grad().reset();
    }
  }
  Tensors out;
  for (const at::Tensor& one : all_of(model)) out.push_back(one.detach());
  return out;
}

template <typename Optimizer, typename Options>
Tensors plain_torch(const Options& options) {
  Model model;
  model.second.set_requires_grad(false);
  Optimizer optimizer(all_of(model), options);
  for (int64_t i = 0; i < kEnd; ++i) {
    if (i == kJoins) model.second.set_requires_grad(true);
    optimizer.zero_grad();
    model.loss(i).backward();
    optimizer.step();
  }
  Tensors out;
  for (const at::Tensor& one : all_of(model)) out.push_back(one.detach());
  return out;
}

// Single operations are rounded otherwise by torch: a few of a parameter's last places a step, of which nothing grows.
void expect_near(const Tensors& got, const Tensors& expected, const std::string& what) {
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_LT((got[i] - expected[i]).abs().max().item<float>(), kEnd * 4e-7F) << what << ", parameter " << i;
}

TEST(EngineJoining, AdamWHasTheBitsOfTorchsInEveryStage) {
  const Tensors expected = plain_adamw();
  const Tensors torchs = plain_torch<torch::optim::AdamW>(torch::optim::AdamWOptions(kRate).weight_decay(0.1));
  for (const int size : {1, 2, 3}) {
    for (const char* more : kOfStages) {
      for (const Tensors& got : train_late_on(size, config_of(size, more, "AdamW", R"(, "weight_decay": 0.1)"))) {
        // The third part of three times a number is not always that number.
        if (size < 3) expect_equal(got, expected, cat(size, " ranks", more));
        expect_near(got, torchs, cat(size, " ranks", more));
      }
    }
  }
}

TEST(EngineJoining, AdagradBeginsWithItsInitialValue) {
  const Tensors expected = plain_torch<torch::optim::Adagrad>(
      torch::optim::AdagradOptions(kRate).lr_decay(0.1).initial_accumulator_value(0.5));
  for (const int size : {1, 2, 3}) {
    for (const char* more : kOfStages) {
      const auto config = config_of(size, more, "Adagrad", R"(, "lr_decay": 0.1, "initial_accumulator_value": 0.5)");
      for (const Tensors& got : train_late_on(size, config)) expect_near(got, expected, cat(size, " ranks", more));
    }
  }
}

TEST(EngineJoining, ChangesNoBitOfAStageOrAResume) {
  for (const char* type : {"AdamW", "Adagrad", "Lamb", "SGD", "Lion"}) {
    const char* params = std::string(type) == "SGD" ? R"(, "momentum": 0.9, "dampening": 0.5)" : "";
    for (const char* precision : {"", R"(, "bf16": {"enabled": true})"}) {
      for (const int size : {1, 3}) {
        const Tensors expected = train_late_on(size, config_of(size, cat(kOfStages[0], precision), type, params))[0];
        for (const char* more : kOfStages) {
          for (const Resuming resume : {Resuming::kNever, Resuming::kUnfrozenBefore, Resuming::kUnfrozenAfterwards}) {
            const auto got = train_late_on(size, config_of(size, cat(more, precision), type, params), resume);
            for (const Tensors& one : got)
              expect_equal(one, expected,
                           cat(type, precision, " ", size, " ranks, resume ", static_cast<int>(resume), more));
          }
        }
      }
    }
  }
}

// Saved by three ranks in stage 2, resumed by one in stage 0: the same as one rank all along, but for the rounding of a mean of three.
TEST(EngineJoining, IsKnownToOtherRanksAndStages) {
  const test::TempDir dir;
  const auto config = [](int size, const char* more) { return config_of(size, more); };
  const auto train = [&](const World& here, const char* more, int to) {
    Model model;
    model.second.set_requires_grad(false);
    Engine engine(model.tensors(), config(here.size, more), here);
    if (to == kEnd) {
      model.second.set_requires_grad(true);
      EXPECT_TRUE(engine.load_checkpoint(dir / "s").has_value());
    }
    train_on(engine, model, to == kEnd ? kSaved : 0, to);
    if (to != kEnd) engine.save_checkpoint(dir / "s", {.in_background = false});
    return values_of(engine, model);
  };
  const std::string run = fresh_run();
  test::run_ranks_as_threads(3,
                             [&](test::RankContext& ctx) { train(world(run, ctx.rank(), 3), kOfStages[2], kSaved); });
  expect_near(train(world(fresh_run(), 0, 1), kOfStages[0], kEnd),
              plain_torch<torch::optim::AdamW>(torch::optim::AdamWOptions(kRate).weight_decay(0)), "");
}

// As an older version wrote it: all parameters began together.
TEST(EngineJoining, AStateThatDoesNotSayCountsFromTheBeginning) {
  Model model, other;
  Engine engine(model.tensors(), settings(1, 1), world(fresh_run(), 0, 1));
  Engine second(other.tensors(), settings(1, 1), world(fresh_run(), 0, 1));
  for (int64_t i = 0; i < 3; ++i) {
    engine.backward(model.loss(i));
    engine.step();
  }
  auto state = engine.optimizer_state();
  EXPECT_EQ(std::erase_if(state, [](const auto& one) { return one.first == "joined"; }), 1);
  for (size_t i = 0; i < 4; ++i) second.set_full_param(all_of(other)[i], all_of(model)[i].detach());
  second.set_optimizer_state(state);
  engine.backward(model.loss(3));
  second.backward(other.loss(3));
  engine.step(), second.step();
  expect_equal(all_of(other), all_of(model), "the next step");
}

TEST(EngineJoining, AGroupMayBeFrozenAtTheStartAndBecomeSo) {
  for (const char* more : kOfStages) {
    const std::string run = fresh_run();
    test::run_ranks_as_threads(2, [&](test::RankContext& ctx) {
      Model model;
      model.second.set_requires_grad(false);
      Engine engine(model.tensors(), config_of(2, more), world(run, ctx.rank(), 2),
                    {.groups = {parameters_like("second", {.lr = 0.25})}});
      EXPECT_EQ(engine.get_lrs(), (std::vector<double>{0.25, kRate}));
      const at::Tensor start = engine.full_param(model.second);
      train_on(engine, model, 0, kJoins);
      EXPECT_TRUE(engine.full_param(model.second).equal(start));
      train_on(engine, model, kJoins, kJoins + 1);
      const at::Tensor moved = (engine.full_param(model.second) - start).abs();
      EXPECT_NEAR(moved.max().item<float>(), 0.25, 1e-3) << "Adam's first update is as large as the rate" << more;
      model.second.set_requires_grad(false);
      const at::Tensor now = engine.full_param(model.second);
      train_on(engine, model, kJoins + 1, kJoins + 3);
      EXPECT_TRUE(engine.full_param(model.second).equal(now)) << more;
      model.first.set_requires_grad(false);
      model.bias.set_requires_grad(false);
      model.seldom.set_requires_grad(false);
      expect_refused([&] { engine.backward(parameter({1}, 1).sum()); },
                     "no parameter of the model requires a gradient");
      model.bias.set_requires_grad(true);
      train_on(engine, model, kJoins + 3, kJoins + 4);
    });
  }
}

TEST(EngineJoining, RanksThatFreezeDifferentlyAreNamed) {
  for (const char* more : kOfStages) {
    const std::string run = fresh_run();
    test::run_ranks_as_threads(3, [&](test::RankContext& ctx) {
      Model model;
      Engine engine(model.tensors(), config_of(3, more), world(run, ctx.rank(), 3));
      train_on(engine, model, 0, 2);
      model.bias.set_requires_grad(false);
      if (ctx.rank() == 2) model.second.set_requires_grad(false);
      const at::Tensor loss = model.loss(2);
      expect_refused([&] { engine.backward(loss); },
                     "parameter 'second' is trained on rank 0 and frozen on rank 2; set_requires_grad() alike");
      expect_refused([&] { engine.backward(loss); }, "this engine cannot go on");
      expect_refused([&] { engine.full_param(model.first); }, "this engine cannot go on");
    });
  }
}

// The others have changed nothing and go on: whoever waits for them says what it has changed.
TEST(EngineJoining, ARankThatFreezesAloneSaysWhat) {
  for (const char* more : {kOfStages[0], kOfStages[2]}) {
    const std::string run = fresh_run();
    test::run_ranks_as_threads(2, [&](test::RankContext& ctx) {
      Model model;
      Engine engine(model.tensors(), config_of(2, more), world(run, ctx.rank(), 2, 1));
      train_on(engine, model, 0, 2);
      if (ctx.rank() == 1) model.bias.set_requires_grad(false);
      const auto go_on = [&] {
        engine.backward(model.loss(2));
        engine.step();
      };
      expect_refused(go_on, ctx.rank() == 1 ? "parameter 'bias' was frozen on rank 1" : "rank 1");
      if (ctx.rank() == 1) expect_refused(go_on, "this engine cannot go on");
    });
  }
}

}  // namespace
}  // namespace weft
