// Every operation of the real Env, on a real file system.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>

#include "tests/support/refusal.h"
#include "tests/support/temp_dir.h"
#include "weft/base/env.h"
#include "weft/base/error.h"

namespace weft {
namespace {

using test::code_of;

std::string text_at(File& file, uint64_t offset, size_t size) {
  std::string text(size, '?');
  text.resize(file.read_at(offset, std::as_writable_bytes(std::span(text))));
  return text;
}

class PosixEnvTest : public testing::Test {
 protected:
  Env& env = Env::posix();
  test::TempDir folder;
};

TEST_F(PosixEnvTest, WritesAndReadsAnywhereInAFile) {
  const auto file = env.open(folder / "f", OpenMode::kCreate);
  EXPECT_EQ(file->path(), folder / "f");
  EXPECT_GE(file->fd(), 0);
  file->write_at(0, bytes_of("hello"));
  file->write_at(8, bytes_of("there"));
  file->sync();
  EXPECT_EQ(file->size(), 13u);
  EXPECT_EQ(text_at(*file, 0, 13), std::string("hello\0\0\0there", 13));
}

TEST_F(PosixEnvTest, ReadsAreShortOnlyAtTheEnd) {
  const auto file = env.open(folder / "f", OpenMode::kCreate);
  file->write_at(0, bytes_of("hello"));
  EXPECT_EQ(text_at(*file, 3, 100), "lo");
  EXPECT_EQ(text_at(*file, 5, 100), "");
  EXPECT_EQ(text_at(*file, 1'000'000, 100), "");
  EXPECT_EQ(file->read_at(0, {}), 0u);
}

TEST_F(PosixEnvTest, TruncateShortensAndLengthens) {
  const auto file = env.open(folder / "f", OpenMode::kCreate);
  file->write_at(0, bytes_of("hello"));
  file->truncate(2);
  EXPECT_EQ(text_at(*file, 0, 9), "he");
  file->truncate(4);
  EXPECT_EQ(text_at(*file, 0, 9), std::string("he\0\0", 4));
}

TEST_F(PosixEnvTest, OpenModesDiffer) {
  EXPECT_EQ(code_of([&] { env.open(folder / "f", OpenMode::kRead); }), ENOENT);
  EXPECT_EQ(code_of([&] { env.open(folder / "f", OpenMode::kReadWrite); }), ENOENT);
  env.open(folder / "f", OpenMode::kCreateNew)->write_at(0, bytes_of("old"));
  EXPECT_EQ(code_of([&] { env.open(folder / "f", OpenMode::kCreateNew); }), EEXIST);
  EXPECT_EQ(env.open(folder / "f", OpenMode::kReadWrite)->size(), 3u);
  const auto reader = env.open(folder / "f", OpenMode::kRead);
  EXPECT_EQ(code_of([&] { reader->write_at(0, bytes_of("x")); }), EBADF);
  EXPECT_EQ(env.open(folder / "f", OpenMode::kCreate)->size(), 0u);
}

TEST_F(PosixEnvTest, FilesAreNotInheritedByPrograms) {
  const auto file = env.open(folder / "f", OpenMode::kCreate);
  EXPECT_TRUE(::fcntl(file->fd(), F_GETFD) & FD_CLOEXEC);
}

TEST_F(PosixEnvTest, BadPathsSayWhy) {
  write_file(env, folder / "f", bytes_of("x"));
  EXPECT_EQ(code_of([&] { env.open(folder / "f/below", OpenMode::kCreate); }), ENOTDIR);
  EXPECT_EQ(code_of([&] { env.open(folder.path(), OpenMode::kCreate); }), EISDIR);
  EXPECT_EQ(code_of([&] { env.open(folder / std::string(300, 'n'), OpenMode::kCreate); }), ENAMETOOLONG);
  EXPECT_EQ(code_of([&] { env.stat(folder / "f/below"); }), ENOTDIR);
  EXPECT_EQ(code_of([&] { env.list(folder / "f"); }), ENOTDIR);
  EXPECT_EQ(code_of([&] { env.list(folder / "none"); }), ENOENT);
  EXPECT_EQ(code_of([&] { env.make_folders(folder / "f/below"); }), ENOTDIR);
  EXPECT_NE(code_of([&] { env.make_folders(folder / "f"); }), 0);
  EXPECT_EQ(code_of([&] { env.sync_folder(folder / "f"); }), ENOTDIR);
  EXPECT_EQ(code_of([&] { env.sync_folder(folder / "none"); }), ENOENT);
  EXPECT_EQ(code_of([&] { env.free_bytes(folder / "none"); }), ENOENT);
  EXPECT_EQ(code_of([&] { read_file(env, folder.path(), 100); }), EISDIR);
}

TEST_F(PosixEnvTest, StatTellsKindAndSize) {
  write_file(env, folder / "f", bytes_of("four"));
  EXPECT_FALSE(env.stat(folder / "none").has_value());
  EXPECT_EQ(env.stat(folder / "f")->kind, FileKind::kFile);
  EXPECT_EQ(env.stat(folder / "f")->bytes, 4u);
  EXPECT_EQ(env.stat(folder.path())->kind, FileKind::kFolder);
  EXPECT_EQ(env.stat("/dev/null")->kind, FileKind::kOther);
}

TEST_F(PosixEnvTest, StatFollowsLinksAndSaysSo) {
  write_file(env, folder / "f", bytes_of("four"));
  std::filesystem::create_symlink("f", folder / "link");
  std::filesystem::create_symlink("nowhere", folder / "dangling");
  EXPECT_FALSE(env.stat(folder / "f")->is_link);
  EXPECT_TRUE(env.stat(folder / "link")->is_link);
  EXPECT_EQ(env.stat(folder / "link")->bytes, 4u);
  EXPECT_FALSE(env.stat(folder / "dangling").has_value());
}

TEST_F(PosixEnvTest, ListIsSorted) {
  EXPECT_TRUE(env.list(folder.path()).empty());
  for (const char* name : {"b", "a", "c.tmp", ".hidden"}) write_file(env, folder / name, {});
  EXPECT_EQ(env.list(folder.path()), (std::vector<std::string>{".hidden", "a", "b", "c.tmp"}));
}

TEST_F(PosixEnvTest, MakeFoldersMakesAllOfThemTwice) {
  env.make_folders(folder / "a/b/c");
  env.make_folders(folder / "a/b/c");
  EXPECT_EQ(env.stat(folder / "a/b/c")->kind, FileKind::kFolder);
}

TEST_F(PosixEnvTest, RenameReplaces) {
  write_file(env, folder / "from", bytes_of("new"));
  write_file(env, folder / "to", bytes_of("old"));
  env.rename(folder / "from", folder / "to");
  EXPECT_EQ(read_file(env, folder / "to", 100), "new");
  EXPECT_FALSE(env.stat(folder / "from").has_value());
  EXPECT_EQ(code_of([&] { env.rename(folder / "from", folder / "to"); }), ENOENT);
}

TEST_F(PosixEnvTest, RemoveKnowsFilesFromFolders) {
  env.make_folders(folder / "d");
  write_file(env, folder / "d/f", {});
  EXPECT_EQ(code_of([&] { env.remove_folder(folder / "d"); }), ENOTEMPTY);
  EXPECT_EQ(code_of([&] { env.remove_folder(folder / "d/f"); }), ENOTDIR);
  EXPECT_EQ(code_of([&] { env.remove_file(folder / "d"); }), EISDIR);
  env.remove_file(folder / "d/f");
  EXPECT_EQ(code_of([&] { env.remove_file(folder / "d/f"); }), ENOENT);
  env.remove_folder(folder / "d");
  EXPECT_EQ(code_of([&] { env.remove_folder(folder / "d"); }), ENOENT);
}

TEST_F(PosixEnvTest, SyncFolderAndFreeBytesWorkOnAFolder) {
  env.sync_folder(folder.path());
  EXPECT_GT(env.free_bytes(folder.path()), 0u);
}

TEST_F(PosixEnvTest, AWriteThatHitsTheSizeLimitThrows) {
  // The kernel first writes what fits: the short write is continued, and the rest fails with EFBIG.
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  const auto file = env.open(folder / "f", OpenMode::kCreate);
  const rlimit small{.rlim_cur = 1000, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const int code = code_of([&] { file->write_at(0, bytes_of(std::string(3000, 'x'))); });
  ::setrlimit(RLIMIT_FSIZE, &before);
  ::signal(SIGXFSZ, handler);
  EXPECT_EQ(code, EFBIG);
  EXPECT_EQ(file->size(), 1000u);
}

// A disk of 64 KiB, where we are allowed to mount one.
class TinyDisk : public PosixEnvTest {
 protected:
  void SetUp() override {
    if (::mount("weft-test", folder.path().c_str(), "tmpfs", 0, "size=64k") != 0) {
      GTEST_SKIP() << "cannot mount a small tmpfs: " << std::strerror(errno);
    }
    mounted_ = true;
  }
  void TearDown() override {
    if (!mounted_) return;
    EXPECT_EQ(::umount2(folder.path().c_str(), MNT_DETACH), 0);
  }

 private:
  bool mounted_ = false;
};

TEST_F(TinyDisk, AFullDiskIsEnospcWithAFix) {
  const auto file = env.open(folder / "f", OpenMode::kCreate);
  try {
    file->write_at(0, bytes_of(std::string(1 << 20, 'x')));
    FAIL() << "a megabyte fitted into 64 KiB";
  } catch (const IoError& error) {
    EXPECT_EQ(error.code(), ENOSPC);
    EXPECT_EQ(error.text().where, folder / "f");
    EXPECT_NE(error.text().fix.find("free some space"), std::string::npos);
  }
  EXPECT_EQ(env.free_bytes(folder.path()), 0u);
}

TEST_F(TinyDisk, PublishOnAFullDiskKeepsTheOldFileAndNoRubbish) {
  publish_file(env, folder / "state", bytes_of("old"));
  EXPECT_EQ(code_of([&] { publish_file(env, folder / "state", bytes_of(std::string(1 << 20, 'x'))); }), ENOSPC);
  EXPECT_EQ(read_file(env, folder / "state", 100), "old");
  EXPECT_EQ(env.list(folder.path()), (std::vector<std::string>{"state"}));
}

}  // namespace
}  // namespace weft
