#include "weft/engine/model_loading.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <numeric>

#include "tests/support/ranks.h"
#include "tests/support/temp_dir.h"
#include "weft/checkpoint/model_files.h"
#include "weft/checkpoint/safetensors.h"
#include "weft/engine/engine_test_impl.h"
#include "weft/engine/sharded_init.h"
#include "weft/engine/zero3_test_impl.h"

namespace weft {
namespace {

constexpr int64_t kOddWidth = 13, kNumOddLayers = 5;
constexpr int64_t kModelBytes = (kNumOddLayers * kOddWidth * kOddWidth + 7) * 4;

// Layers of a size that no number of ranks divides, one of them frozen, one under two names, and a small one.
Net build_odd(int64_t seed) {
  Net net;
  for (int64_t i = 0; i < kNumOddLayers; ++i)
    net.parameters.push_back((numbers({kOddWidth, kOddWidth}, seed + i) * 0.3).set_requires_grad(i != 3));
  net.parameters.push_back(numbers({7}, seed).set_requires_grad(true));
  net.loss = [](const Net& one, int64_t sample) {
    at::Tensor x = numbers({4, kOddWidth}, 100 + sample).to(one.parameters[0].scalar_type());
    for (int64_t i = 0; i < kNumOddLayers; ++i) x = at::mm(x, one.parameters[static_cast<size_t>(i)]).tanh();
    return x.pow(2).mean() + one.parameters.back().sum();
  };
  return net;
}

ModelTensors with_tie(const Net& net) {
  ModelTensors out = net.tensors();
  out.parameters.emplace_back("head", net.parameters[0]);
  return out;
}

void write_weights(const std::string& path, at::ScalarType type = at::kFloat) {
  checkpoint::NamedTensors tensors;
  for (const auto& [name, tensor] : build_odd(50).tensors().parameters)
    tensors.emplace_back(name, tensor.detach().to(type));
  checkpoint::write_safetensors(Env::posix(), path, tensors);
}

// The same in three files and Hugging Face's index of them, two layers to a file.
void write_pieces(const std::string& folder) {
  Env::posix().make_folders(folder);
  std::map<std::string, std::string> file_of;
  std::map<std::string, checkpoint::NamedTensors> files;
  int64_t count = 0;
  for (const auto& [name, tensor] : build_odd(50).tensors().parameters) {
    const std::string file = cat("model-0000", 1 + count++ / 2, "-of-00003.safetensors");
    file_of[name] = file;
    files[file].emplace_back(name, tensor.detach());
  }
  for (const auto& [file, tensors] : files)
    checkpoint::write_safetensors(Env::posix(), cat(folder, "/", file), tensors);
  write_file(Env::posix(), cat(folder, "/model.safetensors.index.json"),
             bytes_of(checkpoint::render_index(file_of, kModelBytes)));
}

enum class When { kBuiltWithThem, kInsideScope, kAfterScope, kAfterInitialize };

struct Loaded {
  std::vector<at::Tensor> parameters;                              // of rank 0
  std::vector<int64_t> read_bytes = std::vector<int64_t>(kWorld);  // by rank
};

// Three steps with the weights that the file has.
Loaded train_loaded(const Sharding& setting, const std::string& more, const std::string& path, When when) {
  Loaded out;
  on_ranks_of(setting, [&](const World& here) {
    const auto config = settings(kWorld, 1, cat(setting.zero, more));
    const auto load = [&](const Net& net) {
      const LoadedWeights loaded = load_weights(with_tie(net), path);
      EXPECT_EQ(loaded.num_tensors, kNumOddLayers + 1);
      out.read_bytes[static_cast<size_t>(here.rank)] = loaded.read_bytes;
    };
    const Net net = [&] {
      if (when != When::kInsideScope && when != When::kAfterScope)
        return build_odd(when == When::kBuiltWithThem ? 50 : 1);
      Net built;
      {
        const ShardedInit scope(config, here, {.whole_bytes = 1000, .smallest_bytes = 512});
        built = build_odd(1);
        if (when == When::kInsideScope) load(built);
      }
      if (when == When::kAfterScope) load(built);
      return built;
    }();
    Engine engine(with_tie(net), config, here);
    const auto step = [&](int64_t number) {
      engine.backward(net.loss(net, number * kWorld + here.rank));
      engine.step();
    };
    if (when == When::kAfterInitialize) load(net);
    for (int64_t i = 0; i < 3; ++i) step(i);
    std::vector<at::Tensor> values;
    for (const at::Tensor& one : net.parameters) values.push_back(one.detach().clone());
    if (here.rank == 0) out.parameters = values;
  });
  return out;
}

int64_t sum(const std::vector<int64_t>& numbers) { return std::accumulate(numbers.begin(), numbers.end(), int64_t{0}); }

class LoadWeights : public testing::TestWithParam<Sharding> {};
INSTANTIATE_TEST_SUITE_P(Settings, LoadWeights, testing::ValuesIn(kShardings),
                         [](const auto& param) { return std::string(param.param.name); });

TEST_P(LoadWeights, IsAsIfTheModelHadBeenBuiltWithThem) {
  const test::TempDir dir;
  write_weights(dir / "w.safetensors");
  for (const char* type : {"", R"(, "bf16": {"enabled": true})"}) {
    const Loaded expected = train_loaded(GetParam(), type, dir / "w.safetensors", When::kBuiltWithThem);
    for (const When when : {When::kInsideScope, When::kAfterScope, When::kAfterInitialize})
      expect_equal(train_loaded(GetParam(), type, dir / "w.safetensors", when).parameters, expected.parameters,
                   cat(type, " ", static_cast<int>(when)));
  }
}

TEST_P(LoadWeights, SeveralFilesAreAsOne) {
  const test::TempDir dir;
  write_weights(dir / "w.safetensors");
  write_pieces(dir / "m");
  for (const When when : {When::kInsideScope, When::kAfterScope, When::kAfterInitialize}) {
    const Loaded one = train_loaded(GetParam(), "", dir / "w.safetensors", when),
                 pieces = train_loaded(GetParam(), "", dir / "m", when);
    expect_equal(pieces.parameters, one.parameters, cat(static_cast<int>(when)));
    EXPECT_EQ(pieces.read_bytes, one.read_bytes) << "each rank reads its own bytes, whatever file they are in";
  }
}

TEST_P(LoadWeights, ARankReadsItsOwnBytes) {
  const test::TempDir dir;
  write_weights(dir / "w.safetensors");
  const auto bytes = train_loaded(GetParam(), "", dir / "w.safetensors", When::kAfterInitialize).read_bytes;
  const bool below_three = std::string_view(GetParam().zero).find("\"stage\": 3") == std::string_view::npos;
  const int64_t frozen_bytes = kOddWidth * kOddWidth * 4;
  if (std::string_view(GetParam().name) == "stage_0") {
    EXPECT_EQ(sum(bytes), kWorld * kModelBytes);
  } else {
    EXPECT_EQ(sum(bytes), kModelBytes + (below_three ? (kWorld - 1) * frozen_bytes : 0))
        << "frozen ones are whole below stage 3";
  }
  if (below_three) return;
  // What was cut is cut in bytes, so an element on the border is read twice; what is small is read by all.
  const int64_t cut = sum(train_loaded(GetParam(), "", dir / "w.safetensors", When::kInsideScope).read_bytes);
  EXPECT_GE(cut, kModelBytes);
  EXPECT_LE(cut, kModelBytes + kNumOddLayers * (kWorld - 1) * 4 + (kWorld - 1) * 7 * 4);
}

TEST_P(LoadWeights, BetweenStepsToo) {
  const test::TempDir dir;
  write_weights(dir / "w.safetensors");
  const std::string run = fresh_run();
  test::run_ranks_as_threads(kWorld, [&](test::RankContext& ctx) {
    World here = world(run, ctx.rank(), kWorld, 10);
    if (GetParam().over_network) here.group = std::make_shared<AsOverANetwork>(here.group);
    const Net net = build_odd(1), expected = build_odd(50);
    Engine engine(net.tensors(), settings(kWorld, 1, GetParam().zero), here);
    for (int64_t i = 0; i < 3; ++i) {
      engine.backward(net.loss(net, i));
      engine.step();
      if (i == 0) continue;
      load_weights(net.tensors(), dir / "w.safetensors");
      for (size_t p = 0; p < net.parameters.size(); ++p)
        EXPECT_TRUE(net.parameters[p].detach().equal(expected.parameters[p].detach())) << p;
    }
  });
}

TEST(LoadWeightsFrom, AnIndexAndOtherTypes) {
  const test::TempDir dir;
  Env::posix().make_folders(dir / "m");
  std::map<std::string, std::string> file_of;
  const auto source = build_odd(50).tensors();
  for (size_t i = 0; i < source.parameters.size(); ++i) {
    const auto& [name, tensor] = source.parameters[i];
    file_of[name] = cat("part", i % 2);
  }
  for (const size_t part : {0, 1}) {
    checkpoint::NamedTensors tensors;
    for (size_t i = part; i < source.parameters.size(); i += 2)
      tensors.emplace_back(source.parameters[i].first,
                           source.parameters[i].second.detach().to(part == 0 ? at::kBFloat16 : at::kDouble));
    checkpoint::write_safetensors(Env::posix(), dir / cat("m/part", part), tensors);
  }
  const std::string index = checkpoint::render_index(file_of, 0);
  write_file(Env::posix(), dir / "m/model.safetensors.index.json", bytes_of(index));
  const Net net = build_odd(1);
  EXPECT_EQ(load_weights(net.tensors(), dir / "m").num_tensors, kNumOddLayers + 1);
  for (size_t i = 0; i < net.parameters.size(); ++i) {
    const at::Tensor value = source.parameters[i].second.detach();
    EXPECT_TRUE(net.parameters[i].detach().equal(i % 2 == 0 ? value.to(at::kBFloat16).to(at::kFloat) : value)) << i;
  }
}

TEST(LoadWeightsFrom, AFileOfAnotherModelSaysAllThatIsWrong) {
  const test::TempDir dir;
  checkpoint::write_safetensors(Env::posix(), dir / "w.safetensors",
                                {{"p0", at::zeros({kOddWidth, kOddWidth})},
                                 {"p1", at::zeros({2, 3})},
                                 {"p2", at::zeros({kOddWidth, kOddWidth}, at::kLong)},
                                 {"other", at::zeros({1})}});
  const std::string run = fresh_run();
  test::run_ranks_as_threads(2, [&](test::RankContext& ctx) {
    const Net net = build_odd(1);
    Engine engine(net.tensors(), settings(2, 1, kTight), world(run, ctx.rank(), 2));
    const at::Tensor before = net.parameters[0].detach().clone();
    const std::string text = refusal([&] { load_weights(net.tensors(), dir / "w.safetensors"); });
    for (const char* part : {"'p1' is [2, 3], the model wants [13, 13]", "'p2' is I64", "'p3' is missing",
                             "'p5' is missing", "'other' is not a tensor of this model"})
      EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
    EXPECT_EQ(refusal([&] { load_weights(net.tensors(), dir / "w.safetensors", {.strict = false}); }).find("missing"),
              std::string::npos);
    EXPECT_TRUE(net.parameters[0].detach().equal(before));
    engine.backward(net.loss(net, 0));
    engine.step();
  });
}

TEST(LoadWeightsFrom, NamesThatOneSideLacksMayBeLeftOut) {
  const test::TempDir dir;
  checkpoint::write_safetensors(Env::posix(), dir / "w.safetensors",
                                {{"p0", at::zeros({kOddWidth, kOddWidth})}, {"other", at::zeros({1})}});
  const Net net = build_odd(1);
  EXPECT_EQ(load_weights(net.tensors(), dir / "w.safetensors", {.strict = false}).num_tensors, 1);
  EXPECT_EQ(net.parameters[0].abs().sum().item<float>(), 0);
  EXPECT_TRUE(net.parameters[1].detach().equal(build_odd(1).parameters[1].detach()));
}

// One rank's file is damaged: all of them hear of it, nobody waits.
TEST(LoadWeightsFrom, AHostileFileIsRefusedOnAllRanks) {
  const test::TempDir dir;
  write_weights(dir / "good.safetensors");
  const std::string hostile = cat(std::string("\xff\xff\xff\xff\xff\xff\xff\x7f", 8), "{}");
  write_file(Env::posix(), dir / "bad.safetensors", bytes_of(hostile));
  const std::string run = fresh_run();
  test::run_ranks_as_threads(2, [&](test::RankContext& ctx) {
    const Net net = build_odd(1);
    const Engine engine(net.tensors(), settings(2, 1, kTight), world(run, ctx.rank(), 2));
    const bool is_bad = ctx.rank() == 1;
    expect_refused([&] { load_weights(net.tensors(), dir / (is_bad ? "bad.safetensors" : "good.safetensors")); },
                   is_bad ? "not a valid safetensors file" : "rank 1 could not load the weights");
  });
}

}  // namespace
}  // namespace weft
