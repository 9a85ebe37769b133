// Stage 3 over several hosts, each of which has one copy of the parameters in its ranks' memory ("zero_hpz_partition_size"): the bits
// of the other stages, and the bytes of the plan. Ranks are threads, hosts are groups of them.
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include "tests/support/ranks.h"
#include "tests/support/temp_dir.h"
#include "weft/base/error.h"
#include "weft/engine/engine_test_impl.h"
#include "weft/engine/gathered_parameters.h"
#include "weft/engine/model_loading.h"
#include "weft/engine/zero3_nets_test_impl.h"
#include "weft/plan/ledger.h"
#include "weft/plan/schedule.h"

namespace weft {
namespace {

// A bucket to each parameter, so that gathers are many; parameters would be gathered again for backward.
std::string stage_3(int in_host, const std::string& more = "", const std::string& of_weft = "") {
  return cat(R"(, "zero_optimization": {"stage": 3, "reduce_bucket_size": 1, "stage3_max_live_parameters": 0,
               "zero_hpz_partition_size": )",
             in_host, more, R"(}, "weft": {)", of_weft, "}");
}

// Calls `body` on every rank of a world on hosts.
void on_hosts(int size, int num_hosts, const std::function<void(const World& here)>& body) {
  const std::string run = fresh_run();
  const comm::Store store = comm::Store::in_process();
  test::run_ranks_as_threads(
      size, [&](test::RankContext& ctx) { body(world_on_hosts(store, run, ctx.rank(), size, num_hosts)); });
}

struct Hosts {
  const char* name;
  int size, num_hosts;
};

std::string name_of_case(const testing::TestParamInfo<std::tuple<Hosts, NetKind>>& info) {
  return cat(std::get<0>(info.param).name, "_", std::get<1>(info.param).name);
}

class EngineHosts : public testing::TestWithParam<std::tuple<Hosts, NetKind>> {};

TEST_P(EngineHosts, ACopyInEachChangesNoBit) {
  const auto& [hosts, kind] = GetParam();
  const int in_host = hosts.size / hosts.num_hosts;
  const auto run = [&](const std::string& zero, int64_t accumulation) {
    return train_net(kind.make,
                     {.size = hosts.size, .num_hosts = hosts.num_hosts, .more = zero, .accumulation = accumulation});
  };
  for (const int64_t accumulation : {1, 2}) {
    const NetRun expected = run(kStage2, accumulation);
    const std::string which = cat(kind.name, ", accumulation ", accumulation);
    // Where ranks add up first and reduce then, sums have another order.
    const char* const each = R"(, "weft": {"reduce_each": "micro_step"})";
    for (const int stage : {0, 1})
      expect_same(run(cat(R"(, "zero_optimization": {"stage": )", stage, "}", each), accumulation), expected,
                  cat(which, ", stage ", stage));
    // Without a copy ranks gather the same parameters in the same order, which these do not.
    if (std::string(kind.name) != "conditional")
      expect_same(run(stage_3(1), accumulation), expected, cat(which, ", no copy"));
    expect_same(run(stage_3(in_host), accumulation), expected, which);
    expect_same(run(stage_3(in_host, "", R"("lazy_gather": false)"), accumulation), expected, cat(which, ", at once"));
    expect_same(run(stage_3(in_host, R"(, "overlap_comm": true)", R"("bucket": "auto")"), accumulation), expected,
                cat(which, ", tuned"));
  }
}

INSTANTIATE_TEST_SUITE_P(Nets, EngineHosts,
                         testing::Combine(testing::Values(Hosts{"two_of_two", 4, 2}), testing::ValuesIn(kNetKinds)),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(Shapes, EngineHosts,
                         testing::Combine(testing::Values(Hosts{"two_of_three", 6, 2}, Hosts{"three_of_two", 6, 3}),
                                          testing::Values(kNetKinds[1], kNetKinds[6])),
                         name_of_case);

TEST(EngineHostsCopy, NarrowTypesAndClippingHaveTheBitsOfStage2) {
  for (const char* const more : {R"(, "bf16": {"enabled": true}, "gradient_clipping": 0.1)",
                                 R"(, "fp16": {"enabled": true, "initial_scale_power": 8})"}) {
    const NetRun expected = train_net(layers, {.size = 4, .num_hosts = 2, .more = cat(kStage2, more)});
    expect_same(train_net(layers, {.size = 4, .num_hosts = 2, .more = cat(stage_3(2), more)}), expected, more);
  }
}

TEST(EngineHostsCopy, RanksMayTouchDifferentParameters) {
  const NetRun expected = train_net(experts, {.size = 4, .num_hosts = 2, .more = kStage2, .num_steps = 6});
  expect_same(train_net(experts, {.size = 4, .num_hosts = 2, .more = stage_3(2), .num_steps = 6}), expected, "experts");
}

TEST(EngineHostsCopy, OnOneHostIsTheSameAsWithout) {
  const NetRun expected = train_net(layers, {.size = 4, .more = stage_3(1)});
  const NetRun with = train_net(layers, {.size = 4, .more = stage_3(2)});
  expect_same(with, expected, "one memory");
  EXPECT_EQ(with.totals.sent_bytes, expected.totals.sent_bytes);
  const char* const apart = R"("common_parameters": false)";
  expect_same(train_net(layers, {.size = 4, .more = stage_3(2, "", apart)}), expected, "slices");
}

TEST(EngineHostsCopy, SendsAndKeepsWhatThePlanSays) {
  for (const int64_t accumulation : {1, 3}) {
    on_hosts(6, 2, [&](const World& here) {
      const Net net = frozen_part();
      Engine engine(net.tensors(), settings(6, accumulation, stage_3(3)), here);
      std::vector<EngineTotals> totals;
      for (int64_t i = 0; i < 3 * accumulation; ++i) {
        engine.backward(net.loss(net, i * 6 + here.rank));
        if (engine.step().updated) totals.push_back(engine.totals());
      }
      ASSERT_EQ(totals.size(), 3U);
      const plan::Schedule schedule = plan::make_schedule(engine.plan(), 3);
      EXPECT_EQ(totals[2].sent_bytes - totals[1].sent_bytes, schedule.sent_bytes());
      EXPECT_EQ(totals[2].num_collectives - totals[1].num_collectives, schedule.num_collectives());
      EXPECT_EQ(totals[2].peak_gathered_elements, 0);
      int64_t trained = 0, gathered = 0;
      for (const plan::Bucket& bucket : engine.plan().layout.gradient_buckets()) trained += bucket.num_elements;
      for (const auto& one : schedule.boundary)
        gathered += one.operation == plan::Operation::kAllGather ? one.sent_bytes : 0;
      EXPECT_EQ(gathered * 3, trained * 4 / 2) << "half of the bytes leave a host, once a step";
      const plan::Ledger ledger = plan::make_ledger(engine.plan(), 3);
      int64_t all = 0;
      for (const plan::Bucket& bucket : engine.plan().layout.buckets) all += bucket.num_elements;
      EXPECT_EQ(ledger.bytes(plan::MemoryKind::kParameters), all * 4 / 3);
      EXPECT_EQ(engine.state_bytes().params, (16 * 24 + 24 + 24 * 8) * 4 / 3);
    });
  }
}

TEST(EngineHostsCopy, WhatAGuardOrAUserWritesIsInAllHosts) {
  on_hosts(4, 2, [&](const World& here) {
    const Net net = frozen_part();
    Engine engine(net.tensors(), settings(4, 1, stage_3(2)), here);
    const at::Tensor &weight = net.parameters[0], &bias = net.parameters[1], &frozen = net.parameters[2];
    {
      const GatheredParameters guard({weight, frozen}, 3);
      const at::NoGradGuard no_grad;
      if (here.rank == 3) {
        weight.fill_(0.25);
        frozen.fill_(0.5);
      }
    }
    engine.set_full_param(bias, numbers({24}, 77));
    EXPECT_TRUE(weight.detach().equal(at::zeros_like(weight) + 0.25)) << here.rank;
    EXPECT_TRUE(frozen.equal(at::zeros_like(frozen) + 0.5)) << here.rank;
    EXPECT_TRUE(bias.detach().equal(numbers({24}, 77))) << here.rank;
    engine.backward(net.loss(net, here.rank));
    engine.step();
    EXPECT_FALSE(weight.detach().equal(at::zeros_like(weight) + 0.25));
    EXPECT_TRUE(frozen.equal(at::zeros_like(frozen) + 0.5)) << here.rank;
    engine.wait_for_parameters();
  });
}

// Trains, saves and trains on with one way of sharding; loads it with another and does the same.
void save_and_load(const std::string& from, const std::string& to) {
  const test::TempDir folder;
  std::vector<at::Tensor> saved, expected;
  const auto train = [](Engine& engine, const Net& net, const World& here, int64_t first) {
    for (int64_t i = first; i < first + 2; ++i) {
      engine.backward(net.loss(net, i * 4 + here.rank));
      engine.step();
    }
  };
  on_hosts(4, 2, [&](const World& here) {
    const Net net = frozen_part();
    Engine engine(net.tensors(), settings(4, 1, from), here);
    train(engine, net, here, 0);
    engine.save_checkpoint(folder / "store");
    engine.save_weights(folder / "weights.safetensors");
    engine.wait_for_parameters();
    if (here.rank == 0)
      for (const at::Tensor& one : net.parameters) saved.push_back(one.detach().clone());
    train(engine, net, here, 2);
    engine.wait_for_checkpoint();
    engine.wait_for_parameters();
    if (here.rank == 0)
      for (const at::Tensor& one : net.parameters) expected.push_back(one.detach().clone());
  });
  on_hosts(4, 2, [&](const World& here) {
    const Net net = frozen_part();
    {
      const at::NoGradGuard no_grad;
      for (const at::Tensor& one : net.parameters) one.add_(1);
    }
    Engine engine(net.tensors(), settings(4, 1, to), here);
    ASSERT_TRUE(engine.load_checkpoint(folder / "store"));
    train(engine, net, here, 2);
    engine.wait_for_parameters();
    for (size_t i = 0; i < net.parameters.size(); ++i)
      EXPECT_TRUE(net.parameters[i].detach().equal(expected[i])) << "rank " << here.rank << ", parameter " << i;
    load_weights(net.tensors(), folder / "weights.safetensors");
    engine.wait_for_parameters();
    for (size_t i = 0; i < net.parameters.size(); ++i)
      EXPECT_TRUE(net.parameters[i].detach().equal(saved[i])) << "rank " << here.rank << ", parameter " << i;
  });
}

TEST(EngineHostsCopy, IsSavedAndLoadedWithFrozenParameters) {
  save_and_load(stage_3(2), stage_3(2));
  save_and_load(kStage2, stage_3(2));
  save_and_load(stage_3(2), kStage2);
}

TEST(EngineHostsCopy, IsRefusedWhereItCannotBe) {
  const auto refused = [](const World& here, const std::string& zero, const std::string& part) {
    expect_refused([&] { const Engine engine(layers().tensors(), settings(here.size, 1, zero), here); }, part);
  };
  on_hosts(4, 2, [&](const World& here) {
    refused(here, stage_3(4), R"(set "zero_hpz_partition_size": 2)");
    refused(here, stage_3(3), R"(set "zero_hpz_partition_size": 2)");
    refused(here, stage_3(2, "", R"("common_parameters": false)"), R"("common_parameters" is false)");
  });
  // No memory in common.
  const std::string run = fresh_run();
  const comm::Store store = comm::Store::in_process();
  test::run_ranks_as_threads(2, [&](test::RankContext& ctx) {
    World here = world(run, ctx.rank(), 2);
    here.group = gloo_group(store, ctx.rank(), 2);
    refused(here, stage_3(2), "share no memory: transport gloo");
  });
}

}  // namespace
}  // namespace weft
