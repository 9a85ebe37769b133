#include "weft/launcher/first_failure.h"

#include <gtest/gtest.h>

#include <csignal>

#include "tests/support/temp_dir.h"
#include "weft/base/env.h"
#include "weft/base/text.h"

namespace weft::launcher {
namespace {

RankEnd ended(int rank, ExitStatus status) {
  return {.rank = rank, .pid = 100 + rank, .status = status, .seconds = 4.2};
}

TEST(FirstFailure, SaysWhoHowAfterHowLongAndWhatItSaidLast) {
  const Failure failure{.end = ended(3, {.code = 7, .signal = 0}), .world = 8, .last_lines = {"Traceback", "  oh no"}};
  EXPECT_EQ(describe(failure),
            "error: rank 3 of 8 failed: exit code 7\n"
            "  what:  pid 103 ended after 4.2 s; the other ranks were ended\n"
            "  its last lines on standard error:\n"
            "    Traceback\n"
            "      oh no\n");
}

TEST(FirstFailure, SaysTheAttemptAndTheLog) {
  const Failure failure{.end = ended(0, {.code = 1, .signal = 0}),
                        .attempt = 1,
                        .max_restarts = 3,
                        .log = "logs/a.log",
                        .last_lines = {"x"}};
  EXPECT_EQ(describe(failure),
            "error: rank 0 of 1 failed: exit code 1\n"
            "  what:  pid 100 ended after 4.2 s, in attempt 2 of 4\n"
            "  where: logs/a.log\n"
            "  the last lines of its log:\n"
            "    x\n");
}

TEST(FirstFailure, NamesTheSignalAndItsLikelyCause) {
  const Failure failure{.end = ended(1, {.code = 0, .signal = SIGKILL}), .world = 2};
  const std::string text = describe(failure);
  EXPECT_TRUE(
      text.starts_with("error: rank 1 of 2 failed: killed by SIGKILL: often the kernel's out-of-memory killer\n"))
      << text;
  EXPECT_NE(text.find("dmesg"), std::string::npos);
}

TEST(FirstFailure, ExitCodesAreThoseOfAShell) {
  EXPECT_EQ(exit_code_of({.code = 7, .signal = 0}), 7);
  EXPECT_EQ(exit_code_of({.code = 0, .signal = SIGSEGV}), 139);
}

TEST(FirstFailure, AmongThoseSeenAtOnceAKilledOneWasFirst) {
  const std::vector<RankEnd> ends = {ended(0, {}), ended(1, {.code = 1, .signal = 0}),
                                     ended(2, {.code = 0, .signal = SIGSEGV}),
                                     ended(3, {.code = 0, .signal = SIGKILL})};
  EXPECT_EQ(first_of(ends, std::vector<size_t>{0}), std::nullopt);
  EXPECT_EQ(first_of(ends, std::vector<size_t>{0, 1}), 1u);
  EXPECT_EQ(first_of(ends, std::vector<size_t>{0, 1, 2, 3}), 2u);
}

TEST(FirstFailure, TheEndOfALogIsRead) {
  const test::TempDir folder;
  std::string text;
  for (int i = 0; i < 30'000; ++i) text += cat("line ", i, "\n");
  write_file(Env::posix(), folder / "log", bytes_of(text + "last \x01"));
  const auto lines = last_lines_of_file(folder / "log");
  ASSERT_EQ(lines.size(), LastLines::kMaxLines);
  EXPECT_EQ(lines.front(), "line 29951");
  EXPECT_EQ(lines.back(), "last \\x01");
  EXPECT_TRUE(last_lines_of_file(folder / "none").empty());
}

}  // namespace
}  // namespace weft::launcher
