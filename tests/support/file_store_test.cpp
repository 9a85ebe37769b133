#include "tests/support/file_store.h"

#include <gtest/gtest.h>

#include "tests/support/rank_threads.h"
#include "tests/support/temp_dir.h"

namespace weft::test {
namespace {

constexpr Seconds kShort(0.05);
constexpr Seconds kLong(30);

TEST(FileStore, GivesBackWhatWasSet) {
  const TempDir dir;
  FileStore store(dir.path(), 0, 1, kShort);
  const std::string value("a\0b\n", 4);
  EXPECT_FALSE(store.has("key"));
  store.set("key", "old");
  store.set("key", value);
  EXPECT_TRUE(store.has("key"));
  EXPECT_EQ(store.get("key"), value);
  store.set("empty", "");
  EXPECT_EQ(store.get("empty"), "");
}

TEST(FileStore, KeysMayHoldAnything) {
  const TempDir dir;
  FileStore store(dir.path(), 0, 1, kShort);
  const std::vector<std::string> keys{"", ".", "..", "a/b", "a%2fb", "ended.0", "barrier.1.rank.0", "\xff \n"};
  for (const auto& key : keys) store.set(key, "value of " + key);
  for (const auto& key : keys) EXPECT_EQ(store.get(key), "value of " + key);
}

TEST(FileStore, AWaitEndsAtItsDeadlineAndNamesTheKey) {
  const TempDir dir;
  const FileStore store(dir.path(), 3, 4, kShort);
  try {
    store.get("missing");
    FAIL() << "get() returned";
  } catch (const TimedOut& error) {
    EXPECT_STREQ(error.what(), "rank 3: nobody set 'missing' within 0.05 s");
  }
}

TEST(FileStore, ABarrierNamesTheRankThatIsMissing) {
  const TempDir dir;
  FileStore store(dir.path(), 0, 2, kShort);
  try {
    store.barrier();
    FAIL() << "barrier() returned";
  } catch (const TimedOut& error) {
    EXPECT_STREQ(error.what(), "rank 0: rank 1 did not arrive at barrier 1");
  }
}

TEST(FileStore, ABarrierDoesNotWaitForARankThatEnded) {
  const TempDir dir;
  FileStore store(dir.path(), 0, 2, kLong);
  FileStore(dir.path(), -1, 2, kLong).mark_ended(1);
  try {
    store.barrier();
    FAIL() << "barrier() returned";
  } catch (const PeerEnded& error) {
    EXPECT_STREQ(error.what(), "rank 0: rank 1 ended without arriving at barrier 1");
  }
}

TEST(FileStore, ABarrierHoldsUntilAllHaveArrived) {
  const TempDir dir;
  constexpr int kRounds = 10;
  run_ranks_as_threads(4, [&](RankContext& ctx) {
    FileStore store(dir.path(), ctx.rank(), ctx.world(), kLong);
    for (int round = 1; round <= kRounds; ++round) {
      ctx.add("arrived", 1);
      store.barrier();
      EXPECT_GE(std::stoi(ctx.get("arrived")), round * ctx.world());
    }
  });
}

}  // namespace
}  // namespace weft::test
