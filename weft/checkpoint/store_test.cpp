#include "weft/checkpoint/store.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <mutex>

#include "tests/support/rank_threads.h"
#include "tests/support/temp_dir.h"
#include "weft/base/crash_env.h"
#include "weft/checkpoint/store_example_impl.h"
#include "weft/checkpoint/store_lock.h"
#include "weft/checkpoint/store_names.h"
#include "weft/checkpoint/verify.h"

namespace weft::checkpoint {
namespace {

std::vector<int64_t> steps_in(Env& env, const std::string& store) {
  std::vector<int64_t> steps;
  for (const auto& place : list_steps(env, store)) steps.push_back(place.step);
  return steps;
}

TEST(StoreNames, AStepHasOneName) {
  EXPECT_EQ(step_name(12), "step_00000012");
  EXPECT_EQ(step_name(1234567890), "step_1234567890");
  EXPECT_EQ(step_of("step_00000012"), 12);
  EXPECT_EQ(step_of("step_00000012.old", kOldSuffix), 12);
  for (const auto* name : {"", "step_", "step_12", "step_000000012", "step_-0000012", "step_00000012.tmp",
                           "step_0000001x", "step_99999999999999999999", "latest"}) {
    EXPECT_EQ(step_of(name), std::nullopt) << name;
  }
  EXPECT_EQ(rank_file_name(3), "rank_00003.safetensors");
  EXPECT_EQ(rank_file_name(3, 1), "rank_00003_1.safetensors");
}

// On the real file system, each rank in a thread of its own.
TEST(Store, RanksSaveSideBySideAndOneCommits) {
  const test::TempDir dir;
  Env& env = Env::posix();
  const std::string store = dir / "runs/ckpt";
  const ExampleSave save{.step = 12, .world = 4, .block_bytes = 512};
  std::mutex mutex;
  std::vector<std::string> parts;
  test::run_ranks_as_threads(4, [&](test::RankContext& ctx) {
    const Part part = write_example_rank(env, store, save, ctx.rank());
    {
      const std::lock_guard lock(mutex);
      parts.push_back(render_part(part));
    }
    ctx.barrier();
    if (ctx.rank() != 2) return;
    std::vector<Part> gathered;
    for (const auto& text : parts) gathered.push_back(parse_part(text, "a rank"));
    commit_step(env, store, example_head(save), gathered);
  });
  const auto found = find_newest(env, store, Check::kEveryBlock);
  ASSERT_TRUE(found.has_value());
  EXPECT_TRUE(holds_example(env, *found, save));
  EXPECT_EQ(found->manifest.metrics, example_head(save).metrics);
  EXPECT_EQ(env.list(store), (std::vector<std::string>{"latest", "step_00000012"}));
  EXPECT_EQ(read_latest(env, store), 12);
}

TEST(Store, PiecesOfAnySizeMakeTheSameFile) {
  const std::vector<SliceToSave> slices = {{.tensor = "w", .dtype = "U8", .shape = {5000}, .begin = 0, .end = 5000}};
  const std::string bytes(5000, 'w');
  std::vector<Part> parts;
  for (const size_t piece : {1, 7, 512, 5000}) {
    CrashEnv env;
    RankFileWriter writer(env, "ckpt", 1, 0, slices, {.block_bytes = 512, .num_buffers = piece == 7 ? 1 : 3});
    for (size_t at = 0; at < bytes.size(); at += piece)
      writer.append(bytes_of(bytes).subspan(at, std::min(piece, 5000 - at)));
    parts.push_back(writer.finish());
  }
  for (const auto& part : parts) EXPECT_EQ(part, parts.front());
}

TEST(Store, AnEmptyOrMissingStoreHoldsNothing) {
  CrashEnv env;
  EXPECT_FALSE(find_newest(env, "ckpt", Check::kManifest).has_value());
  write_example_rank(env, "ckpt", {}, 0);
  EXPECT_FALSE(find_newest(env, "ckpt", Check::kManifest).has_value()) << "an unfinished step does not count";
}

TEST(Store, FollowsThePointerWhenARunWentBack) {
  CrashEnv env;
  for (const int64_t step : {10, 20, 30, 15}) save_example(env, "ckpt", {.step = step});
  EXPECT_EQ(steps_in(env, "ckpt"), (std::vector<int64_t>{15, 10, 30, 20}));
  env.remove_file("ckpt/latest");
  EXPECT_EQ(steps_in(env, "ckpt"), (std::vector<int64_t>{30, 20, 15, 10}));
  write_file(env, "ckpt/latest", bytes_of("step_00000010"));
  EXPECT_EQ(steps_in(env, "ckpt"), (std::vector<int64_t>{30, 20, 15, 10})) << "a pointer without its hash";
}

TEST(Store, FallsBackAndNamesTheDamage) {
  CrashEnv env;
  for (const int64_t step : {1, 2, 3}) save_example(env, "ckpt", {.step = step});
  env.open("ckpt/step_00000003/manifest.json", OpenMode::kReadWrite)->write_at(100, bytes_of("?"));
  env.open("ckpt/step_00000002/rank_00001.safetensors", OpenMode::kReadWrite)->truncate(100);
  const auto found = find_newest(env, "ckpt", Check::kManifest);
  ASSERT_TRUE(found && holds_example(env, *found, {.step = 1}));
  ASSERT_EQ(found->passed_over.size(), 2U);
  EXPECT_EQ(found->passed_over[0].text().where, "ckpt/step_00000003/manifest.json");
  EXPECT_EQ(found->passed_over[1].text().where, "ckpt/step_00000002/rank_00001.safetensors");
  EXPECT_TRUE(found->passed_over[1].text().what.starts_with("it has 100 bytes, the manifest says "));
}

TEST(Store, StepsThatAreAllDamagedAreAnError) {
  CrashEnv env;
  save_example(env, "ckpt", {});
  env.remove_file("ckpt/step_00000001/rank_00000.safetensors");
  EXPECT_THROW(find_newest(env, "ckpt", Check::kManifest), Error);
  env.rename("ckpt/step_00000001", "ckpt/step_00000007");
  EXPECT_THROW(find_newest(env, "ckpt", Check::kManifest), Error) << "a manifest of another step";
}

TEST(Store, ReplacesAStepThatIsSavedAgain) {
  CrashEnv env;
  save_example(env, "ckpt", {.step = 5, .salt = 1});
  save_example(env, "ckpt", {.step = 5, .world = 3, .salt = 2});
  const auto found = find_newest(env, "ckpt", Check::kEveryBlock);
  EXPECT_TRUE(holds_example(env, *found, {.step = 5, .salt = 2}));
  EXPECT_EQ(env.list("ckpt"), (std::vector<std::string>{"latest", "step_00000005"}));
}

TEST(Store, FilesOfAnEarlierAttemptDoNotStay) {
  CrashEnv env;
  for (int rank = 0; rank < 3; ++rank) write_example_rank(env, "ckpt", {.world = 3, .salt = 1}, rank);
  save_example(env, "ckpt", {.world = 2, .salt = 2});
  EXPECT_EQ(env.list("ckpt/step_00000001"),
            (std::vector<std::string>{"manifest.json", "rank_00000.safetensors", "rank_00001.safetensors"}));
}

TEST(Store, ACommitWithoutARanksFilesIsRefused) {
  CrashEnv env;
  save_example(env, "ckpt", {.step = 1});
  const Part only = write_example_rank(env, "ckpt", {.step = 2}, 0);
  EXPECT_THROW(commit_step(env, "ckpt", example_head({.step = 2}), std::vector{only}), Error);
  EXPECT_EQ(steps_in(env, "ckpt"), std::vector<int64_t>{1});
  sweep_store(env, "ckpt", 2);
  EXPECT_EQ(env.list("ckpt").size(), 3U) << "the step in flight is left";
  sweep_store(env, "ckpt", std::nullopt);
  EXPECT_EQ(env.list("ckpt"), (std::vector<std::string>{"latest", "step_00000001"}));
}

TEST(Store, RefusesToSaveOneThingTwice) {
  CrashEnv env;
  const SliceToSave slice{.tensor = "w", .dtype = "F32", .shape = {4}, .begin = 0, .end = 2};
  EXPECT_THROW(RankFileWriter(env, "ckpt", 1, 0, {slice, slice}), Error);
  EXPECT_THROW(
      RankFileWriter(env, "ckpt", 1, 0, {{.tensor = "\x1b", .dtype = "F32", .shape = {1}, .begin = 0, .end = 1}}),
      Error);
  EXPECT_THROW(RankFileWriter(env, "ckpt", 1, 0, {{.tensor = "w", .dtype = "?", .shape = {1}, .begin = 0, .end = 1}}),
               Error);
}

// Each row of names in turn becomes a link to its own content outside of the store.
TEST(Store, FollowsNoLinks) {
  for (const auto* name : {"step_00000002", "step_00000002/manifest.json", "step_00000002/rank_00000.safetensors"}) {
    const test::TempDir dir;
    Env& env = Env::posix();
    for (const int64_t step : {1, 2}) save_example(env, dir / "ckpt", {.step = step});
    const std::filesystem::path inside = dir / cat("ckpt/", name), outside = dir / "elsewhere";
    std::filesystem::rename(inside, outside);
    std::filesystem::create_symlink(outside, inside);
    const auto found = find_newest(env, dir / "ckpt", Check::kManifest);
    ASSERT_TRUE(found.has_value()) << name;
    EXPECT_EQ(found->step, 1) << name;
    EXPECT_NE(found->passed_over.at(0).text().what.find("symbolic link"), std::string::npos) << name;
  }
}

TEST(Store, TheHeaderMustMeanWhatTheManifestMeans) {
  CrashEnv env;
  save_example(env, "ckpt", {});
  const StepPlace place = list_steps(env, "ckpt").front();
  EXPECT_TRUE(verify_step(env, place).empty());
  Manifest manifest = open_step(env, place);
  manifest.tensors.at("wte").shape = {40, 64};
  EXPECT_TRUE(verify_files(env, place.folder, manifest).empty()) << "slices are flat";
  manifest.tensors.at("wte").dtype = "I32";
  const auto damage = verify_files(env, place.folder, manifest);
  ASSERT_EQ(damage.size(), 2U);
  EXPECT_EQ(damage[0].text().what, "the header of file 'rank_00000.safetensors' lists other tensors than the manifest");
}

// Golden: the worked example of docs/formats/checkpoint.md. What older builds wrote must stay readable.
TEST(Store, WritesTheWorkedExample) {
  CrashEnv env;
  const float values[] = {0, 1, 2, 3, 4, 5};
  const auto bytes = std::as_bytes(std::span(values));
  std::vector<Part> parts;
  for (const auto& [begin, end] : std::vector<std::pair<size_t, size_t>>{{0, 4}, {4, 6}}) {
    const SliceToSave slice{.tensor = "w", .dtype = "F32", .shape = {2, 3}, .begin = begin, .end = end};
    RankFileWriter writer(env, "ckpt", 12, static_cast<int>(parts.size()), {slice});
    writer.append(bytes.subspan(4 * begin, 4 * (end - begin)));
    parts.push_back(writer.finish());
  }
  const Manifest head{
      .step = 12, .world = 2, .plan = "5eed", .sections = {{"config", "{}"}}, .metrics = {{"loss", 2.5}}};
  commit_step(env, "ckpt", head, parts);
  EXPECT_EQ(read_file(env, "ckpt/latest", 1000), "step_00000012 ccc4870d5470c3e2e16b622a9c63fcf3\n");
  EXPECT_EQ(
      read_file(env, "ckpt/step_00000012/manifest.json", 10'000),
      R"({"xxh3_128":"7d7ff893dac60de80826dae1a5178e89",)"
      R"("files":{"rank_00000.safetensors":{"block_bytes":1048576,)"
      R"("blocks":"8538ea7f9fe645c922f5eadd0820032d","bytes":144,"slices":[["w",0,4,128]]},)"
      R"("rank_00001.safetensors":{"block_bytes":1048576,)"
      R"("blocks":"66f933b1e1f145ee4ec064eb618cb098","bytes":136,"slices":[["w",4,6,128]]}},)"
      R"("metrics":{"loss":2.5},"plan":"5eed","sections":{"config":"{}"},"step":12,"tensors":{"w":{"dtype":"F32","shape":[2,3]}},"version":1,"world":2})");
  const std::string header = R"({"w[4:6]":{"data_offsets":[0,8],"dtype":"F32","shape":[2]}})";
  EXPECT_EQ(read_file(env, "ckpt/step_00000012/rank_00001.safetensors", 10'000),
            std::string("x\0\0\0\0\0\0\0", 8) + header + std::string(120 - header.size(), ' ') +
                std::string("\0\0\x80@\0\0\xA0@", 8));
}

TEST(StoreLock, OneRunAtATimeAndTheHolderIsNamed) {
  const test::TempDir dir;
  auto first = std::make_unique<StoreLock>(Env::posix(), dir / "ckpt");
  try {
    const StoreLock second(Env::posix(), dir / "ckpt");
    ADD_FAILURE() << "two locks on one store";
  } catch (const Error& error) {
    EXPECT_EQ(error.text().title, "another run is writing to this store");
    EXPECT_TRUE(error.text().what.starts_with(cat("it is held by process ", ::getpid(), " on "))) << error.what();
  }
  first.reset();
  const StoreLock third(Env::posix(), dir / "ckpt");
}

}  // namespace
}  // namespace weft::checkpoint
