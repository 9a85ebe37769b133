// The functions over any Env; publish_file has publish_test.cpp to itself.
#include "weft/base/env.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "weft/base/crash_env.h"
#include "weft/base/error.h"

namespace weft {
namespace {

TEST(FolderOf, KnowsEveryShapeOfPath) {
  EXPECT_EQ(folder_of("a/b/c"), "a/b");
  EXPECT_EQ(folder_of("c"), ".");
  EXPECT_EQ(folder_of("/c"), "/");
  EXPECT_EQ(folder_of("/"), "/");
  EXPECT_EQ(folder_of("a/b/"), "a");
  EXPECT_EQ(folder_of("a//b"), "a");
  EXPECT_EQ(folder_of("//b"), "/");
}

TEST(ReadFile, ReadsAllOfIt) {
  CrashEnv env;
  for (const size_t size : {0, 1, (1 << 16) - 1, 1 << 16, (1 << 16) + 1, (1 << 16) + 2, (1 << 17) + 2, (1 << 20) + 7}) {
    std::string text(size, '\0');
    for (size_t i = 0; i < size; ++i) text[i] = static_cast<char>(i % 251);
    write_file(env, "f", bytes_of(text));
    EXPECT_TRUE(read_file(env, "f", 8 << 20) == text) << size;
  }
}

TEST(ReadFile, RefusesMoreThanTheLimitAndNotTheLimitItself) {
  CrashEnv env;
  write_file(env, "f", bytes_of("12345"));
  EXPECT_EQ(read_file(env, "f", 5), "12345");
  EXPECT_EQ(read_file(env, "f", UINT64_MAX), "12345");
  for (const uint64_t limit : {0, 4}) {
    try {
      read_file(env, "f", limit);
      FAIL() << "read past " << limit;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInput);
      EXPECT_EQ(error.text().where, "f");
    }
  }
}

TEST(ReadFile, ReadsFilesThatClaimToBeEmpty) {
  EXPECT_NE(read_file(Env::posix(), "/proc/self/status", 1 << 20).find("Pid:"), std::string::npos);
}

TEST(WriteFile, ReplacesWhatWasThere) {
  CrashEnv env;
  write_file(env, "f", bytes_of("long content"));
  write_file(env, "f", bytes_of("short"));
  EXPECT_EQ(read_file(env, "f", 100), "short");
}

}  // namespace
}  // namespace weft
