#include "weft/data/token_windows.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "tests/support/temp_dir.h"
#include "weft/base/error.h"
#include "weft/data/test_refusal_impl.h"

namespace weft::data {
namespace {

// Tokens first, first + 1, ...: a window shows where it lies.
std::string write_run(const std::string& path, uint16_t first, size_t count) {
  std::vector<uint16_t> tokens(count);
  std::iota(tokens.begin(), tokens.end(), first);
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(tokens.data()), static_cast<std::streamsize>(count * 2));
  return path;
}

std::vector<int64_t> window_of(const TokenWindows& windows, int64_t i) {
  std::vector<int64_t> out(static_cast<size_t>(windows.seq() + 1));
  windows.read(i, out);
  return out;
}

std::vector<int64_t> run(int64_t first, size_t count) {
  std::vector<int64_t> out(count);
  std::iota(out.begin(), out.end(), first);
  return out;
}

TEST(TokenWindows, OneEverySeqTokensWithItsTarget) {
  const test::TempDir dir;
  // {tokens, windows}: the last token is a target only, and what does not fill a window is not used.
  const std::pair<size_t, int64_t> cases[] = {{5, 1}, {6, 1}, {8, 1}, {9, 2}, {12, 2}, {13, 3}};
  for (const auto& [tokens, num_windows] : cases) {
    const std::vector<std::string> paths = {write_run(dir / "a.u16", 100, tokens)};
    const TokenWindows windows(Env::posix(), paths, {.seq = 4});
    EXPECT_EQ(windows.size(), num_windows) << tokens;
    for (int64_t i = 0; i < windows.size(); ++i) EXPECT_EQ(window_of(windows, i), run(100 + 4 * i, 5));
  }
}

TEST(TokenWindows, FilesFollowInTheOrderGivenAndWindowsDoNotCrossThem) {
  const test::TempDir dir;
  const std::vector<std::string> paths = {write_run(dir / "short.u16", 0, 3),  // no window: passed over
                                          write_run(dir / "z.u16", 100, 10), write_run(dir / "short2.u16", 0, 1),
                                          write_run(dir / "a.u16", 200, 5)};
  const TokenWindows windows(Env::posix(), paths, {.seq = 4});
  ASSERT_EQ(windows.size(), 3);
  EXPECT_EQ(windows.num_tokens(), 19);
  EXPECT_EQ(window_of(windows, 0), run(100, 5));
  EXPECT_EQ(window_of(windows, 1), run(104, 5));
  EXPECT_EQ(window_of(windows, 2), run(200, 5));
}

TEST(TokenWindows, AWindowPastFourGibibytes) {
  const test::TempDir dir;
  const std::vector<std::string> paths = {write_run(dir / "a.u16", 0, 1)};
  constexpr int64_t kSeq = 1024, kWindows = (int64_t{5} << 30) / 2 / kSeq;
  std::filesystem::resize_file(paths[0], kWindows * kSeq * 2);
  std::ofstream(paths[0], std::ios::binary | std::ios::app) << std::string("\xCD\xAB", 2);
  const TokenWindows windows(Env::posix(), paths, {.seq = kSeq});
  ASSERT_EQ(windows.size(), kWindows);
  EXPECT_EQ(window_of(windows, kWindows - 1).back(), 0xABCD);
}

TEST(TokenWindows, TokensAreCheckedAsTheyAreRead) {
  const test::TempDir dir;
  const std::vector<std::string> paths = {write_run(dir / "a.u16", 0, 100)};
  const TokenWindows windows(Env::posix(), paths, {.seq = 9, .vocab = 50});
  EXPECT_EQ(window_of(windows, 4), run(36, 10));
  EXPECT_THROW(window_of(windows, 5), Error);
}

TEST(TokenWindows, SaysWhyThereIsNothingToRead) {
  const test::TempDir dir;
  const std::vector<std::string> none, one = {write_run(dir / "a.u16", 0, 4)};
  struct Case {
    std::vector<std::string> paths;
    TokenWindowOptions options;
    std::string what;
  };
  const Case cases[] = {
      {none, {.seq = 4}, "no file is given"},
      {one, {.seq = 4}, "4 tokens in 1 file; one sequence and its target take 5 of one file"},
      {one, {.seq = 0}, "the sequence is 0 tokens long, it is 1 to 1099511627776"},
      {one,
       {.seq = std::numeric_limits<int64_t>::max()},
       "the sequence is 9223372036854775807 tokens long, it is 1 to 1099511627776"},
      {one, {.seq = 2, .vocab = -1}, "the vocabulary is -1, 0 (not checked) is the least"},
  };
  for (const auto& [paths, options, what] : cases) {
    EXPECT_EQ(refusal_of([&] { TokenWindows(Env::posix(), paths, options); }).what, what);
  }
}

}  // namespace
}  // namespace weft::data
