#include "weft/checkpoint/save_step.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/temp_dir.h"
#include "weft/base/crash_env.h"
#include "weft/base/error.h"
#include "weft/checkpoint/store_example_impl.h"
#include "weft/checkpoint/store_names.h"

namespace weft::checkpoint {
namespace {

#ifdef __SANITIZE_THREAD__
// liburing maps and unmaps rings behind the sanitizer's back: the next ring at the same place looks like a race with the one before it.
const int kWithoutRings = ::setenv("WEFT_AIO", "threads", 1);
#endif

constexpr double kShortS = 0.05;

void save_together(Env& env, const std::string& store, const ExampleSave& save, const std::string& id = "a1") {
  std::vector<std::jthread> ranks;
  for (int rank = 0; rank < save.world; ++rank)
    ranks.emplace_back([&, rank] { save_example_rank(env, store, save, example_request(save, rank, id)); });
}

std::string refusal(const std::function<void()>& what) {
  try {
    what();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was refused";
}

// Rank 0 at its quickest: the folder has its final name as soon as the note of another rank is there.
class CommitsAtOnce : public CrashEnv {
 public:
  void rename(const std::string& from, const std::string& to) override {
    CrashEnv::rename(from, to);
    if (!to.ends_with(".part")) return;
    const std::string folder = to.substr(0, to.rfind('/'));
    CrashEnv::rename(folder, folder.substr(0, folder.size() - kTempSuffix.size()));
    has_committed = true;
  }
  bool has_committed = false;
};

TEST(SaveStep, NobodyTouchesAFolderThatRankZeroMayHaveCommitted) {
  CommitsAtOnce env;
  const ExampleSave save{.step = 3, .world = 2};
  save_example_rank(env, "store", save, example_request(save, 1));
  EXPECT_TRUE(env.has_committed);
}

TEST(SaveStep, RanksMeetInTheFolderAndLeaveNothingElse) {
  const test::TempDir dir;
  for (const int world : {1, 2, 5}) {
    const ExampleSave save{.step = 10 + world, .world = world};
    save_together(Env::posix(), dir / "store", save);
    const auto found = find_newest(Env::posix(), dir / "store", Check::kEveryBlock);
    ASSERT_TRUE(found);
    EXPECT_TRUE(holds_example(Env::posix(), *found, save)) << world;
    EXPECT_EQ(std::ssize(Env::posix().list(found->folder)), world + 1) << "files of the ranks, and the manifest";
  }
}

TEST(SaveStep, NotesOfAnEarlierAttemptAreNotTakenForThisOnes) {
  const test::TempDir dir;
  const ExampleSave before{.step = 3, .world = 2, .salt = 1}, after{.step = 3, .world = 2, .salt = 2};
  save_example_rank(Env::posix(), dir / "store", before,
                    example_request(before, 1, "old"));  // rank 0 died before it committed
  SaveRequest alone = example_request(after, 0, "new");
  alone.others_deadline_s = kShortS;
  const std::string text = refusal([&] { save_example_rank(Env::posix(), dir / "store", after, alone); });
  EXPECT_NE(text.find("no part of rank 1 after"), std::string::npos) << text;
  save_together(Env::posix(), dir / "store", after, "newer");
  EXPECT_TRUE(holds_example(Env::posix(), *find_newest(Env::posix(), dir / "store", Check::kEveryBlock), after));
}

TEST(SaveStep, ARankThatCannotWriteIsNamedAtOnce) {
  const test::TempDir dir;
  const ExampleSave save{.step = 3, .world = 3};
  SaveRequest broken = example_request(save, 2);
  EXPECT_NE(refusal([&] {
              save_step(Env::posix(), dir / "store", broken,
                        [](RankFileWriter&) { throw IoError("write", "disk", ENOSPC); });
            }).find("disk"),
            std::string::npos);
  const std::string text =
      refusal([&] { save_example_rank(Env::posix(), dir / "store", save, example_request(save, 0)); });
  EXPECT_NE(text.find("its part could not be written by rank 2"), std::string::npos) << text;
  EXPECT_FALSE(find_newest(Env::posix(), dir / "store", Check::kManifest));
}

TEST(SaveStep, NobodyWaitsLongForRanksThatWillNotCome) {
  const test::TempDir dir;
  const ExampleSave save{.step = 3, .world = 2};
  const std::atomic<bool> hurry = true;
  SaveRequest request = example_request(save, 0);
  request.hurry = &hurry;
  request.hurry_deadline_s = kShortS;
  const std::string text = refusal([&] { save_example_rank(Env::posix(), dir / "store", save, request); });
  EXPECT_NE(text.find("training ended before"), std::string::npos) << text;
}

TEST(SaveStep, PrunesAfterTheCommitAndSweepsBefore) {
  const test::TempDir dir;
  Env::posix().make_folders(dir / "store/step_00000001.tmp");
  for (int64_t step = 2; step <= 5; ++step) {
    const ExampleSave save{.step = step, .world = 1};
    SaveRequest request = example_request(save, 0);
    request.keep = PrunePolicy{.keep_last = 2};
    save_example_rank(Env::posix(), dir / "store", save, request);
  }
  std::vector<std::string> names = Env::posix().list(dir / "store");
  EXPECT_EQ(names, (std::vector<std::string>{"latest", "step_00000004", "step_00000005"}));
}

}  // namespace
}  // namespace weft::checkpoint
