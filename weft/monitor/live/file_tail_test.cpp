#include "weft/monitor/live/file_tail.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/support/temp_dir.h"

namespace weft {
namespace {

using Lines = std::vector<std::string>;

class Tail : public testing::Test {
 protected:
  void write(const std::string& text, std::ios::openmode mode = std::ios::trunc) {
    std::ofstream(path(), std::ios::binary | mode) << text;
  }
  void append(const std::string& text) { write(text, std::ios::app); }
  std::string path() const { return dir_ / "f"; }

  test::TempDir dir_;
  FileTail tail_{Env::posix(), dir_ / "f"};
  static constexpr size_t kMuch = 1 << 20;
};

TEST_F(Tail, AFileThatIsNotThereYetIsEmpty) {
  EXPECT_TRUE(tail_.read(kMuch).lines.empty());
  EXPECT_FALSE(tail_.exists());
  EXPECT_EQ(tail_.trouble(), "");
  write("a\n");
  const auto news = tail_.read(kMuch);
  EXPECT_EQ(news.lines, Lines{"a"});
  EXPECT_FALSE(news.restarted);
  EXPECT_GT(tail_.modified_unix_s(), 1e9);
}

TEST_F(Tail, EachLineComesOnceAndOnlyWhenItIsWhole) {
  write("a\nb");
  EXPECT_EQ(tail_.read(kMuch).lines, Lines{"a"});
  EXPECT_TRUE(tail_.read(kMuch).lines.empty());
  append("c\n\nd\n");
  EXPECT_EQ(tail_.read(kMuch).lines, (Lines{"bc", "", "d"}));
}

TEST_F(Tail, ACutFileStartsAnew) {
  write("one\ntwo\nthree\n");
  tail_.read(kMuch);
  write("one\n");
  const auto news = tail_.read(kMuch);
  EXPECT_TRUE(news.restarted);
  EXPECT_EQ(news.lines, Lines{"one"});
}

TEST_F(Tail, ACutFileThatHasGrownPastOurPlaceIsNoticed) {
  write("one\ntwo\nthree\n");
  tail_.read(kMuch);
  write("one\nTWO\nTHREE\nFOUR\n");
  const auto news = tail_.read(kMuch);
  EXPECT_TRUE(news.restarted);
  EXPECT_EQ(news.lines, (Lines{"one", "TWO", "THREE", "FOUR"}));
}

TEST_F(Tail, AReplacedFileStartsAnewAndARemovedOneIsForgotten) {
  write("one\n");
  tail_.read(kMuch);
  std::ofstream(dir_ / "g") << "other\n";
  std::filesystem::rename(dir_ / "g", path());
  EXPECT_EQ(tail_.read(kMuch).lines, Lines{"other"});
  std::filesystem::remove(path());
  const auto gone = tail_.read(kMuch);
  EXPECT_TRUE(gone.restarted);
  EXPECT_TRUE(gone.lines.empty());
  EXPECT_FALSE(tail_.read(kMuch).restarted) << "once";
}

TEST_F(Tail, ALongFileComesInPieces) {
  write("aaaa\nbbbb\ncccc\n");
  const auto first = tail_.read(7);
  EXPECT_EQ(first.lines, Lines{"aaaa"});
  EXPECT_TRUE(first.more);
  EXPECT_EQ(tail_.read(7).lines, Lines{"bbbb"});
  EXPECT_EQ(tail_.read(7).lines, Lines{"cccc"});
  EXPECT_FALSE(tail_.read(7).more);
}

TEST_F(Tail, ALineWithoutEndIsLeftOutAndTheNextComes) {
  write(std::string(3 << 20, 'x'));
  EXPECT_TRUE(tail_.read(2 << 20).lines.empty());
  while (tail_.read(2 << 20).more) {
  }
  append("yyy\nnext\n");
  EXPECT_EQ(tail_.read(kMuch).lines, Lines{"next"});
}

TEST_F(Tail, ALogIsReadFromNearItsEnd) {
  write("first\nsecond\nthird\n");
  FileTail log(Env::posix(), path(), 9);
  EXPECT_EQ(log.read(kMuch).lines, Lines{"third"}) << "the line we came into the middle of is left out";
  append("fourth\n");
  EXPECT_EQ(log.read(kMuch).lines, Lines{"fourth"});
}

TEST_F(Tail, AFolderInItsPlaceIsSaid) {
  std::filesystem::create_directory(path());
  EXPECT_TRUE(tail_.read(kMuch).lines.empty());
  EXPECT_NE(tail_.trouble(), "");
}

}  // namespace
}  // namespace weft
