#include "weft/base/error.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <memory>

namespace weft {
namespace {

TEST(Error, PrintsWhatWhereAndDoInOrder) {
  const Error error(ErrorKind::kInput,
                    {.title = "no such flag", .what = "--sead", .where = "line 3", .fix = "use --seed"});
  EXPECT_STREQ(error.what(), "error: no such flag\n  what:  --sead\n  where: line 3\n  do:    use --seed");
}

TEST(Error, LeavesEmptyFieldsOut) {
  const Error error(ErrorKind::kBug, {.title = "lost", .what = "", .where = "", .fix = ""});
  EXPECT_STREQ(error.what(), "error: lost");
}

TEST(Error, IndentsTheLinesOfALongField) {
  const Error error(ErrorKind::kBug, {.title = "t", .what = "one\ntwo", .where = "", .fix = ""});
  EXPECT_STREQ(error.what(), "error: t\n  what:  one\n         two");
}

TEST(Error, ExitCodeTellsInputFromTheRest) {
  const ErrorText text{.title = "t", .what = "", .where = "", .fix = ""};
  EXPECT_EQ(Error(ErrorKind::kInput, text).exit_code(), 2);
  EXPECT_EQ(Error(ErrorKind::kEnvironment, text).exit_code(), 1);
  EXPECT_EQ(Error(ErrorKind::kBug, text).exit_code(), 1);
}

TEST(IoError, CarriesPathErrnoAndAFix) {
  const IoError error("write the report", "/data/report", ENOSPC);
  EXPECT_EQ(error.code(), ENOSPC);
  EXPECT_EQ(error.kind(), ErrorKind::kEnvironment);
  EXPECT_EQ(error.text().title, "cannot write the report");
  EXPECT_EQ(error.text().where, "/data/report");
  EXPECT_NE(error.text().fix.find("df -h /data/report"), std::string::npos);
}

TEST(IoError, ABadPathIsTheUsersABadDiskIsNot) {
  for (const int code : {ENOENT, EACCES, EISDIR, ENOTDIR, ENAMETOOLONG}) {
    EXPECT_EQ(IoError("open", "x", code).kind(), ErrorKind::kInput) << code;
  }
  for (const int code : {EIO, ENOSPC, EMFILE, EBADF}) {
    EXPECT_EQ(IoError("open", "x", code).kind(), ErrorKind::kEnvironment) << code;
  }
}

TEST(Result, HoldsAValueOrThrowsTheError) {
  Result<int> good = 7;
  ASSERT_TRUE(good.ok());
  EXPECT_EQ(good.value(), 7);

  Result<int> bad = Error(ErrorKind::kInput, {.title = "not a number", .what = "", .where = "", .fix = ""});
  EXPECT_FALSE(bad);
  EXPECT_EQ(bad.error().text().title, "not a number");
  EXPECT_THROW(bad.value(), Error);
}

TEST(Result, GivesUpItsValueWhenItIsATemporary) {
  auto make = [] { return Result<std::unique_ptr<int>>(std::make_unique<int>(5)); };
  const std::unique_ptr<int> taken = make().value();
  EXPECT_EQ(*taken, 5);
}

}  // namespace
}  // namespace weft
