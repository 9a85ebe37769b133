#include "weft/engine/model_saving.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/ranks.h"
#include "tests/support/temp_dir.h"
#include "weft/base/crash_env.h"
#include "weft/checkpoint/model_files.h"
#include "weft/checkpoint/weight_tensors.h"
#include "weft/engine/engine_test_impl.h"
#include "weft/engine/zero3_test_impl.h"

namespace weft {
namespace {

using checkpoint::read_elements, checkpoint::WeightFiles;

// Five layers, one of them under two names and one frozen, and a buffer.
struct Five {
  std::vector<at::Tensor> layers;
  at::Tensor buffer = at::arange(3, at::kLong);

  Five() {
    for (int64_t i = 0; i < 5; ++i) layers.push_back(parameter({12, 12}, i));
    layers[3].set_requires_grad(false);
  }
  ModelTensors tensors() const {
    ModelTensors out{{}, {{"steps", buffer}}};
    for (size_t i = 0; i < layers.size(); ++i) out.parameters.emplace_back(cat("layer", i), layers[i]);
    out.parameters.emplace_back("head", layers[0]);
    return out;
  }
  at::Tensor loss(int64_t sample) const {
    at::Tensor x = numbers({4, 12}, 100 + sample).to(layers[0].scalar_type());
    for (const at::Tensor& layer : layers) x = at::mm(x, layer).tanh();
    return x.pow(2).mean();
  }
};

constexpr Sharding kSettings[] = {
    {"stage_0", ""},
    {"stage_1_lazily", R"(, "zero_optimization": {"stage": 1}, "weft": {"common_parameters": false})"},
    {"stage_2_bf16", R"(, "zero_optimization": {"stage": 2}, "bf16": {"enabled": true})"},
    {"stage_3_common", R"(, "zero_optimization": {"stage": 3})"},
    {"stage_3_tight", kTight},
    {"stage_3_roomy", kRoomy},
    {"stage_3_tight_network", kTight, true},
    {"stage_3_roomy_network", kRoomy, true}};

void with_engines(const Sharding& setting, const std::string& more,
                  const std::function<void(const World& here, const Five& model, Engine& engine)>& body) {
  on_ranks_of(setting, [&](const World& here) {
    const Five model;
    Engine engine(model.tensors(), settings(kWorld, 1, cat(setting.zero, more)), here);
    body(here, model, engine);
  });
}

void step(const World& here, const Five& model, Engine& engine, int64_t number) {
  engine.backward(model.loss(number * kWorld + here.rank));
  engine.step();
}

class SavedModel : public testing::TestWithParam<Sharding> {};
INSTANTIATE_TEST_SUITE_P(Settings, SavedModel, testing::ValuesIn(kSettings),
                         [](const auto& param) { return std::string(param.param.name); });

void expect_saved(const std::string& path, const Five& model) {
  WeightFiles files(Env::posix(), path);
  EXPECT_EQ(files.names(), (std::vector<std::string>{"layer0", "layer1", "layer2", "layer3", "layer4", "steps"}))
      << "what is tied stands once";
  for (size_t i = 0; i < model.layers.size(); ++i) {
    const at::Tensor saved = read_elements(files, cat("layer", i), 0, 144).view({12, 12});
    EXPECT_TRUE(saved.equal(model.layers[i].detach())) << "layer " << i;
    EXPECT_EQ(saved.scalar_type(), model.layers[i].scalar_type());
  }
  EXPECT_TRUE(read_elements(files, "steps", 0, 3).equal(at::arange(3, at::kLong)));
}

TEST_P(SavedModel, HasWhatTheModelHas) {
  const test::TempDir dir;
  with_engines(GetParam(), "", [&](const World& here, const Five& model, Engine& engine) {
    step(here, model, engine, 0);
    engine.save_weights(dir / "one.safetensors");
    engine.save_weights(dir / "folder");
    engine.save_weights(dir / "many", {.max_shard_bytes = 700});
    // Looking at the values is a collective over a network, and so all ranks look.
    expect_saved(dir / "one.safetensors", model);
    expect_saved(dir / "folder", model);
    expect_saved(dir / "many", model);
    step(here, model, engine, 1);
  });
  EXPECT_TRUE(std::filesystem::exists(dir / "folder/model.safetensors"));
  EXPECT_TRUE(std::filesystem::exists(dir / "many/model.safetensors.index.json"));
  for (const auto& entry : std::filesystem::directory_iterator(dir / "many"))
    EXPECT_NE(entry.path().extension(), ".tmp") << entry.path();
}

TEST_P(SavedModel, ThatCannotBeWrittenIsAnErrorOnAllRanks) {
  const test::TempDir dir;
  write_file(Env::posix(), dir / "taken", bytes_of("a file"));
  with_engines(GetParam(), "", [&](const World& here, const Five& model, Engine& engine) {
    step(here, model, engine, 0);
    expect_refused([&] { engine.save_weights(dir / "taken"); }, "taken");
    expect_refused([&] { engine.save_weights(dir / "folder", {.max_shard_bytes = 0}); }, "max_shard_bytes");
    step(here, model, engine, 1);
    engine.save_weights(dir / "folder");
    expect_saved(dir / "folder", model);
  });
}

// Slices are gathered one bucket at a time, and nothing of the model is left whole.
TEST(SaveModel, HoldsOneParameterAtATime) {
  for (const bool over_network : {false, true}) {
    const test::TempDir dir;
    with_engines({"", kTight, over_network}, "", [&](const World& here, const Five&, Engine& engine) {
      engine.save_weights(dir / "folder");
      const int64_t one_layer = 192;  // with padding for three ranks
      const int64_t peak = engine.totals().peak_gathered_elements;
      EXPECT_LE(peak, one_layer);
      EXPECT_EQ(peak > 0, over_network || here.rank == 0) << "only who writes reads, where that takes nobody else";
    });
  }
}

TEST(SaveModel, LeavesOutWhatIsFrozenIfAsked) {
  const test::TempDir dir;
  with_engines(kSettings[4], "", [&](const World& here, const Five&, Engine& engine) {
    engine.save_weights(dir / "folder", {.exclude_frozen_parameters = true});
    if (here.rank != 0) return;
    EXPECT_EQ(WeightFiles(Env::posix(), dir / "folder").find("layer3"), nullptr);
  });
}

TEST(SaveModel, In16BitAsksTheConfig) {
  const test::TempDir dir;
  const char* const third = R"(, "zero_optimization": {"stage": 3, "stage3_gather_16bit_weights_on_model_save": true})";
  with_engines({"", R"(, "zero_optimization": {"stage": 3})"}, "",
               [&](const World&, const Five&, Engine& engine) { EXPECT_FALSE(engine.save_16bit_model(dir / "a")); });
  EXPECT_FALSE(std::filesystem::exists(dir / "a"));
  for (const char* zero : {third, kStage2}) {
    with_engines({"", zero}, "",
                 [&](const World&, const Five&, Engine& engine) { EXPECT_TRUE(engine.save_16bit_model(dir / "a")); });
    EXPECT_TRUE(std::filesystem::exists(dir / "a/model.safetensors"));
  }
}

// --- The files -------------------------------------------------------------------------------------------------------

engine::WeightSource numbered(float value) {
  engine::WeightSource out{{}, [value](size_t) { return at::full({8}, value); }};
  for (int i = 0; i < 4; ++i) out.specs.push_back({.name = cat("w", i), .type = at::kFloat, .shape = {8}});
  return out;
}

constexpr SaveModelOptions kPairs{.max_shard_bytes = 64}, kSingles{.max_shard_bytes = 32}, kWhole{};

std::vector<std::string> names_in(Env& env, const std::string& folder) { return env.list(folder); }

TEST(ModelFolder, HoldsOneSave) {
  CrashEnv env;
  engine::save_model_files(env, "/m", numbered(1), kSingles);
  EXPECT_EQ(names_in(env, "/m").size(), 5U);
  write_file(env, "/m/config.json", bytes_of("{}"));
  engine::save_model_files(env, "/m", numbered(2), kPairs);
  EXPECT_EQ(names_in(env, "/m"),
            (std::vector<std::string>{"config.json", "model-00001-of-00002.safetensors",
                                      "model-00002-of-00002.safetensors", "model.safetensors.index.json"}));
  engine::save_model_files(env, "/m", numbered(3), kWhole);
  EXPECT_EQ(names_in(env, "/m"), (std::vector<std::string>{"config.json", "model.safetensors"}));
  engine::save_model_files(env, "/m", numbered(4), kPairs);
  EXPECT_EQ(names_in(env, "/m").size(), 4U);
}

// Whatever the moment at which the power goes: what is read afterwards is all of one save, or it is refused.
TEST(ModelFolder, IsNeverAMixture) {
  struct Change {
    SaveModelOptions before, after;
  };
  int num_refused = 0, num_old = 0, num_new = 0;
  for (const Change& change : {Change{kPairs, kPairs}, {kPairs, kSingles}, {kWhole, kPairs}, {kPairs, kWhole}}) {
    for (int calls = 0;; ++calls) {
      CrashEnv env;
      engine::save_model_files(env, "/m", numbered(1), change.before);
      env.cut_power_after(calls);
      bool is_through = true;
      try {
        engine::save_model_files(env, "/m", numbered(2), change.after);
      } catch (const Error&) {
        is_through = false;
      }
      env.crash(static_cast<uint64_t>(calls) + 1);
      float found = 0;
      try {
        WeightFiles files(env, "/m");
        found = read_elements(files, "w0", 0, 1).item<float>();
        for (int i = 0; i < 4; ++i)
          EXPECT_TRUE(read_elements(files, cat("w", i), 0, 8).equal(at::full({8}, found)))
              << "after " << calls << " calls";
      } catch (const Error&) {
        ++num_refused;
        EXPECT_FALSE(is_through);
      }
      num_old += found == 1;
      num_new += found == 2;
      if (!is_through) continue;
      EXPECT_EQ(found, 2);
      break;
    }
  }
  EXPECT_GT(num_old, 20);
  EXPECT_GT(num_refused, 0);
  EXPECT_GE(num_new, 4);
}

}  // namespace
}  // namespace weft
