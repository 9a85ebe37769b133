#include "weft/engine/sharded_init.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorIndexing.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include "tests/support/ranks.h"
#include "weft/base/error.h"
#include "weft/engine/engine_test_impl.h"
#include "weft/engine/zero3_test_impl.h"

namespace weft {
namespace {

constexpr int64_t kNumLayers = 12, kWidth = 32, kLayerBytes = kWidth * kWidth * 4;
constexpr ShardedInitOptions kSmall{.whole_bytes = 3 * kLayerBytes, .smallest_bytes = 512};

// Layers whose values come about in several steps, one of them from the layer before.
Net build_layers() {
  Net net;
  for (int64_t i = 0; i < kNumLayers; ++i) {
    at::Tensor weight = at::empty({kWidth, kWidth});
    weight.copy_(numbers({kWidth, kWidth}, i));
    weight.mul_(0.2).add_(0.01 * static_cast<double>(i));
    if (i > 6) weight.narrow(0, 3, 2).copy_(net.parameters[0].detach().narrow(0, 1, 2));
    net.parameters.push_back(weight.set_requires_grad(true));
  }
  net.loss = [](const Net& one, int64_t sample) {
    at::Tensor x = numbers({4, kWidth}, 100 + sample);
    for (const at::Tensor& weight : one.parameters) x = at::mm(x.to(weight.scalar_type()), weight).tanh();
    return x.pow(2).mean();
  };
  return net;
}

TEST(ShardedInit, ValuesAreThoseOfAWholeConstruction) {
  const Net whole = build_layers();
  on_ranks(3, [&](const World& here) {
    Net net;
    int64_t peak = 0;
    {
      const ShardedInit scope(settings(3, 1, kTight), here, kSmall);
      net = build_layers();
      peak = scope.peak_whole_bytes();
    }
    EXPECT_LE(peak, kSmall.whole_bytes + 2 * kLayerBytes) << "of " << kNumLayers * kLayerBytes;
    for (size_t i = 0; i < net.parameters.size(); ++i)
      EXPECT_TRUE(net.parameters[i].detach().equal(whole.parameters[i].detach())) << "layer " << i;
  });
}

// Layers as torch::nn makes them: memory first, then random numbers, some of them over what others have drawn.
Net build_at_random(at::Generator& numbers_of_rank) {
  const at::NoGradGuard no_grad;
  Net net;
  for (int64_t i = 0; i < kNumLayers; ++i) {
    at::Tensor weight = at::empty({kWidth, kWidth + i});
    weight.normal_(0, 0.02, numbers_of_rank);
    if (i % 3 == 1) weight.uniform_(-0.3, 0.3, numbers_of_rank);
    if (i % 4 == 2) weight.mul_(at::empty({kWidth, kWidth + i}).bernoulli_(0.5, numbers_of_rank));
    if (i > 6) weight[0].copy_(net.parameters[static_cast<size_t>(i - 5)][1].narrow(0, 0, 1).expand({kWidth + i}));
    net.parameters.push_back(weight);
  }
  return net;
}

TEST(ShardedInit, RandomNumbersAreThoseOfAWholeConstruction) {
  at::Generator alone = at::detail::createCPUGenerator(7);
  const Net whole = build_at_random(alone);
  const auto next = at::empty({5}).normal_(0, 1, alone);
  for (const int size : {2, 3, 4}) {
    on_ranks(size, [&](const World& here) {
      at::Generator own =
          at::detail::createCPUGenerator(7);  // ranks are threads here: each has a process' random numbers
      Net net;
      int64_t peak = 0;
      {
        const ShardedInit scope(settings(size, 1, kTight), here, kSmall);
        net = build_at_random(own);
        peak = scope.peak_whole_bytes();
      }
      EXPECT_GT(peak, 0);
      EXPECT_LE(peak, kSmall.whole_bytes + 4 * kLayerBytes);
      EXPECT_TRUE(at::empty({5}).normal_(0, 1, own).equal(next)) << "and as many were drawn";
      for (size_t i = 0; i < net.parameters.size(); ++i)
        EXPECT_TRUE(net.parameters[i].equal(whole.parameters[i])) << size << " ranks, layer " << i;
    });
  }
}

TEST(ShardedInit, TrainsAsIfBuiltWhole) {
  // Buckets of several layers too: ranks then have parts of different ones.
  const char* const wide =
      R"(, "zero_optimization": {"stage": 3, "reduce_bucket_size": 5000, "stage3_param_persistence_threshold": 0},
                              "weft": {"common_parameters": false})";
  for (const char* zero : {kTight, kRoomy, wide, R"(, "zero_optimization": {"stage": 3})"}) {
    for (const char* type : {"", R"(, "bf16": {"enabled": true})"}) {
      const NetRun expected = train_net(build_layers, {.size = 2, .more = cat(zero, type), .num_steps = 3});
      std::vector<at::Tensor> got;
      on_ranks(2, [&](const World& here) {
        const auto config = settings(2, 1, cat(zero, type));
        const Net net = [&] {
          const ShardedInit scope(config, here, kSmall);
          return build_layers();
        }();
        Engine engine(net.tensors(), config, here);
        for (int64_t i = 0; i < 3; ++i) {
          engine.backward(net.loss(net, i * 2 + here.rank));
          engine.step();
        }
        std::vector<at::Tensor> values;
        for (const at::Tensor& one : net.parameters) values.push_back(one.detach().clone());
        if (here.rank == 0) got = values;
      });
      for (size_t i = 0; i < got.size(); ++i)
        EXPECT_TRUE(got[i].equal(expected.parameters[i])) << zero << type << ", layer " << i;
    }
  }
}

TEST(ShardedInit, FindsWhatIsInAListOfOptionalTensors) {
  on_ranks(2, [&](const World& here) {
    const at::Tensor table = at::arange(1000, at::kFloat);
    const ShardedInit scope(settings(2, 1, kTight), here, kSmall);
    const at::Tensor picked = at::arange(900, 1000, at::kLong);
    const Net net = build_layers();  // much larger: what was not used for long is cut
    EXPECT_EQ(table.index({picked}).sum().item<float>(), 94'950);
  });
}

TEST(ShardedInit, LeavesOtherStagesAlone) {
  on_ranks(2, [&](const World& here) {
    const ShardedInit scope(settings(2, 1, kStage2), here, kSmall);
    const Net net = build_layers();
    EXPECT_EQ(scope.peak_whole_bytes(), 0);
    EXPECT_FALSE(engine::is_in_nursery(net.parameters[0]));
  });
}

TEST(ShardedInit, IsNotNested) {
  on_ranks(2, [&](const World& here) {
    const auto config = settings(2, 1, kTight);
    const ShardedInit scope(config, here);
    EXPECT_THROW(ShardedInit(config, here), Error);
  });
}

// What was temporary is forgotten, and what was built before is nobody's business.
TEST(ShardedInit, KeepsNothingOfWhatIsGone) {
  on_ranks(2, [&](const World& here) {
    const at::Tensor before = at::ones({kWidth, kWidth});
    const ShardedInit scope(settings(2, 1, kTight), here, kSmall);
    for (int i = 0; i < 50; ++i)
      EXPECT_EQ((before + i).sum().item<float>(), static_cast<float>(kWidth * kWidth * (1 + i)));
    EXPECT_LE(scope.peak_whole_bytes(), 2 * kLayerBytes);
    EXPECT_FALSE(engine::is_in_nursery(before));
  });
}

}  // namespace
}  // namespace weft
