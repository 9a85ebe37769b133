// What was saved goes on as if nothing had happened, in whatever world, stage and buckets.
#include "weft/engine/checkpoints.h"

#include <ATen/Context.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

#include "tests/support/ranks.h"
#include "tests/support/temp_dir.h"
#include "weft/base/error.h"
#include "weft/engine/engine_test_impl.h"
#include "weft/engine/gathered_parameters.h"
#include "weft/engine/saved_numbers.h"

namespace weft {
namespace {

constexpr int kStepsBefore = 3, kStepsAfter = 3;

// A model with a frozen parameter and buffers: one that all ranks share, one that each rank has its own of.
struct Wide : Model {
  at::Tensor frozen = numbers({7, 5}, 5), shared = numbers({6}, 6), own = at::zeros({3});
  ModelTensors tensors() const {
    ModelTensors out = Model::tensors();
    out.parameters.emplace_back("frozen", frozen);
    out.buffers = {{"shared", shared}, {"own", own}};
    return out;
  }
};

// Everything of a training that a checkpoint is to bring back, whole.
struct State {
  std::vector<at::Tensor> tensors;
  int64_t global_steps = 0;
  double loss_scale = 1;
};

State state_of(Engine& engine, const Wide& model) {
  State out{.tensors = {}, .global_steps = engine.global_steps(), .loss_scale = engine.loss_scale()};
  for (const at::Tensor& one : {model.first, model.bias, model.second, model.seldom})
    out.tensors.push_back(engine.full_param(one));
  for (const auto& [name, tensor] : engine.optimizer_state()) out.tensors.push_back(tensor.to(at::kFloat).clone());
  return out;
}

void train_on(Engine& engine, const Wide& model, const World& here, int from, int to) {
  for (int64_t i = from; i < to; ++i) {
    const int64_t sample = i * here.size + here.rank;
    engine.backward(model.loss(sample, sample % 3 != 1));
    engine.step();
  }
}

struct TrainingSetup {
  int world = 1;
  std::string more;
};

// Trains to step kStepsBefore, saves, and trains on: what is there when it saves, and at the end.
std::pair<State, State> save_and_go_on(const std::string& store, const TrainingSetup& how) {
  std::pair<State, State> out;
  const std::string run = fresh_run();
  test::run_ranks_as_threads(how.world, [&](test::RankContext& ctx) {
    const World here = world(run, ctx.rank(), how.world);
    Wide model;
    Engine engine(model.tensors(), settings(how.world, 1, how.more), here);
    model.own.fill_(10 + ctx.rank());
    train_on(engine, model, here, 0, kStepsBefore);
    const State saved = state_of(engine, model);
    const SaveReport report =
        engine.save_checkpoint(store, {.tag = "t", .client_state = {{"k", std::string("a\0b", 3)}}});
    EXPECT_EQ(report.step, kStepsBefore);
    EXPECT_GT(report.bytes, 3 * 4 * 24 * 40);
    train_on(engine, model, here, kStepsBefore, kStepsBefore + kStepsAfter);
    engine.wait_for_checkpoint();
    const State end = state_of(engine, model);
    if (ctx.rank() == 0) out = {saved, end};
  });
  return out;
}

// Loads into a model of other values, and trains on.
std::pair<State, State> load_and_go_on(const std::string& store, const TrainingSetup& how) {
  std::pair<State, State> out;
  const std::string run = fresh_run();
  test::run_ranks_as_threads(how.world, [&](test::RankContext& ctx) {
    const World here = world(run, ctx.rank(), how.world);
    Wide model;
    {
      const at::NoGradGuard no_grad;
      for (auto& [name, tensor] : model.tensors().parameters) tensor.add_(1);
      model.shared.add_(1);
    }
    Engine engine(model.tensors(), settings(how.world, 1, how.more), here);
    const auto loaded = engine.load_checkpoint(store);
    ASSERT_TRUE(loaded);
    EXPECT_EQ(loaded->step, kStepsBefore);
    EXPECT_EQ(loaded->client_state.at("k"), std::string("a\0b", 3));
    EXPECT_EQ(loaded->tag, "t");
    EXPECT_TRUE(model.shared.to(at::kFloat).allclose(Wide().shared, 1e-2, 1e-2));
    EXPECT_TRUE((model.frozen.to(at::kFloat) - Wide().frozen).abs().max().item<float>() < 0.01);
    EXPECT_EQ(model.own[0].item<float>(), loaded->saved_world == how.world ? 10 + ctx.rank() : 10);
    const State saved = state_of(engine, model);
    train_on(engine, model, here, kStepsBefore, kStepsBefore + kStepsAfter);
    const State end = state_of(engine, model);
    if (ctx.rank() == 0) out = {saved, end};
  });
  return out;
}

void expect_same_state(const State& a, const State& b, const std::string& which) {
  EXPECT_EQ(a.global_steps, b.global_steps) << which;
  EXPECT_EQ(a.loss_scale, b.loss_scale) << which;
  ASSERT_EQ(a.tensors.size(), b.tensors.size()) << which;
  for (size_t i = 0; i < a.tensors.size(); ++i)
    EXPECT_TRUE(a.tensors[i].equal(b.tensors[i])) << which << ", tensor " << i;
}

const std::vector<std::string> kStagesToResume = {
    R"(, "weft": {"shard_update": false})",
    R"(, "zero_optimization": {"stage": 1, "reduce_bucket_size": 300}, "weft": {"common_parameters": false})",
    R"(, "zero_optimization": {"stage": 2})",
    R"(, "zero_optimization": {"stage": 2, "overlap_comm": true}, "weft": {"common_parameters": false})",
    R"(, "zero_optimization": {"stage": 3})",
    R"(, "zero_optimization": {"stage": 3, "reduce_bucket_size": 100, "stage3_param_persistence_threshold": 36,
        "stage3_max_live_parameters": 0}, "weft": {"common_parameters": false})"};

struct From {
  const char* type;
  std::string config;
  int world = 1;
};

class Resume : public testing::TestWithParam<From> {};

// From each world and stage to each: every other pair, or with WEFT_TEST_ALL all of them, which takes some minutes.
TEST_P(Resume, FromAnyToAny) {
  const auto& [name, type, from_world] = GetParam();
  const bool all = std::getenv("WEFT_TEST_ALL") != nullptr;
  for (size_t from = 0; from < kStagesToResume.size(); ++from) {
    const test::TempDir dir;
    const TrainingSetup before{.world = from_world, .more = type + kStagesToResume[from]};
    const auto [saved, end] = save_and_go_on(dir / "store", before);
    for (const int to_world : {1, 2, 3, 4}) {
      const size_t first = all ? 0 : (from + static_cast<size_t>(to_world)) % 2, stride = all ? 1 : 2;
      for (size_t to = first; to < kStagesToResume.size(); to += stride) {
        const TrainingSetup after{.world = to_world, .more = type + kStagesToResume[to]};
        const std::string which = cat(from_world, before.more, " -> ", to_world, after.more);
        const auto [loaded, went_on] = load_and_go_on(dir / "store", after);
        expect_same_state(loaded, saved, which);
        if (to_world == from_world) expect_same_state(went_on, end, which);
      }
    }
  }
}

std::vector<From> every_type_and_world() {
  std::vector<From> out;
  for (const int world : {1, 2, 3, 4}) {
    out.push_back({"fp32", R"(, "gradient_clipping": 0.05)", world});
    out.push_back({"bf16", R"(, "bf16": {"enabled": true}, "gradient_clipping": 0.05)", world});
    out.push_back({"fp16", R"(, "fp16": {"enabled": true, "initial_scale_power": 17, "hysteresis": 1})", world});
  }
  return out;
}

INSTANTIATE_TEST_SUITE_P(All, Resume, testing::ValuesIn(every_type_and_world()),
                         [](const auto& one) { return cat(one.param.type, "_of_", one.param.world); });

TEST(ResumeAcrossTypes, MastersBecomeParametersAndBack) {
  const std::string wide, narrow = R"(, "bf16": {"enabled": true})";
  for (const auto& [before, after] : {std::pair{narrow, wide}, std::pair{wide, narrow}}) {
    const test::TempDir dir;
    const auto [saved, end] = save_and_go_on(dir / "store", {.world = 2, .more = before + kStagesToResume[2]});
    const auto [loaded, went_on] = load_and_go_on(dir / "store", {.world = 3, .more = after + kStagesToResume[5]});
    for (size_t i = 0; i < 4; ++i) EXPECT_TRUE(loaded.tensors[i].equal(saved.tensors[i])) << i;
  }
}

// --- Of one rank -----------------------------------------------------------------------------------------------------

struct Alone {
  Wide model;
  World here = world(fresh_run(), 0, 1);
  Engine engine;
  explicit Alone(const std::string& more = "") : engine(model.tensors(), settings(1, 2, more), here) {}
  explicit Alone(const config::Resolved& config) : engine(model.tensors(), config, here) {}
  void step() {
    for (int i = 0; i < 2; ++i) {
      engine.backward(model.loss(i));
      engine.step();
    }
  }
};

TEST(Checkpoint, RandomNumbersScheduleAndDataGoOn) {
  const test::TempDir dir;
  const data::SamplerState data{.epoch = 2, .consumed = 40, .num_samples = 99, .seed = -7, .shuffle = false};
  const std::string warmup =
      R"(, "scheduler": {"type": "WarmupLR", "params": {"warmup_min_lr": 0, "warmup_max_lr": 0.1, "warmup_num_steps": 10}})";
  Alone first(warmup);
  first.step();
  first.step();
  first.engine.save_checkpoint(dir / "s", {.data = data, .in_background = false});
  const at::Tensor next = at::rand({5});
  first.step();
  Alone second(warmup);
  const auto loaded = second.engine.load_checkpoint(dir / "s");
  EXPECT_TRUE(at::rand({5}).equal(next));
  EXPECT_EQ(loaded->data, data);
  EXPECT_EQ(second.engine.micro_steps(), 4);
  second.step();
  EXPECT_EQ(second.engine.get_lr(), first.engine.get_lr());
  EXPECT_EQ(second.engine.global_steps(), 3);
}

config::Resolved settings_of(const std::string& text) {
  auto reading = config::read_config(config::parse_document(std::make_shared<config::Source>("test.json", text)),
                                     {{"world", config::int_fact(1, "the test")}});
  config::require_usable(reading);
  return std::move(reading.resolved);
}

TEST(Checkpoint, ARateSetByHandGoesOnAndOneOfANewConfigCounts) {
  const test::TempDir dir;
  Alone first;
  first.engine.set_lr(0.125);
  first.step();
  first.engine.save_checkpoint(dir / "s", {.in_background = false});
  Alone same;
  same.engine.load_checkpoint(dir / "s");
  EXPECT_EQ(same.engine.get_lr(), 0.125);
  auto config = settings(1, 2);
  config.optimizer.type = "SGD";  // has a rate of its own, and state of another kind
  Alone other(config);
  expect_refused([&] { other.engine.load_checkpoint(dir / "s"); }, "'optim/exp_avg/first' is there and not here");
  Alone changed(settings_of(
      R"({"train_micro_batch_size_per_gpu": 5, "gradient_accumulation_steps": 2, "optimizer": {"type": "AdamW", "params": {"lr": 0.5}}})"));
  changed.engine.load_checkpoint(dir / "s");
  EXPECT_EQ(changed.engine.get_lr(), 0.5);
}

TEST(Checkpoint, TheDamagedNewestIsNamedAndTheOneBeforeTaken) {
  const test::TempDir dir;
  Alone first;
  first.step();
  first.engine.save_checkpoint(dir / "s");
  first.step();
  first.engine.save_checkpoint(dir / "s");
  first.engine.wait_for_checkpoint();
  const std::string path = dir / "s/step_00000002/rank_00000.safetensors";
  const auto file = Env::posix().open(path, OpenMode::kReadWrite);
  std::byte last{};
  file->read_at(file->size() - 1, {&last, 1});
  last ^= std::byte{1};
  file->write_at(file->size() - 1, {&last, 1});
  Alone second;
  const auto loaded = second.engine.load_checkpoint(dir / "s");
  ASSERT_TRUE(loaded);
  EXPECT_EQ(loaded->step, 1);
  ASSERT_EQ(loaded->passed_over.size(), 1);
  EXPECT_NE(loaded->passed_over[0].find("step_00000002"), std::string::npos) << loaded->passed_over[0];
}

TEST(Checkpoint, WhereNoneIsIntactTheEngineIsDead) {
  const test::TempDir dir;
  Alone first;
  first.step();
  first.engine.save_checkpoint(dir / "s", {.in_background = false});
  Env::posix().open(dir / "s/step_00000001/rank_00000.safetensors", OpenMode::kReadWrite)->truncate(100);
  Alone second;
  expect_refused([&] { second.engine.load_checkpoint(dir / "s"); }, "none of the checkpoints is intact");
  expect_refused([&] { second.step(); }, "a checkpoint could not be loaded");
}

TEST(Checkpoint, AnotherModelIsRefusedByEveryDifference) {
  const test::TempDir dir;
  Alone first;
  first.step();
  first.engine.save_checkpoint(dir / "s", {.in_background = false});
  const at::Tensor weight = parameter({3, 2}, 1);
  const at::Tensor bias = parameter({8}, 1);
  Engine other({{{"first", weight}, {"other", bias}}, {}}, settings(1, 1), world(fresh_run(), 0, 1));
  const std::string text = refusal([&] { other.load_checkpoint(dir / "s"); });
  EXPECT_NE(text.find("'param/first' has shape [24, 40] there and [3, 2] here"), std::string::npos) << text;
  EXPECT_NE(text.find("'param/other' is missing"), std::string::npos);
  EXPECT_NE(text.find("'optim/exp_avg/second' is there and not here"), std::string::npos);
  other.backward(weight.pow(2).sum() + bias.sum());
  other.step();  // nothing was loaded, so it goes on
}

TEST(Checkpoint, TagsAndRefusals) {
  const test::TempDir dir;
  Alone first;
  first.step();
  first.engine.save_checkpoint(dir / "s", {.tag = "early"});
  first.step();
  first.engine.save_checkpoint(dir / "s", {.tag = "late"});
  first.engine.wait_for_checkpoint();
  Alone second;
  EXPECT_EQ(second.engine.load_checkpoint(dir / "s", {.tag = "early"})->step, 1);
  EXPECT_FALSE(second.engine.load_checkpoint(dir / "s", {.tag = "never"}));
  EXPECT_FALSE(second.engine.load_checkpoint(dir / "nothing"));
  const auto refuse = [](const LoadedCheckpoint& found) {
    throw Error(ErrorKind::kInput, {.title = cat("not step ", found.step)});
  };
  expect_refused([&] { second.engine.load_checkpoint(dir / "s", {.accept = refuse}); }, "not step 2");
  second.step();
}

TEST(Checkpoint, BuffersThatAreUndefinedAreNotSaved) {
  const test::TempDir dir;
  for (const bool loads : {false, true}) {
    const std::string run = fresh_run();
    test::run_ranks_as_threads(2, [&](test::RankContext& ctx) {
      const World here = world(run, ctx.rank(), 2);
      Wide model;
      ModelTensors tensors = model.tensors();
      tensors.buffers.insert(tensors.buffers.begin() + 1, {"running_mean", at::Tensor()});
      Engine engine(tensors, settings(2, 1, R"(, "bf16": {"enabled": true})"), here);
      if (loads) {
        ASSERT_TRUE(engine.load_checkpoint(dir / "store"));
        EXPECT_EQ(model.own[0].item<float>(), static_cast<float>(3 + ctx.rank()));
        return;
      }
      model.own.fill_(3 + ctx.rank());
      engine.save_checkpoint(dir / "store", {.in_background = false});
      engine.save_weights(dir / "weights.safetensors");
    });
  }
}

TEST(Checkpoint, InsideGatheredParametersIsRefused) {
  const test::TempDir dir;
  Alone one;
  one.step();
  for (const std::optional<int> modifier_rank : {std::optional<int>(), std::optional(0)}) {
    const GatheredParameters guard({one.model.first}, modifier_rank);
    expect_refused([&] { one.engine.save_checkpoint(dir / "s"); }, "save_checkpoint() inside a GatheredParameters");
    expect_refused([&] { one.engine.load_checkpoint(dir / "s"); }, "load_checkpoint() inside a GatheredParameters");
  }
  one.engine.save_checkpoint(dir / "s", {.in_background = false});
  EXPECT_EQ(one.engine.load_checkpoint(dir / "s")->step, 1);
}

TEST(Checkpoint, ASaveForWhichThereIsNoRoomIsRefusedAndTrainingGoesOn) {
  const test::TempDir dir;
  Alone one;
  one.step();
  expect_refused([&] { one.engine.save_checkpoint(dir / "s", {.spare_bytes = uint64_t{1} << 60}); },
                 "there is no room on the disk");
  one.step();
  one.engine.save_checkpoint(dir / "s");
  one.engine.wait_for_checkpoint();
  EXPECT_EQ(one.engine.checkpoint_totals().num_saves, 1);
  EXPECT_EQ(one.engine.checkpoint_totals().num_failed, 0);
}

TEST(Checkpoint, ASaveThatFailsBehindTheTrainingIsToldByWait) {
  const test::TempDir dir;
  Alone one;
  one.step();
  one.engine.save_checkpoint(dir / "s");
  one.engine.wait_for_checkpoint();
  one.step();
  // A file where the folder of the step is to be.
  Env::posix().open(dir / "s/step_00000002.tmp", OpenMode::kCreate);
  one.engine.save_checkpoint(dir / "s");
  one.step();
  expect_refused([&] { one.engine.wait_for_checkpoint(); }, "step_00000002.tmp");
  EXPECT_EQ(one.engine.checkpoint_totals().num_failed, 1);
  Env::posix().remove_file(dir / "s/step_00000002.tmp");
  one.engine.save_checkpoint(dir / "s");
  one.engine.wait_for_checkpoint();
  Alone second;
  EXPECT_EQ(second.engine.load_checkpoint(dir / "s")->step, 3);
}

TEST(Checkpoint, TwoRunsDoNotWriteToOneStore) {
  const test::TempDir dir;
  Alone one, two;
  one.step();
  two.step();
  one.engine.save_checkpoint(dir / "s");
  expect_refused([&] { two.engine.save_checkpoint(dir / "s"); }, "another run is writing to this store");
}

TEST(Checkpoint, AFolderThatNotAllRanksSeeIsRefused) {
  const test::TempDir dir;
  const std::string run = fresh_run();
  test::run_ranks_as_threads(2, [&](test::RankContext& ctx) {
    Wide model;
    Engine engine(model.tensors(), settings(2, 1), world(run, ctx.rank(), 2));
    const std::string text = refusal([&] { engine.open_checkpoints(dir / cat("s", ctx.rank())); });
    EXPECT_NE(text.find("not all ranks see the folder"), std::string::npos) << text;
    EXPECT_NE(text.find(dir / "s1"), std::string::npos) << "rank 1's: " << text;
    engine.open_checkpoints(dir / "together");
  });
}

TEST(Checkpoint, KeepsTheLast) {
  const test::TempDir dir;
  Alone one;
  for (int i = 0; i < 5; ++i) {
    one.step();
    one.engine.save_checkpoint(dir / "s", {.keep = {{.keep_last = 2, .keep_every = 3}}});
  }
  one.engine.wait_for_checkpoint();
  EXPECT_EQ(Env::posix().list(dir / "s"),
            (std::vector<std::string>{"latest", "step_00000003", "step_00000004", "step_00000005", "store.lock"}));
}

TEST(SavedNumbers, AreReadBackExactly) {
  const engine::SavedNumbers numbers{
      .global_steps = 7, .micro_steps = 21, .skipped_steps = 1, .lrs = {0.1, 1e-300}, .base_lrs = {1.0 / 3, 2}};
  EXPECT_EQ(engine::read_numbers(to_text(numbers)), numbers);
  engine::SavedNumbers under_way = numbers;
  under_way.in_step = 3;
  under_way.accumulation_steps = 8;
  under_way.micro_batch = 5;
  under_way.loss_scale = 65536;
  EXPECT_EQ(engine::read_numbers(to_text(under_way)), under_way);
  expect_refused([] { engine::read_numbers("global_steps 1\nmicro_steps 1\nskipped_steps 0\nin_step -1\n"); },
                 "micro-step -1 of 1");
  expect_refused([] { engine::read_numbers("global_steps 1x\n"); }, "'1x' is no number");
  expect_refused([] { engine::read_numbers(""); }, "no 'global_steps'");
}

}  // namespace
}  // namespace weft
