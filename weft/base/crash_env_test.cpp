#include "weft/base/crash_env.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <set>

#include "tests/support/refusal.h"
#include "weft/base/aio.h"

namespace weft {
namespace {

using test::code_of;

std::string content(Env& env, const std::string& path) { return read_file(env, path, 1 << 14); }

// Writes and makes both the bytes and the name durable.
void store(CrashEnv& env, const std::string& path, std::string_view text) {
  const auto file = env.open(path, OpenMode::kCreate);
  file->write_at(0, bytes_of(text));
  file->sync();
  env.sync_folder(folder_of(path));
}

TEST(CrashEnv, BytesNeedASync) {
  CrashEnv env;
  store(env, "f", "durable");
  const auto file = env.open("f", OpenMode::kReadWrite);
  file->write_at(0, bytes_of("DURABLE"));
  file->truncate(3);
  EXPECT_EQ(content(env, "f"), "DUR");
  env.crash();
  EXPECT_EQ(content(env, "f"), "durable");
}

TEST(CrashEnv, ANameNeedsItsFolderSynced) {
  CrashEnv env;
  const auto file = env.open("f", OpenMode::kCreate);
  file->write_at(0, bytes_of("x"));
  file->sync();
  env.crash();
  EXPECT_FALSE(env.stat("f").has_value());
}

TEST(CrashEnv, ANameWithoutSyncedBytesIsAnEmptyFile) {
  CrashEnv env;
  write_file(env, "f", bytes_of("x"));
  env.sync_folder("/");
  env.crash();
  EXPECT_EQ(content(env, "f"), "");
}

TEST(CrashEnv, RenamesAndRemovalsNeedASyncToo) {
  CrashEnv env;
  store(env, "a", "A");
  store(env, "b", "B");
  env.rename("a", "b");
  EXPECT_EQ(content(env, "b"), "A");
  env.crash();
  EXPECT_EQ(content(env, "a"), "A");
  EXPECT_EQ(content(env, "b"), "B");

  env.remove_file("a");
  env.crash();
  EXPECT_EQ(content(env, "a"), "A");
  env.remove_file("a");
  env.sync_folder("/");
  env.crash();
  EXPECT_FALSE(env.stat("a").has_value());
}

TEST(CrashEnv, AFolderNeedsItsParentSynced) {
  CrashEnv env;
  env.make_folders("a/b");
  store(env, "a/b/f", "x");
  env.sync_folder("a");
  env.crash();
  EXPECT_FALSE(env.stat("a").has_value());

  env.make_folders("a/b");
  store(env, "a/b/f", "x");
  env.sync_folder("a");
  env.sync_folder("/");
  env.crash();
  EXPECT_EQ(content(env, "a/b/f"), "x");
}

TEST(CrashEnv, FilesFromBeforeTheCrashAreDead) {
  CrashEnv env;
  const auto file = env.open("f", OpenMode::kCreate);
  env.crash();
  EXPECT_EQ(code_of([&] { file->write_at(0, bytes_of("x")); }), EBADF);
  EXPECT_EQ(code_of([&] { file->sync(); }), EBADF);
  EXPECT_EQ(code_of([&] { file->size(); }), EBADF);
}

TEST(CrashEnv, SeedsTearWritesAtSectors) {
  std::set<std::string> seen;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    CrashEnv env;
    store(env, "f", std::string(1024, 'o'));
    env.open("f", OpenMode::kReadWrite)->write_at(0, bytes_of(std::string(1024, 'n')));
    env.crash(seed);
    const std::string now = content(env, "f");
    for (const size_t sector : {0, 512}) ASSERT_EQ(now.substr(sector, 512), std::string(512, now[sector]));
    seen.insert(now);
  }
  EXPECT_EQ(seen.size(), 4u);  // both, either, neither
}

TEST(CrashEnv, EqualSeedsGiveEqualDisks) {
  const auto run = [](uint64_t seed) {
    CrashEnv env;
    store(env, "f", std::string(700, 'o'));
    env.open("f", OpenMode::kReadWrite)->write_at(100, bytes_of(std::string(9000, 'n')));
    env.crash(seed);
    return content(env, "f");
  };
  EXPECT_EQ(run(7), run(7));
  EXPECT_NE(run(7), run(8));
}

// Keeps every second piece of what was written, and all names.
class SecondPieces : public CrashKeeper {
 public:
  bool keeps_names() override { return ++names > 0; }
  bool keeps_bytes(uint64_t offset) override { return offset / border_bytes() % 2 == 1; }
  bool keeps_size() override { return false; }
  uint64_t border_bytes() const override { return 4096; }
  int names = 0;
};

TEST(CrashEnv, AKeeperDecidesWhatSurvives) {
  CrashEnv env;
  write_file(env, "f", bytes_of(std::string(10'000, 'n')));
  SecondPieces keeper;
  env.crash(keeper);
  EXPECT_EQ(keeper.names, 1);
  EXPECT_EQ(content(env, "f"), std::string(4096, '\0') + std::string(4096, 'n'));
}

TEST(CrashEnv, SeedsNeverTouchWhatIsDurable) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    CrashEnv env;
    store(env, "kept", std::string(3000, 'k'));
    write_file(env, "other", bytes_of("x"));
    env.crash(seed);
    ASSERT_EQ(content(env, "kept"), std::string(3000, 'k'));
  }
}

TEST(CrashEnv, FailCallHitsTheNthCall) {
  CrashEnv env;
  env.fail_call(2, EIO);
  EXPECT_EQ(code_of([&] { env.make_folders("a"); }), 0);
  EXPECT_EQ(code_of([&] { env.make_folders("b"); }), EIO);
  EXPECT_EQ(code_of([&] { env.make_folders("b"); }), 0);
  EXPECT_EQ(env.calls(), 3);
  EXPECT_EQ(env.faults_fired(), 1);
}

TEST(CrashEnv, FailCallCanWaitForOneKindOfCall) {
  CrashEnv env;
  env.fail_call(1, ENOSPC, EnvCall::kRename);
  write_file(env, "a", bytes_of("x"));
  EXPECT_EQ(env.faults_fired(), 0);
  EXPECT_EQ(code_of([&] { env.rename("a", "b"); }), ENOSPC);
  EXPECT_EQ(content(env, "a"), "x");
}

TEST(CrashEnv, ShortWritePutsDownSomeBytes) {
  CrashEnv env;
  const auto file = env.open("f", OpenMode::kCreate);
  env.short_write(2, 3);
  file->write_at(0, bytes_of("12345"));
  EXPECT_EQ(code_of([&] { file->write_at(5, bytes_of("67890")); }), ENOSPC);
  EXPECT_EQ(content(env, "f"), "12345678");
}

TEST(CrashEnv, AFailedSyncLosesTheBytesForGood) {
  CrashEnv env;
  store(env, "f", "old");
  const auto file = env.open("f", OpenMode::kReadWrite);
  file->write_at(0, bytes_of("new"));
  env.fail_call(1, EIO, EnvCall::kSync);
  EXPECT_EQ(code_of([&] { file->sync(); }), EIO);
  file->sync();
  EXPECT_EQ(content(env, "f"), "new");
  env.crash();
  EXPECT_EQ(content(env, "f"), "old");
}

TEST(CrashEnv, NothingWorksWithoutPower) {
  CrashEnv env;
  store(env, "f", "x");
  env.cut_power_after(1);
  EXPECT_TRUE(env.stat("f").has_value());
  EXPECT_EQ(code_of([&] { env.remove_file("f"); }), EIO);
  EXPECT_EQ(code_of([&] { env.stat("f"); }), EIO);
  EXPECT_EQ(env.faults_fired(), 1);
  env.crash();
  EXPECT_EQ(content(env, "f"), "x");
}

TEST(CrashEnv, RefusesWhatAFileSystemRefuses) {
  CrashEnv env;
  env.make_folders("d/e");
  write_file(env, "f", bytes_of("x"));
  EXPECT_EQ(code_of([&] { env.open("none", OpenMode::kRead); }), ENOENT);
  EXPECT_EQ(code_of([&] { env.open("none/f", OpenMode::kCreate); }), ENOENT);
  EXPECT_EQ(code_of([&] { env.open("f/g", OpenMode::kCreate); }), ENOTDIR);
  EXPECT_EQ(code_of([&] { env.open("d", OpenMode::kCreate); }), EISDIR);
  EXPECT_EQ(code_of([&] { env.open("f", OpenMode::kCreateNew); }), EEXIST);
  EXPECT_EQ(code_of([&] { env.open(std::string(300, 'n'), OpenMode::kCreate); }), ENAMETOOLONG);
  EXPECT_EQ(code_of([&] { env.open("f", OpenMode::kRead)->write_at(0, bytes_of("y")); }), EBADF);
  EXPECT_EQ(code_of([&] { env.stat("f/g"); }), ENOTDIR);
  EXPECT_EQ(code_of([&] { env.list("f"); }), ENOTDIR);
  EXPECT_EQ(code_of([&] { env.make_folders("f/g"); }), ENOTDIR);
  EXPECT_EQ(code_of([&] { env.remove_file("d"); }), EISDIR);
  EXPECT_EQ(code_of([&] { env.remove_file("none"); }), ENOENT);
  EXPECT_EQ(code_of([&] { env.remove_folder("d"); }), ENOTEMPTY);
  EXPECT_EQ(code_of([&] { env.remove_folder("f"); }), ENOTDIR);
  EXPECT_EQ(code_of([&] { env.rename("none", "x"); }), ENOENT);
  EXPECT_EQ(code_of([&] { env.rename("f", "d"); }), EISDIR);
  EXPECT_EQ(code_of([&] { env.rename("d", "f"); }), ENOTDIR);
  EXPECT_EQ(code_of([&] { env.rename("d", "d/e/inside"); }), EINVAL);
  EXPECT_EQ(code_of([&] { env.sync_folder("f"); }), ENOTDIR);
}

TEST(CrashEnv, ListsAndFreeBytes) {
  CrashEnv env;
  write_file(env, "b", {});
  env.make_folders("./a/../a");
  EXPECT_EQ(env.list("/"), (std::vector<std::string>{"a", "b"}));
  env.set_free_bytes(12);
  EXPECT_EQ(env.free_bytes("a"), 12u);
}

TEST(CrashEnv, AnAsyncSyncDoesNotCoverWritesNobodyWaitedFor) {
  CrashEnv env;
  store(env, "f", "old");
  const auto file = env.open("f", OpenMode::kReadWrite);
  const auto io = env.async_io({});
  io->submit_write(*file, 0, bytes_of("new"));
  io->submit_sync(*file);
  EXPECT_TRUE(io->wait_all());
  EXPECT_EQ(content(env, "f"), "new");
  env.crash();
  EXPECT_EQ(content(env, "f"), "old");
}

TEST(CrashEnv, AnAsyncSyncAfterTheWaitIsDurable) {
  CrashEnv env;
  store(env, "f", "old");
  const auto file = env.open("f", OpenMode::kReadWrite);
  const auto io = env.async_io({});
  io->wait(io->submit_write(*file, 0, bytes_of("new")));
  io->wait(io->submit_sync(*file));
  env.crash();
  EXPECT_EQ(content(env, "f"), "new");
}

TEST(CrashEnv, AsyncFaultsComeAtTheWait) {
  CrashEnv env;
  const auto file = env.open("f", OpenMode::kCreate);
  const auto io = env.async_io({});
  env.fail_call(1, ENOSPC, EnvCall::kWrite);
  const auto ticket = io->submit_write(*file, 0, bytes_of("new"));
  EXPECT_EQ(code_of([&] { io->wait(ticket); }), ENOSPC);
  EXPECT_EQ(env.faults_fired(), 1);
}

}  // namespace
}  // namespace weft
