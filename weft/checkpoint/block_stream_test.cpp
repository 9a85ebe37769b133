#include "weft/checkpoint/block_stream.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <string>
#include <vector>

#include "tests/support/refusal.h"
#include "tests/support/temp_dir.h"
#include "weft/base/crash_env.h"
#include "weft/base/error.h"
#include "weft/checkpoint/store_example_impl.h"

namespace weft::checkpoint {
namespace {

// Rank 0's file of a saved step: 10 KiB in blocks of 512 bytes, or of as many as a direct read wants.
struct Saved {
  Env& env;
  FoundStep found;
  const StoredFile& stored;
  std::unique_ptr<File> file;
  std::string content;

  Saved(Env& disk, const std::string& store, uint64_t block_bytes)
      : env(disk), found(saved(disk, store, block_bytes)), stored(found.manifest.files.front()) {
    const std::string path = cat(found.folder, "/", stored.name);
    file = disk.open(path, OpenMode::kReadWrite);
    content = read_file(disk, path, 1 << 20);
  }

  static FoundStep saved(Env& disk, const std::string& store, uint64_t block_bytes) {
    save_example(disk, store, {.step = 1, .world = 1, .block_bytes = block_bytes});
    return *find_newest(disk, store, Check::kManifest);
  }

  std::string expected(uint64_t block) const {
    return content.substr(block * stored.block_bytes, stored.size_of_block(block));
  }
  std::string read(BlockStream& stream, uint64_t block) const {
    const auto bytes = stream.block(*file, stored, block);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
};

TEST(BlockStream, BlocksInAnyOrderAreTheFiles) {
  for (const uint64_t block_bytes : {512, 4096}) {
    const test::TempDir dir;
    const Saved saved(Env::posix(), dir / "store", block_bytes);
    const uint64_t count = saved.stored.blocks.size();
    ASSERT_GT(count, 2U);
    BlockStream stream(Env::posix());
    for (uint64_t i = 0; i < count; ++i) EXPECT_EQ(saved.read(stream, i), saved.expected(i)) << i;
    EXPECT_EQ(stream.bytes_read(), saved.content.size());
    for (uint64_t i = count; i-- > 0;) EXPECT_EQ(saved.read(stream, i), saved.expected(i)) << i;
    EXPECT_EQ(saved.read(stream, 0), saved.expected(0));
    EXPECT_EQ(stream.bytes_read(), 2 * saved.content.size() - saved.stored.size_of_block(count - 1))
        << "a block that was handed out last is not read again";
  }
}

TEST(BlockStream, ADamagedBlockIsNamedAndTheRestCanBeRead) {
  const test::TempDir dir;
  const Saved saved(Env::posix(), dir / "store", 4096);
  const std::string wrong = saved.content[5000] == 'a' ? "b" : "a";
  saved.file->write_at(5000, bytes_of(wrong));
  BlockStream stream(Env::posix());
  EXPECT_EQ(saved.read(stream, 0), saved.expected(0));
  for (int i = 0; i < 2; ++i) EXPECT_EQ(test::title_of([&] { saved.read(stream, 1); }), "the checkpoint is damaged");
  EXPECT_EQ(saved.read(stream, 2), saved.expected(2));
  saved.file->truncate(saved.content.size() - 1);
  BlockStream afterwards(Env::posix());
  EXPECT_EQ(test::title_of([&] { saved.read(afterwards, saved.stored.blocks.size() - 1); }),
            "the checkpoint is damaged");
}

TEST(BlockStream, AReadThatFailsIsToldAndOneThatMayNotBeDirectIsRepeated) {
  CrashEnv env;
  const Saved saved(env, "store", 512);
  for (const int code : {EIO, EINVAL}) {
    BlockStream stream(env);
    EXPECT_EQ(saved.read(stream, 0), saved.expected(0));
    env.fail_call(1, code, EnvCall::kRead);
    if (code == EIO) {
      EXPECT_THROW(saved.read(stream, 1), IoError);
    }
    EXPECT_EQ(saved.read(stream, 1), saved.expected(1));
    EXPECT_EQ(saved.read(stream, 2), saved.expected(2));
  }
}

}  // namespace
}  // namespace weft::checkpoint
