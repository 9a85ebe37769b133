// Hosts with folders of their own: here some threads get one, others another.
#include "weft/engine/spread_store.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <mutex>

#include "tests/support/ranks.h"
#include "tests/support/temp_dir.h"
#include "weft/checkpoint/step_reader.h"
#include "weft/checkpoint/store.h"
#include "weft/checkpoint/store_names.h"
#include "weft/checkpoint/verify.h"
#include "weft/engine/engine_test_impl.h"

namespace weft {
namespace {

namespace fs = std::filesystem;
using engine::Passing;
using engine::SpreadStore;

// --- The store by itself ---------------------------------------------------------------------------------------------

constexpr int64_t kBytes = 9 << 20;  // of a rank: more than two pieces

std::vector<std::byte> bytes_of_rank(int rank, int64_t step) {
  std::vector<std::byte> out(kBytes);
  for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<std::byte>((i * 31 + i / 251) ^ (rank * 7 + step));
  return out;
}

checkpoint::SaveRequest request_of(int rank, int world, int64_t step) {
  checkpoint::SaveRequest out{.step = step, .rank = rank, .world = world, .id = "id"};
  out.slices = {{.tensor = cat("of/", rank), .dtype = "U8", .shape = {kBytes}, .begin = 0, .end = kBytes}};
  out.head.sections["who"] = cat(rank);  // rank 0's counts
  return out;
}

// Which folder a rank has: two have the first, one the second, one the third.
std::string folder_of_rank(const test::TempDir& dir, int rank) { return dir / cat("host", std::max(0, rank - 1)); }

void save_on_four(const test::TempDir& dir, int64_t step, Passing passing) {
  const std::string run = fresh_run();
  test::run_ranks_as_threads(4, [&](test::RankContext& ctx) {
    const World here = world(run, ctx.rank(), 4);
    const SpreadStore store(*here.group, at::kCPU, Env::posix(), folder_of_rank(dir, ctx.rank()));
    ASSERT_EQ(store.members(), (std::vector<std::vector<int>>{{0, 1}, {2}, {3}}));
    EXPECT_EQ(store.leads(), ctx.rank() != 1);
    auto request = request_of(ctx.rank(), 4, step);
    request.keep = checkpoint::PrunePolicy{.keep_last = 2};
    const auto fill = [&](checkpoint::RankFileWriter& writer) { writer.append(bytes_of_rank(ctx.rank(), step)); };
    store.save(*here.group, request, fill, passing);
  });
}

// What `world_size` ranks find who each want the bytes of some of the four: the step, or what is missing.
std::string found_by(const test::TempDir& dir, int world_size) {
  std::string out;
  std::mutex mutex;
  const std::string run = fresh_run();
  test::run_ranks_as_threads(world_size, [&](test::RankContext& ctx) {
    const World here = world(run, ctx.rank(), world_size);
    const SpreadStore store(*here.group, at::kCPU, Env::posix(), folder_of_rank(dir, ctx.rank()));
    const int wanted = 3 - ctx.rank() % 4;
    std::string said;
    for (const std::string& name : store.step_names(*here.group)) {
      const auto found = store.bring(*here.group, name, [&](const checkpoint::Manifest& manifest) {
        EXPECT_EQ(manifest.sections.at("who"), "0");
        return std::set<std::string>{checkpoint::rank_file_name(wanted)};
      });
      said += found.missing ? cat(found.missing->text().what, "; ") : name;
      if (found.missing) continue;
      const auto step = checkpoint::step_of(name).value();
      checkpoint::StepReader reader(Env::posix(), found.folder,
                                    checkpoint::open_step(Env::posix(), {.step = step, .folder = found.folder}));
      std::vector<std::byte> got(kBytes);
      reader.read(cat("of/", wanted), 0, kBytes, got);
      EXPECT_EQ(got, bytes_of_rank(wanted, step));
      break;
    }
    const std::scoped_lock lock(mutex);
    EXPECT_TRUE(out.empty() || out == said) << out << " and " << said;
    out = said;
  });
  return out;
}

TEST(SpreadStore, EachFolderHasItsRanksFilesAndTheManifestOfAll) {
  const test::TempDir dir;
  save_on_four(dir, 7, Passing::kNone);
  using Names = std::vector<std::string>;
  EXPECT_EQ(Env::posix().list(dir / "host0/step_00000007"),
            (Names{"manifest.json", "rank_00000.safetensors", "rank_00001.safetensors"}));
  EXPECT_EQ(Env::posix().list(dir / "host2/step_00000007"), (Names{"manifest.json", "rank_00003.safetensors"}));
  EXPECT_EQ(Env::posix().list(dir / "host1"), (Names{"latest", "step_00000007"}));
  EXPECT_TRUE(checkpoint::verify_step(Env::posix(), {.step = 7, .folder = dir / "host1/step_00000007"}, {}).empty());
  for (const int size : {1, 2, 3}) EXPECT_NE(found_by(dir, size).find("no host has"), std::string::npos) << size;
  for (const int size : {4, 5}) EXPECT_EQ(found_by(dir, size), "step_00000007") << size;
}

TEST(SpreadStore, WhatIsNotWholeIsNamedAndTheStepBeforeTaken) {
  const test::TempDir dir;
  save_on_four(dir, 7, Passing::kNone);
  save_on_four(dir, 8, Passing::kNone);
  fs::remove(dir / "host1/step_00000008/rank_00002.safetensors");
  const std::string said = found_by(dir, 4);
  EXPECT_TRUE(said.starts_with("no host has rank_00002.safetensors of host ")) << said;
  EXPECT_TRUE(said.ends_with("step_00000007")) << said;
  // What a host had to ask for stays there.
  fs::remove_all(dir / "host2/step_00000007");
  EXPECT_TRUE(found_by(dir, 4).ends_with("step_00000007"));
}

TEST(SpreadStore, WithFilesInTheNextFolderAnyOneCanBeLost) {
  for (int lost = 0; lost < 3; ++lost) {
    const test::TempDir dir;
    save_on_four(dir, 7, Passing::kNext);
    save_on_four(dir, 8, Passing::kNext);
    fs::remove_all(dir / cat("host", lost));
    EXPECT_EQ(found_by(dir, 4), "step_00000008") << lost;
    EXPECT_EQ(found_by(dir, 4), "step_00000008") << "and it is as if nothing had been lost";
  }
}

// The last save was committed in one folder, and the others were about to.
TEST(SpreadStore, AStepThatNotAllHaveCommittedDoesNotCount) {
  const test::TempDir dir;
  save_on_four(dir, 7, Passing::kNone);
  save_on_four(dir, 8, Passing::kNone);
  fs::rename(dir / "host1/step_00000008", dir / "host1/step_00000008.tmp");
  EXPECT_TRUE(found_by(dir, 4).ends_with("step_00000007"));
}

TEST(SpreadStore, ARankThatCannotWriteFailsAll) {
  const test::TempDir dir;
  save_on_four(dir, 7, Passing::kNext);
  Env::posix().open(dir / "host1/step_00000008.tmp", OpenMode::kCreate);
  const std::string run = fresh_run();
  test::run_ranks_as_threads(4, [&](test::RankContext& ctx) {
    const World here = world(run, ctx.rank(), 4);
    const SpreadStore store(*here.group, at::kCPU, Env::posix(), folder_of_rank(dir, ctx.rank()));
    const auto fill = [&](checkpoint::RankFileWriter& writer) { writer.append(bytes_of_rank(ctx.rank(), 8)); };
    expect_refused([&] { store.save(*here.group, request_of(ctx.rank(), 4, 8), fill, Passing::kNext); },
                   "rank 2 could not write its part");
  });
  EXPECT_EQ(found_by(dir, 4), "step_00000007");
}

// --- In a training ---------------------------------------------------------------------------------------------------

const std::string kLocal = R"(, "checkpoint": {"use_node_local_storage": true}, "zero_optimization": {"stage": 2})";
constexpr int kSavedStep = 3, kLastStep = 6;

using Tensors = std::vector<at::Tensor>;

// Ranks of `num_hosts` hosts, in turn.
struct Place {
  int world = 3, num_hosts = 2;
  std::string folder_of(const test::TempDir& dir, int rank) const {
    return dir / cat("host", rank * num_hosts / world);
  }
};

Tensors train_on_hosts(const test::TempDir& dir, const Place& place, bool resumes) {
  Tensors out;
  const std::string run = fresh_run();
  test::run_ranks_as_threads(place.world, [&](test::RankContext& ctx) {
    const World here = world(run, ctx.rank(), place.world);
    const std::string folder = place.folder_of(dir, ctx.rank());
    Model model;
    Engine engine(model.tensors(), settings(place.world, 1, kLocal), here);
    if (resumes) {
      const auto loaded = engine.load_checkpoint(folder);
      ASSERT_TRUE(loaded);
      EXPECT_EQ(loaded->step, kSavedStep);
    }
    for (int64_t i = resumes ? kSavedStep : 0; i < kLastStep; ++i) {
      engine.backward(model.loss(i * here.size + here.rank));
      engine.step();
      if (!resumes && i + 1 == kSavedStep) engine.save_checkpoint(folder);
    }
    engine.wait_for_checkpoint();
    Tensors mine;
    for (const auto& [name, tensor] : model.tensors().parameters) mine.push_back(engine.full_param(tensor));
    if (ctx.rank() == 0) out = mine;
  });
  return out;
}

TEST(LocalDisks, AreReadBackToTheBit) {
  const test::TempDir dir;
  const Place place;
  const Tensors whole = train_on_hosts(dir, place, false);
  const Tensors resumed = train_on_hosts(dir, place, true);
  ASSERT_EQ(whole.size(), resumed.size());
  for (size_t i = 0; i < whole.size(); ++i) EXPECT_TRUE(whole[i].equal(resumed[i])) << i;
}

TEST(LocalDisks, OtherRanksGetWhatTheyNeedFromWhoHasIt) {
  for (const Place& after : {Place{.world = 2}, Place{.world = 4}, Place{.world = 5, .num_hosts = 3}}) {
    const test::TempDir dir;
    train_on_hosts(dir, {}, false);
    train_on_hosts(dir, after, true);
  }
}

TEST(LocalDisks, ALostDiskIsNamed) {
  const test::TempDir dir;
  train_on_hosts(dir, {}, false);
  fs::remove_all(dir / "host1");
  const std::string run = fresh_run();
  test::run_ranks_as_threads(3, [&](test::RankContext& ctx) {
    Model model;
    Engine engine(model.tensors(), settings(3, 1, kLocal), world(run, ctx.rank(), 3));
    const std::string text = refusal([&] { engine.load_checkpoint(Place().folder_of(dir, ctx.rank())); });
    EXPECT_NE(text.find("no host has rank_00002.safetensors of host"), std::string::npos) << text;
  });
}

TEST(LocalDisks, OneFolderForAllIsAStoreLikeAnyOther) {
  const test::TempDir dir;
  train_on_hosts(dir, {.world = 3, .num_hosts = 1}, false);
  EXPECT_EQ(Env::posix().list(dir / "host0/step_00000003").size(), 4);
  train_on_hosts(dir, {.world = 2, .num_hosts = 1}, true);
}

}  // namespace
}  // namespace weft
