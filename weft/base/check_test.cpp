#include "weft/base/check.h"

#include <gtest/gtest.h>

#include "weft/base/error.h"
#include "weft/base/log.h"

namespace weft {
namespace {

template <typename Body>
ErrorText failure_of(Body body) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kBug);
    return error.text();
  }
  ADD_FAILURE() << "the check passed";
  return {};
}

TEST(Check, PassesInSilence) {
  WEFT_CHECK(1 + 1 == 2);
  WEFT_CHECK_EQ(2, 2);
  WEFT_CHECK_NE(2, 3);
  WEFT_CHECK_LE(2, 2);
  WEFT_CHECK_LT(2, 3);
  WEFT_CHECK_GE(3, 3);
  WEFT_CHECK_GT(3, 2);
}

TEST(Check, NamesTheConditionAndThePlace) {
  const auto text = failure_of([] { WEFT_CHECK(1 + 1 == 3); });
  EXPECT_NE(text.title.find("1 + 1 == 3"), std::string::npos);
  EXPECT_NE(text.where.find("check_test.cpp:"), std::string::npos);
}

TEST(Check, PrintsBothValues) {
  const int buckets = 4;
  const auto text = failure_of([&] { WEFT_CHECK_EQ(buckets, 5); });
  EXPECT_NE(text.title.find("buckets == 5"), std::string::npos);
  EXPECT_EQ(text.what, "left is 4, right is 5");
}

TEST(Check, EveryComparisonCanFail) {
  EXPECT_THROW(WEFT_CHECK_EQ(1, 2), Error);
  EXPECT_THROW(WEFT_CHECK_NE(1, 1), Error);
  EXPECT_THROW(WEFT_CHECK_LE(2, 1), Error);
  EXPECT_THROW(WEFT_CHECK_LT(1, 1), Error);
  EXPECT_THROW(WEFT_CHECK_GE(1, 2), Error);
  EXPECT_THROW(WEFT_CHECK_GT(1, 1), Error);
}

TEST(Check, EvaluatesEachOperandOnce) {
  int calls = 0;
  WEFT_CHECK_EQ(++calls, 1);
  EXPECT_EQ(calls, 1);
}

TEST(Check, NamesTheRankOnceThereIsOne) {
  set_log_rank(5);
  const auto text = failure_of([] { WEFT_CHECK(false); });
  set_log_rank(-1);
  EXPECT_NE(text.where.find("(rank 5)"), std::string::npos);
}

}  // namespace
}  // namespace weft
