#include "weft/launcher/lines.h"

#include <gtest/gtest.h>

#include "weft/base/text.h"

namespace weft::launcher {
namespace {

using Lines = std::vector<std::string>;

// Fed in chunks of `chunk` bytes: where the chunks end must not matter.
Lines cut(std::string_view bytes, size_t chunk) {
  Lines lines;
  const auto keep = [&](std::string_view line) { lines.emplace_back(line); };
  LineCutter cutter;
  for (; !bytes.empty(); bytes.remove_prefix(std::min(chunk, bytes.size()))) cutter.feed(bytes.substr(0, chunk), keep);
  cutter.finish(keep);
  return lines;
}

TEST(Lines, AreCutAtTheirEnds) {
  const std::pair<std::string_view, Lines> cases[] = {
      {"", {}},
      {"a\nb\n", {"a", "b"}},
      {"a\n\nb", {"a", "", "b"}},
      {"\n\n", {"", ""}},
      {"a\r\nb\r\n", {"a", "b"}},
      {"a\r\n\r\nb", {"a", "", "b"}},
      {"\r 10%\r 20%\r100%\nend", {" 10%", " 20%", "100%", "end"}},
      {"no end", {"no end"}},
  };
  for (const auto& [bytes, wanted] : cases) {
    for (const size_t chunk : {1, 2, 3, 100}) EXPECT_EQ(cut(bytes, chunk), wanted) << bytes << " by " << chunk;
  }
}

TEST(Lines, AVeryLongOneComesInPieces) {
  const std::string text(1 << 20, 'x');
  const auto lines = cut(text + "\nnext\n", 4096);
  std::string joined;
  for (const auto& line : lines) {
    EXPECT_LE(line.size(), LineCutter::kMaxPieceBytes);
    if (line != "next") joined += line;
  }
  EXPECT_EQ(joined, text);
  EXPECT_EQ(lines.back(), "next");
}

TEST(Lines, APieceDoesNotEndInsideACharacter) {
  std::string text = "x";
  for (int i = 0; i < 60'000; ++i) text += "\xE7\xBA\xBF";  // three bytes each
  std::string joined;
  for (const auto& line : cut(text, 1000)) {
    EXPECT_EQ(safe_line(line, false).find("\\x"), std::string::npos);
    joined += line;
  }
  EXPECT_EQ(joined, text);
}

TEST(SafeLine, KeepsTextAndShowsTheRestAsNumbers) {
  EXPECT_EQ(safe_line("a\tb \xC3\xA9", false), "a\tb \xC3\xA9");
  EXPECT_EQ(safe_line(std::string_view("a\0\x07z", 4), false), "a\\x00\\x07z");
  EXPECT_EQ(safe_line("\xff\xC3", false), "\\xff\\xc3");
  EXPECT_EQ(safe_line("\x1b[2J\x1b]0;title\x07", true), "\\x1b[2J\\x1b]0;title\\x07");
}

TEST(SafeLine, KeepsColoursOnlyWhereTheyAreShown) {
  EXPECT_EQ(safe_line("\x1b[1;31mred\x1b[0m", true), "\x1b[1;31mred\x1b[0m");
  EXPECT_EQ(safe_line("\x1b[1;31mred\x1b[0m", false), "red");
}

TEST(LastLines, AreTheLastOnesAndShort) {
  LastLines last;
  for (int i = 0; i < 60; ++i) last.add(cat("line ", i));
  last.add(std::string(10'000, 'x'));
  const auto lines = last.lines();
  ASSERT_EQ(lines.size(), LastLines::kMaxLines);
  EXPECT_EQ(lines.front(), "line 11");
  EXPECT_EQ(lines.back().size(), LastLines::kMaxBytes);
}

}  // namespace
}  // namespace weft::launcher
