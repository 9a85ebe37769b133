// For this room's tests of stage 3: models as functions over named parameters, trained by ranks that are threads.
// Requires: tests/support/ranks.h and engine_test_impl.h, included before.
#pragma once

#include <functional>

#include "weft/comm/c10d/gloo_group.h"
#include "weft/comm/hierarchical_group.h"
#include "weft/comm/wrapped_group.h"
#include "weft/engine/gather_together.h"

namespace weft {

// Ranks that can do no more than call each other, as over a network.
class AsOverANetwork final : public comm::WrappedGroup {
 public:
  explicit AsOverANetwork(std::shared_ptr<comm::Group> inner) : WrappedGroup(std::move(inner)) {}
  int num_sharing() const override { return 1; }
  bool one_sided() const override { return false; }

 private:
  comm::Work launch(const comm::Collective& call, comm::Launch how) override { return pass_on(call, how); }
  std::shared_ptr<comm::Group> wrap(std::shared_ptr<comm::Group> part, const std::vector<int>&) override {
    return std::make_shared<AsOverANetwork>(std::move(part));
  }
};

struct Net {
  std::vector<at::Tensor> parameters;
  std::function<at::Tensor(const Net& net, int64_t sample)> loss;
  std::vector<std::vector<size_t>> together = {};
  engine::NamedTensors buffers = {};

  ModelTensors tensors() const {
    ModelTensors out{.parameters = {}, .buffers = buffers};
    for (size_t i = 0; i < parameters.size(); ++i) out.parameters.emplace_back(cat("p", i), parameters[i]);
    return out;
  }
};

struct NetRun {
  std::vector<float> losses;  // of rank 0
  std::vector<at::Tensor> parameters, buffers;
  EngineTotals totals;
};

struct NetTraining {
  int size = 2;
  bool over_network = false;
  bool over_gloo = false;  // a network in earnest
  int num_hosts = 1;       // above 1: shared memory inside of them, gloo between
  std::string more;        // of the config
  int num_steps = 4;
  int64_t accumulation = 1;
  // Called on every rank before each step.
  std::function<void(const Net& net, int64_t step)> before_step = {};
  bool with_sgd = false;  // instead of AdamW: lr 0.001, momentum 0.9, weight decay 0.01
};

inline config::Resolved settings_of(const NetTraining& how) {
  config::Resolved out = settings(how.size, how.accumulation, how.more);
  if (!how.with_sgd) return out;
  const std::string text =
      R"({"train_batch_size": 1, "optimizer": {"type": "SGD", "params": {"lr": 0.001, "momentum": 0.9, "weight_decay": 0.01}}})";
  auto reading = config::read_config(config::parse_document(std::make_shared<config::Source>("sgd.json", text)),
                                     {{"world", config::int_fact(1, "the test")}});
  out.optimizer = std::move(reading.resolved.optimizer);
  return out;
}

inline std::shared_ptr<comm::Group> gloo_group(const comm::Store& store, int rank, int size) {
  return comm::make_gloo_group({"world", rank, size, kDeadlineS * test::kSlowdown}, store, Deadline::after(30.0));
}

// As weft::init() makes it where each host has as many ranks.
inline World world_on_hosts(const comm::Store& store, const std::string& run, int rank, int size, int num_hosts) {
  const int here = size / num_hosts, host = rank / here;
  World out = world(cat(run, "/host-", host), rank % here, here);
  std::vector<int> host_of;
  for (int r = 0; r < size; ++r) host_of.push_back(r / here);
  const double deadline_s = kDeadlineS * test::kSlowdown;
  auto watch = std::make_shared<comm::RollCall>(comm::GroupIdentity{"watch", rank, size, deadline_s}, store,
                                                Deadline::after(deadline_s));
  out.group = comm::make_hierarchical_group(gloo_group(store, rank, size), out.group, host_of, std::move(watch));
  out.rank = rank;
  out.size = size;
  out.num_hosts = num_hosts;
  return out;
}

inline NetRun train_net(const std::function<Net()>& make, const NetTraining& how) {
  NetRun out;
  const std::string run = fresh_run();
  const comm::Store store = comm::Store::in_process();
  test::run_ranks_as_threads(how.size, [&](test::RankContext& ctx) {
    World here = world(run, ctx.rank(), how.size);
    if (how.over_network) here.group = std::make_shared<AsOverANetwork>(here.group);
    if (how.num_hosts > 1) here = world_on_hosts(store, run, ctx.rank(), how.size, how.num_hosts);
    if (how.over_gloo) here.group = gloo_group(store, ctx.rank(), how.size);
    const Net net = make();
    for (const auto& group : net.together) {
      std::vector<at::Tensor> tensors;
      for (const size_t parameter : group) tensors.push_back(net.parameters[parameter]);
      gather_together(tensors);
    }
    Engine engine(net.tensors(), settings_of(how), here);
    for (int64_t i = 0; i < how.num_steps * how.accumulation; ++i) {
      if (how.before_step && i % how.accumulation == 0) how.before_step(net, i / how.accumulation);
      const at::Tensor loss = net.loss(net, i * how.size + ctx.rank());
      if (ctx.rank() == 0) out.losses.push_back(loss.item<float>());
      engine.backward(loss);
      engine.step();
    }
    std::vector<at::Tensor> parameters;
    for (const at::Tensor& one : net.parameters) parameters.push_back(one.detach().clone());
    if (ctx.rank() != 0) return;
    out.parameters = parameters;
    for (const auto& [name, tensor] : net.buffers) out.buffers.push_back(tensor.clone());
    out.totals = engine.totals();
  });
  return out;
}

inline void expect_same(const NetRun& a, const NetRun& b, const std::string& which) {
  EXPECT_EQ(a.losses, b.losses) << which;
  expect_equal(a.parameters, b.parameters, which);
  ASSERT_EQ(a.buffers.size(), b.buffers.size());
  for (size_t i = 0; i < a.buffers.size(); ++i)
    EXPECT_TRUE(a.buffers[i].equal(b.buffers[i])) << which << ", buffer " << i;
}

inline constexpr const char* kStage2 = R"(, "zero_optimization": {"stage": 2})";
// As little as possible stays: every bucket is one parameter, and leaves when another is touched.
inline constexpr const char* kTight =
    R"(, "zero_optimization": {"stage": 3, "reduce_bucket_size": 1, "stage3_param_persistence_threshold": 0,
        "stage3_max_live_parameters": 0}, "weft": {"common_parameters": false})";
inline constexpr const char* kRoomy =
    R"(, "zero_optimization": {"stage": 3, "overlap_comm": true, "reduce_bucket_size": 200, "stage3_prefetch_bucket_size": 400,
        "stage3_param_persistence_threshold": 9, "stage3_max_live_parameters": 1200}, "weft": {"common_parameters": false})";

struct Sharding {
  const char* name;
  const char* zero;
  bool over_network = false;
};

// Parameters replicated, in one memory, in slices that ranks read from each other, and in slices that are sent.
inline constexpr Sharding kShardings[] = {
    {"stage_0", R"(, "zero_optimization": {"stage": 0}, "weft": {"shard_update": false})"},
    {"stage_1_lazily", R"(, "zero_optimization": {"stage": 1}, "weft": {"common_parameters": false})"},
    {"stage_2_common", kStage2},
    {"stage_2_network", kStage2, true},
    {"stage_3_common", R"(, "zero_optimization": {"stage": 3})"},
    {"stage_3_tight", kTight},
    {"stage_3_roomy", kRoomy},
    {"stage_3_tight_network", kTight, true},
    {"stage_3_roomy_network", kRoomy, true}};

// Does not divide what tests share out.
inline constexpr int kWorld = 3;

// Calls `body` on every rank of a world of kWorld.
inline void on_ranks_of(const Sharding& sharding, const std::function<void(const World& here)>& body) {
  const std::string run = fresh_run();
  test::run_ranks_as_threads(kWorld, [&](test::RankContext& ctx) {
    World here = world(run, ctx.rank(), kWorld, 10);
    if (sharding.over_network) here.group = std::make_shared<AsOverANetwork>(here.group);
    body(here);
  });
}

}  // namespace weft
