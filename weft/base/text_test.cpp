#include "weft/base/text.h"

#include <gtest/gtest.h>

#include <vector>

namespace weft {
namespace {

TEST(Text, CatJoinsEveryKindOfPiece) {
  EXPECT_EQ(cat("rank ", 3, " of ", 8u, ' ', true, " ", 0.5, std::string("!")), "rank 3 of 8 true 0.5!");
  EXPECT_EQ(cat(), "");
  EXPECT_EQ(cat(INT64_MIN, " ", UINT64_MAX), "-9223372036854775808 18446744073709551615");
}

TEST(Text, CatPrintsFloatsSoThatTheyReadBackExactly) {
  EXPECT_EQ(cat(0.1), "0.1");
  EXPECT_EQ(cat(0.1f), "0.1");
  EXPECT_EQ(std::stod(cat(1.0 / 3)), 1.0 / 3);
}

TEST(Text, JoinPutsTheSeparatorOnlyBetween) {
  EXPECT_EQ(join(std::vector<std::string>{}, ", "), "");
  EXPECT_EQ(join(std::vector<std::string>{"a"}, ", "), "a");
  EXPECT_EQ(join(std::vector<std::string>{"a", "b", "c"}, ", "), "a, b, c");
}

TEST(Text, EditDistanceCountsEachKindOfEditOnce) {
  EXPECT_EQ(edit_distance("stage", "stage"), 0);
  EXPECT_EQ(edit_distance("stge", "stage"), 1);
  EXPECT_EQ(edit_distance("staage", "stage"), 1);
  EXPECT_EQ(edit_distance("stahe", "stage"), 1);
  EXPECT_EQ(edit_distance("satge", "stage"), 1);
  EXPECT_EQ(edit_distance("", "abc"), 3);
  EXPECT_EQ(edit_distance("abc", ""), 3);
}

TEST(Text, EditDistanceIgnoresCaseAndDashes) { EXPECT_EQ(edit_distance("Train-Batch-Size", "train_batch_size"), 0); }

TEST(Text, NearestFindsSlipsAndKeepsSilentOtherwise) {
  const std::vector<std::string> words = {"stage", "overlap_comm", "reduce_bucket_size"};
  EXPECT_EQ(nearest("overlap_com", words), "overlap_comm");
  EXPECT_EQ(nearest("reduce-buckt-size", words), "reduce_bucket_size");
  EXPECT_EQ(nearest("momentum", words), "");
  EXPECT_EQ(nearest("x", {}), "");
}

TEST(Text, DisplayColumnsKnowsWideAndZeroWidthCharacters) {
  EXPECT_EQ(display_columns("weft"), 4);
  EXPECT_EQ(display_columns("训练"), 4);
  EXPECT_EQ(display_columns("e\u0301"), 1);
  EXPECT_EQ(display_columns("a\tb\n"), 2);
}

TEST(Text, DisplayColumnsSurvivesBrokenUtf8) {
  EXPECT_EQ(display_columns("\xFF"), 1);
  EXPECT_EQ(display_columns("\xE8\xAE"), 2);
  EXPECT_GE(display_columns("a\xC3"), 1);
}

}  // namespace
}  // namespace weft
