#include "tests/support/temp_dir.h"

#include <gtest/gtest.h>

#include <fstream>

namespace weft::test {
namespace {

TEST(TempDir, IsRemovedWithAllItHolds) {
  std::filesystem::path path;
  {
    const TempDir dir;
    path = dir.path();
    std::filesystem::create_directories(path / "a" / "b");
    std::ofstream(path / "a" / "b" / "file") << "text";
    EXPECT_TRUE(std::filesystem::exists(path / "a" / "b" / "file"));
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(TempDir, IsAnotherOneEachTime) {
  const TempDir a, b;
  EXPECT_NE(a.path(), b.path());
}

TEST(TempDir, StaysWhenAskedTo) {
  std::filesystem::path kept;
  ASSERT_EQ(::setenv("WEFT_KEEP_TMP", "1", 1), 0);
  {
    const TempDir dir;
    kept = dir.path();
  }
  ASSERT_EQ(::unsetenv("WEFT_KEEP_TMP"), 0);
  EXPECT_TRUE(std::filesystem::exists(kept));
  std::filesystem::remove_all(kept);
}

}  // namespace
}  // namespace weft::test
