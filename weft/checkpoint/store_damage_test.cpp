// Flipped bits anywhere in a store are found, and the message names the file, the block and the tensor.
//
// More of them, each time others:
//   checkpoint_format_test --gtest_filter='StoreDamage.*' --gtest_shuffle --gtest_random_seed=1 --gtest_repeat=50
#include <gtest/gtest.h>

#include <random>

#include "weft/base/crash_env.h"
#include "weft/base/error.h"
#include "weft/checkpoint/store_example_impl.h"
#include "weft/checkpoint/store_names.h"
#include "weft/checkpoint/verify.h"

namespace weft::checkpoint {
namespace {

constexpr int kFlips = 20'000;

struct Target {
  std::string path = {};
  std::string name = {};
  uint64_t bytes = 0;
};

void flip(Env& env, const std::string& path, uint64_t bit) {
  const auto file = env.open(path, OpenMode::kReadWrite);
  std::byte byte{};
  file->read_at(bit / 8, std::span(&byte, 1));
  byte ^= std::byte{1} << (bit % 8);
  file->write_at(bit / 8, std::span(&byte, 1));
  file->sync();  // or the disk in memory would keep a list of all of them
}

std::vector<Target> files_of(Env& env, const Manifest& manifest, const std::string& folder) {
  std::vector<Target> out = {{.path = cat(folder, "/", kManifestName), .name = std::string(kManifestName)},
                             {.path = "ckpt/latest", .name = "latest"}};
  for (const auto& file : manifest.files) out.push_back({.path = cat(folder, "/", file.name), .name = file.name});
  for (auto& target : out) target.bytes = env.stat(target.path)->bytes;
  return out;
}

// The words that must appear for damage at this byte.
std::vector<std::string> expected_words(const Manifest& manifest, const Target& target, uint64_t byte) {
  const StoredFile* file = manifest.find_file(target.name);
  if (file == nullptr) return {target.path};
  std::string tensor = "the header";
  for (const auto& slice : file->slices) {
    if (slice.offset <= byte) tensor = cat("'", slice.tensor, "'");
  }
  const std::string block = cat("block ", byte / file->block_bytes, " of ", file->blocks.size());
  // A block that begins in the header and goes on with tensors names the tensors.
  if (byte < file->slices.front().offset) return {target.path, block};
  return {target.path, block, tensor};
}

std::string damage_of(Env& env, const StepPlace& place) {
  std::string text;
  for (const auto& error : verify_step(env, place)) text += error.what();
  try {
    read_latest(env, "ckpt");
  } catch (const Error& error) {
    text += error.what();
  }
  return text;
}

TEST(StoreDamage, EveryFlippedBitIsFoundAndNamed) {
  CrashEnv env;
  save_example(env, "ckpt", {.block_bytes = 512});
  const StepPlace place = list_steps(env, "ckpt").front();
  const Manifest manifest = open_step(env, place);
  const auto targets = files_of(env, manifest, place.folder);
  ASSERT_EQ(damage_of(env, place), "");
  std::mt19937_64 random(static_cast<uint64_t>(testing::UnitTest::GetInstance()->random_seed()));
  for (int i = 0; i < kFlips; ++i) {
    const Target& target = targets[random() % targets.size()];
    const uint64_t bit = random() % (target.bytes * 8);
    flip(env, target.path, bit);
    const std::string said = damage_of(env, place);
    for (const auto& words : expected_words(manifest, target, bit / 8))
      ASSERT_NE(said.find(words), std::string::npos)
          << "bit " << bit << " of " << target.path << ", expected " << words << "\n"
          << said;
    flip(env, target.path, bit);
  }
  EXPECT_EQ(damage_of(env, place), "");
}

TEST(StoreDamage, ABitFlippedInTheNewestStepMeansTheOneBefore) {
  CrashEnv env;
  for (const int64_t step : {1, 2}) save_example(env, "ckpt", {.step = step});
  flip(env, "ckpt/step_00000002/rank_00001.safetensors", 32'000);
  const auto found = find_newest(env, "ckpt", Check::kEveryBlock);
  ASSERT_TRUE(found && holds_example(env, *found, {.step = 1}));
  EXPECT_NE(found->passed_over.at(0).text().what.find("'wte'"), std::string::npos);
}

}  // namespace
}  // namespace weft::checkpoint
