// Memory as it is: what the allocators gave beside what the ledger says, nothing new in a step after the first ones, and no more
// gradients at a time in the first step than in any other.
#include <ATen/TensorOperators.h>
#include <ATen/ops/mm.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>
#include <torch/optim/sgd.h>

#include <array>
#include <set>

#include "tests/support/ranks.h"
#include "weft/engine/counted_memory_test_impl.h"
#include "weft/engine/engine_test_impl.h"
#include "weft/engine/torch_optimizer.h"
#include "weft/plan/ledger.h"

namespace weft {
namespace {

// Layers of 16 KiB, one after the other, which a few samples go through.
struct Tower {
  static constexpr int64_t kWidth = 64;
  std::vector<at::Tensor> layers;

  explicit Tower(int num_layers, at::ScalarType type = at::kFloat) {
    for (int i = 0; i < num_layers; ++i)
      layers.push_back((numbers({kWidth, kWidth}, i) / 8).to(type).set_requires_grad(true));
  }
  ModelTensors tensors() const {
    ModelTensors out;
    for (size_t i = 0; i < layers.size(); ++i) out.parameters.emplace_back(cat("layer", i), layers[i]);
    return out;
  }
  // `at_layer` is called in backward before a layer's own gradient comes.
  at::Tensor loss(int64_t sample, const std::function<void()>& at_layer = {}) const {
    at::Tensor hidden = numbers({2, kWidth}, sample).to(layers[0].scalar_type());
    for (const at::Tensor& layer : layers) {
      hidden = at::mm(hidden, layer).tanh();
      if (at_layer) hidden.register_hook([at_layer](const at::Tensor&) { at_layer(); });
    }
    return hidden.pow(2).mean();
  }
  int64_t num_gradients() const {
    return std::ranges::count_if(layers, [](const at::Tensor& layer) { return layer.grad().defined(); });
  }
};

std::string zero_of(int stage, const std::string& more = "") {
  return cat(R"(, "zero_optimization": {"stage": )", stage, more, "}");
}

// Which stage 3 refuses.
bool is_compressed(std::string_view more) { return more.find("int8") != std::string_view::npos; }

// --- Nothing new after the first steps -------------------------------------------------------------------------------

struct Counts {
  int64_t in_backward = 0, in_step = 0, live_after = 0;
  bool operator==(const Counts&) const = default;
};

// Autograd's own, of a model without an engine: its gradients are added up where the first of them lies.
int64_t large_in_plain_backward(const Tower& tower, Tally& tally, int64_t num_parts) {
  tally.num_large = 0;
  for (int64_t part = 0; part < num_parts; ++part) {
    const at::Tensor loss = tower.loss(part);
    tally.num_large = part == 0 ? 0 : tally.num_large.load();
    loss.backward();
  }
  for (const at::Tensor& layer : tower.layers) layer.mutable_grad().reset();
  return tally.num_large;
}

Counts one_step(Engine& engine, const Tower& tower, Tally& tally, int64_t num_parts) {
  Counts out;
  for (int64_t part = 0; part < num_parts; ++part) {
    {
      const at::Tensor loss = tower.loss(part);
      tally.num_large = 0;
      engine.backward(loss);
      out.in_backward += tally.num_large;
    }
    tally.num_large = 0;
    engine.step();
    out.in_step += tally.num_large;
  }
  out.live_after = tally.live_bytes;
  return out;
}

TEST(EngineMemory, NothingIsAllocatedAfterTheFirstSteps) {
  const CountedMemory counted;
  for (const int stage : {0, 1, 2, 3}) {
    for (const char* more :
         {"", R"(, "gradient_clipping": 0.05)", R"(, "bf16": {"enabled": true})",
          R"(, "bf16": {"enabled": true}, "gradient_clipping": 0.05)", R"(, "communication_data_type": "bf16")",
          R"(, "weft": {"compress": "int8"})", R"(, "bf16": {"enabled": true}, "weft": {"compress": "int8"})"}) {
      if (stage == 3 && is_compressed(more)) continue;
      for (const int64_t num_parts : {1, 2}) {
        for (const char* overlap : {"", R"(, "overlap_comm": true, "reduce_bucket_size": 9000)"}) {
          const std::string which = cat("stage ", stage, more, overlap, ", ", num_parts, " micro-steps");
          test::run_ranks_as_threads(2, [&, run = fresh_run()](test::RankContext& ctx) {
            Tally& tally = begin_tally();
            const Tower tower(4);
            Engine engine(tower.tensors(), settings(2, num_parts, cat(zero_of(stage, overlap), more)),
                          world(run, ctx.rank(), 2));
            const Tower plain(4, tower.layers[0].scalar_type());
            const int64_t of_autograd = large_in_plain_backward(plain, tally, num_parts);
            EXPECT_GT(of_autograd, 0) << "this test sees nothing";
            for (int i = 0; i < 3; ++i) one_step(engine, tower, tally, num_parts);
            const Counts first = one_step(engine, tower, tally, num_parts);
            EXPECT_LE(first.in_backward, of_autograd) << which;
            EXPECT_EQ(first.in_step, 0) << which;
            for (int i = 0; i < 3; ++i) EXPECT_EQ(one_step(engine, tower, tally, num_parts), first) << which;
          });
        }
      }
    }
  }
}

// Its sums over ranks are of every parameter: of so many that they are no longer small.
TEST(EngineMemory, NothingIsAllocatedForLamb) {
  const CountedMemory counted;
  for (const int stage : {1, 2}) {
    test::run_ranks_as_threads(2, [&, run = fresh_run()](test::RankContext& ctx) {
      Tally& tally = begin_tally();
      const Tower tower(32);
      auto config = settings(2, 1, zero_of(stage));
      config.optimizer.type = "Lamb";
      Engine engine(tower.tensors(), std::move(config), world(run, ctx.rank(), 2));
      for (int i = 0; i < 3; ++i) one_step(engine, tower, tally, 1);
      for (int i = 0; i < 3; ++i) EXPECT_EQ(one_step(engine, tower, tally, 1).in_step, 0) << "stage " << stage;
    });
  }
}

TEST(EngineMemory, NothingIsAllocatedForAnOptimizerOfYourOwn) {
  const CountedMemory counted;
  for (const char* more : {"", R"(, "bf16": {"enabled": true})"}) {
    for (const int stage : {1, 2, 3}) {
      test::run_ranks_as_threads(2, [&, run = fresh_run()](test::RankContext& ctx) {
        Tally& tally = begin_tally();
        const Tower tower(4);
        auto config = settings(2, 1, cat(zero_of(stage), more, R"(, "zero_allow_untested_optimizer": true)"));
        config.optimizer = {};
        Engine engine(tower.tensors(), std::move(config), world(run, ctx.rank(), 2),
                      {.optimizer = torch_optimizer<torch::optim::SGD>(torch::optim::SGDOptions(0.01).momentum(0.9))});
        for (int i = 0; i < 3; ++i) one_step(engine, tower, tally, 1);
        const Counts first = one_step(engine, tower, tally, 1);
        EXPECT_EQ(first.in_step, 0) << "stage " << stage << more;
        for (int i = 0; i < 3; ++i) EXPECT_EQ(one_step(engine, tower, tally, 1), first) << "stage " << stage << more;
      });
    }
  }
}

// --- The first step --------------------------------------------------------------------------------------------------

// The most gradients that were there at a time in one backward, as seen before each comes.
int64_t most_gradients(Engine& engine, const Tower& tower, int64_t sample) {
  int64_t most = 0;
  engine.backward(tower.loss(sample, [&] { most = std::max(most, tower.num_gradients()); }));
  most = std::max(most, tower.num_gradients());
  engine.step();
  return most;
}

TEST(EngineMemory, NoBackwardOfStage2KeepsAllGradients) {
  constexpr int kNumLayers = 8;
  for (const char* overlap : {"", R"(, "overlap_comm": true)"}) {
    for (const int stage : {2, 3}) {
      for (const char* more : {"", R"(, "weft": {"common_parameters": false})", R"(, "bf16": {"enabled": true})"}) {
        const std::string zero = zero_of(stage, cat(R"(, "reduce_bucket_size": 4096)", overlap));
        test::run_ranks_as_threads(2, [&, run = fresh_run()](test::RankContext& ctx) {
          const Tower tower(kNumLayers);
          tower.layers[3].set_requires_grad(false);
          Engine engine(tower.tensors(), settings(2, 1, cat(zero, more)), world(run, ctx.rank(), 2));
          for (int step = 0; step < 3; ++step)
            EXPECT_LE(most_gradients(engine, tower, step), 1) << step << zero << more;
          tower.layers[3].set_requires_grad(true);
          for (int step = 3; step < 6; ++step)
            EXPECT_LE(most_gradients(engine, tower, step), 1) << step << zero << more;
        });
      }
    }
  }
}

// The engine before, which goes when the new one is there, takes nothing of it along.
TEST(EngineMemory, NorDoesThatOfAnEngineThatTookAnothersPlace) {
  test::run_ranks_as_threads(2, [&, run = fresh_run(), next = fresh_run()](test::RankContext& ctx) {
    const Tower tower(8);
    const auto start = [&](const std::string& name) {
      const auto config = settings(2, 1, zero_of(2, R"(, "reduce_bucket_size": 4096, "overlap_comm": true)"));
      return Engine(tower.tensors(), config, world(name, ctx.rank(), 2));
    };
    Engine engine = start(run);
    most_gradients(engine, tower, 0);
    engine = start(next);
    for (int step = 1; step < 4; ++step) EXPECT_LE(most_gradients(engine, tower, step), 1) << step;
  });
}

// Also where one bucket takes them all: they are packed, and let go of, as they come.
TEST(EngineMemory, ABucketThatFillsKeepsNoGradientTwice) {
  for (const int stage : {2, 3}) {
    test::run_ranks_as_threads(2, [&, run = fresh_run()](test::RankContext& ctx) {
      const Tower tower(8);
      Engine engine(tower.tensors(), settings(2, 1, zero_of(stage, R"(, "overlap_comm": true)")),
                    world(run, ctx.rank(), 2));
      for (int step = 0; step < 3; ++step) EXPECT_LE(most_gradients(engine, tower, step), 1) << stage << " " << step;
    });
  }
}

// A gradient that comes once more, when it has been packed already.
TEST(EngineMemory, AGradientThatComesAgainIsAdded) {
  const auto train = [](int stage) {
    std::vector<at::Tensor> out;
    test::run_ranks_as_threads(2, [&, run = fresh_run()](test::RankContext& ctx) {
      const Tower tower(4);
      Engine engine(tower.tensors(), settings(2, 1, zero_of(stage, R"(, "overlap_comm": true)")),
                    world(run, ctx.rank(), 2));
      for (int64_t step = 0; step < 4; ++step) {
        int num_layers = 0;
        engine.backward(tower.loss(2 * step + ctx.rank(), [&] {
          if (step < 2 || ++num_layers != 4) return;
          const c10::AutoGradMode with_grad(true);
          tower.layers[3].pow(2).sum().backward();
        }));
        engine.step();
      }
      engine.wait_for_parameters();
      if (ctx.rank() == 0) out = {tower.layers[3].detach().clone(), tower.layers[0].detach().clone()};
    });
    return out;
  };
  const auto expected = train(0);
  for (const int stage : {1, 2}) {
    const auto got = train(stage);
    for (size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(got[i].equal(expected[i])) << stage << " " << i;
  }
}

// In bytes, of everything that backward asks for.
TEST(EngineMemory, TheFirstBackwardOfStage2HasThePeakOfTheOthers) {
  const CountedMemory counted;
  test::run_ranks_as_threads(2, [run = fresh_run()](test::RankContext& ctx) {
    Tally& tally = begin_tally();
    const Tower tower(8);
    Engine engine(tower.tensors(), settings(2, 1, zero_of(2, R"(, "reduce_bucket_size": 4096, "overlap_comm": true)")),
                  world(run, ctx.rank(), 2));
    std::vector<int64_t> peaks;
    for (int step = 0; step < 3; ++step) {
      const at::Tensor loss = tower.loss(step);
      const int64_t before = tally.live_bytes;
      tally.peak_bytes = before;
      engine.backward(loss);
      peaks.push_back(tally.peak_bytes - before);
      engine.step();
    }
    const int64_t layer_bytes = Tower::kWidth * Tower::kWidth * 4;
    for (const int64_t peak : peaks) {
      EXPECT_LT(peak, 3 * layer_bytes);
      EXPECT_NEAR(static_cast<double>(peak), static_cast<double>(peaks.back()), 0.1 * layer_bytes);
    }
  });
}

// --- The ledger ------------------------------------------------------------------------------------------------------

int64_t storage_bytes(const Tower& tower) {
  std::set<const c10::StorageImpl*> seen;
  int64_t bytes = 0;
  for (const at::Tensor& layer : tower.layers) {
    if (seen.insert(layer.storage().unsafeGetStorageImpl()).second)
      bytes += static_cast<int64_t>(layer.storage().nbytes());
  }
  return bytes;
}

void expect_near(int64_t bytes, int64_t planned, const std::string& which) {
  EXPECT_NEAR(static_cast<double>(bytes), static_cast<double>(planned), 0.01 * static_cast<double>(planned)) << which;
}

// All that a rank has asked its allocators for and still uses, beside all lines of the ledger together; parameters alone as well.
TEST(EngineMemory, TheAllocatorsGaveWhatTheLedgerSays) {
  const CountedMemory counted;
  for (const char* more :
       {"", R"(, "bf16": {"enabled": true})",
        R"(, "bf16": {"enabled": true}, "data_types": {"grad_accum_dtype": "fp32"})",
        R"(, "communication_data_type": "bf16")", R"(, "managed_gradient_accumulation": false)",
        R"(, "weft": {"shard_update": false})", R"(, "weft": {"common_parameters": false})",
        R"(, "weft": {"compress": "int8"})", R"(, "bf16": {"enabled": true}, "weft": {"compress": "int8"})"}) {
    for (const int size : {1, 2, 3, 4}) {
      for (const int stage : {0, 1, 2, 3}) {
        if (stage == 3 &&
            (is_compressed(more) || std::string_view(more).find("common_parameters") != std::string_view::npos))
          continue;
        for (const char* buckets : {"", R"(, "reduce_bucket_size": 9000)"}) {
          const std::string which = cat(size, " ranks, stage ", stage, buckets, more);
          test::run_ranks_as_threads(size, [&, run = fresh_run()](test::RankContext& ctx) {
            Tally& tally = begin_tally();
            const Tower tower(7);
            World here = world(run, ctx.rank(), size);
            const auto group = std::make_shared<CountingGroup>(here.group);
            here.group = group;
            Engine engine(tower.tensors(), settings(size, 2, cat(zero_of(stage, buckets), more)), here);
            for (int i = 0; i < 4; ++i) {
              engine.backward(tower.loss(i));
              engine.step();
            }
            const plan::Ledger ledger = make_ledger(engine.plan(), stage);
            // In one memory of all ranks each sees the whole; of it the ledger counts a share.
            const int64_t parameters = storage_bytes(tower) / (stage == 3 ? size : 1);
            expect_near(parameters, ledger.bytes(plan::MemoryKind::kParameters), cat("parameters of ", which));
            const int64_t others_have = stage == 3 ? storage_bytes(tower) - parameters : 0;
            expect_near(tally.live_bytes + group->live_bytes() - others_have, ledger.total(), which);
          });
        }
      }
    }
  }
}

// --- What is sent in another type ------------------------------------------------------------------------------------

TEST(EngineWire, AnotherTypeChangesLittleAndTheSameInEveryStage) {
  constexpr int kNumSteps = 12;
  for (const std::array<const char*, 2>& types :
       {std::array{"bf16", ""}, std::array{"fp16", ""}, std::array{"fp32", ""},
        std::array{"fp32", R"(, "bf16": {"enabled": true})"}}) {
    const std::string wire = cat(R"(, "communication_data_type": ")", types[0], "\"", types[1]);
    const auto full = train_together(2, settings(2, 2, types[1]), kNumSteps);
    std::optional<std::vector<Trained>> first;
    for (const char* zero : {R"(, "weft": {"shard_update": false})", R"(, "zero_optimization": {"stage": 1})",
                             R"(, "zero_optimization": {"stage": 1, "overlap_comm": true, "reduce_bucket_size": 300})",
                             R"(, "zero_optimization": {"stage": 2})",
                             R"(, "zero_optimization": {"stage": 2, "overlap_comm": true, "reduce_bucket_size": 300})",
                             R"(, "zero_optimization": {"stage": 3, "reduce_bucket_size": 300})"}) {
      const auto got = train_together(2, settings(2, 2, cat(wire, zero)), kNumSteps);
      if (!first) first = got;
      for (size_t rank = 0; rank < got.size(); ++rank) {
        expect_same_bits(got[rank], first->front(), cat(wire, zero));
        EXPECT_EQ(got[rank].losses, (*first)[rank].losses) << wire << zero;
        for (size_t i = 0; i < got[rank].losses.size(); ++i)
          EXPECT_NEAR(got[rank].losses[i], full[rank].losses[i], 0.02 * full[rank].losses[i]) << wire << zero;
      }
    }
  }
}

TEST(EngineWire, HalfTheWidthIsHalfTheBytes) {
  for (const int stage : {0, 1, 2, 3}) {
    const auto sent = [&](const std::string& more) {
      return train_together(2, settings(2, 2, cat(zero_of(stage), more)), 3)[0].totals.sent_bytes;
    };
    const int64_t full = sent("");
    EXPECT_GT(full, 0);
    EXPECT_EQ(sent(R"(, "communication_data_type": "bf16")") * 2, full) << stage;
    EXPECT_EQ(sent(R"(, "communication_data_type": "fp32")"), full) << stage;
    EXPECT_EQ(sent(R"(, "bf16": {"enabled": true}, "communication_data_type": "fp32")"), full) << stage;
  }
}

// Alone nothing travels, so nothing is rounded.
TEST(EngineWire, OneRankSendsNothing) {
  const auto plain = train_together(1, settings(1, 2), 4);
  const auto got = train_together(1, settings(1, 2, R"(, "communication_data_type": "bf16")"), 4);
  expect_same_bits(got[0], plain[0], "one rank");
}

}  // namespace
}  // namespace weft
