#include "weft/checkpoint/step_reader.h"

#include <gtest/gtest.h>

#include "weft/base/crash_env.h"
#include "weft/base/error.h"
#include "weft/checkpoint/store_example_impl.h"

namespace weft::checkpoint {
namespace {

StepReader reader_of(Env& env, const ExampleSave& save) {
  save_example(env, "ckpt", save);
  const auto found = find_newest(env, "ckpt", Check::kManifest);
  return {env, found->folder, found->manifest};
}

// Every rank of a world of another size reads its share: bit for bit what was saved.
TEST(StepReader, AnyWorldReadsWhatAnyWorldSaved) {
  for (const int saved : {1, 2, 3, 5, 8}) {
    CrashEnv env;
    const ExampleSave save{.world = saved, .block_bytes = 512};
    StepReader reader = reader_of(env, save);
    for (const int world : {1, 2, 3, 4, 7, 16}) {
      for (const auto& [name, tensor] : kExampleTensors) {
        std::string joined;
        for (int rank = 0; rank < world; ++rank) {
          const auto [begin, end] = example_share(name, rank, world);
          std::string piece((end - begin) * width_of(tensor), '\0');
          reader.read(name, begin, end, std::as_writable_bytes(std::span(piece)));
          joined += piece;
        }
        ASSERT_EQ(joined, example_bytes(save, name)) << name << " saved by " << saved << ", read by " << world;
      }
    }
  }
}

TEST(StepReader, PlansReadsAcrossFiles) {
  CrashEnv env;
  const StepReader reader = reader_of(env, {.world = 3});
  const auto offset = [&](const std::string& file) {
    const auto& slices = reader.manifest().find_file(file)->slices;
    return std::ranges::find(slices, "wte", &StoredSlice::tensor)->offset;
  };
  // 2560 elements over three ranks: 0 to 853, 853 to 1706, 1706 to 2560.
  const std::vector<PlannedRead> expected = {
      {.file = "rank_00000.safetensors", .offset = offset("rank_00000.safetensors") + 3400, .bytes = 12, .into = 0},
      {.file = "rank_00001.safetensors", .offset = offset("rank_00001.safetensors"), .bytes = 3412, .into = 12},
      {.file = "rank_00002.safetensors", .offset = offset("rank_00002.safetensors"), .bytes = 4, .into = 12 + 3412}};
  EXPECT_EQ(reader.plan_reads("wte", 850, 1707), expected);
  EXPECT_TRUE(reader.plan_reads("wte", 850, 850).empty());
  EXPECT_TRUE(reader.plan_reads("none", 0, 0).empty());
}

TEST(StepReader, ReadsOnlyTheBlocksItNeeds) {
  CrashEnv env;
  StepReader reader = reader_of(env, {.world = 1, .block_bytes = 512});
  std::string one(4, '\0');
  reader.read("wte", 1000, 1001, std::as_writable_bytes(std::span(one)));
  EXPECT_EQ(reader.bytes_read(), 512U);
  reader.read("wte", 1001, 1002, std::as_writable_bytes(std::span(one)));
  EXPECT_EQ(reader.bytes_read(), 512U) << "the neighbour lies in the same block";
  std::string many(5120, '\0');
  reader.read("wte", 0, 1280, std::as_writable_bytes(std::span(many)));
  EXPECT_LE(reader.bytes_read(), 512 + many.size() + 1024);
}

TEST(StepReader, HandsOutNoByteOfADamagedBlock) {
  CrashEnv env;
  StepReader reader = reader_of(env, {.world = 1, .block_bytes = 512});
  const auto damaged = reader.plan_reads("wte", 1000, 1001).front();
  const uint64_t block = damaged.offset / 512, blocks = reader.manifest().files.front().blocks.size();
  env.open(cat("ckpt/step_00000001/", damaged.file), OpenMode::kReadWrite)->write_at(block * 512, bytes_of("!"));
  std::string one(4, '\0');
  try {
    reader.read("wte", 1000, 1001, std::as_writable_bytes(std::span(one)));
    ADD_FAILURE() << "the damage went unseen";
  } catch (const Error& error) {
    EXPECT_NE(
        error.text().what.find(cat("block ", block, " of ", blocks, " of file 'rank_00000.safetensors' has the hash ")),
        std::string::npos)
        << error.what();
    EXPECT_TRUE(error.text().what.ends_with("it holds 'wte'")) << error.what();
    EXPECT_EQ(error.text().where, cat("ckpt/step_00000001/rank_00000.safetensors at byte ", block * 512));
  }
  EXPECT_EQ(one, std::string(4, '\0'));
  reader.read("wte", 0, 1, std::as_writable_bytes(std::span(one)));
  EXPECT_EQ(one, example_bytes({.world = 1}, "wte").substr(0, 4)) << "the rest can still be read";
}

TEST(StepReader, SaysWhatItDoesNotHold) {
  CrashEnv env;
  const StepReader reader = reader_of(env, {});
  const auto complaint = [&](const std::string& tensor, uint64_t begin, uint64_t end) -> std::string {
    try {
      reader.plan_reads(tensor, begin, end);
    } catch (const Error& error) {
      return error.text().what;
    }
    return "";
  };
  EXPECT_EQ(complaint("wpe", 0, 1), "elements 0 to 1 of tensor 'wpe': it holds no tensor of that name");
  EXPECT_EQ(complaint("h.bias", 0, 8), "elements 0 to 8 of tensor 'h.bias': it has 7");
  EXPECT_EQ(complaint("h.bias", 5, 4), "elements 5 to 4 of tensor 'h.bias': it has 7");
}

}  // namespace
}  // namespace weft::checkpoint
