#include "tests/support/child_process.h"

#include <gtest/gtest.h>
#include <signal.h>

#include "tests/support/test_helpers.h"

namespace weft::test {
namespace {

ProgramResult shell(const std::string& script, const ProgramOptions& options = {}) {
  return run_program({"/bin/sh", "-c", script}, options);
}

TEST(BoundedText, KeepsAllOfAShortText) {
  BoundedText text;
  text.append("one ");
  text.append("two");
  EXPECT_EQ(text.text(), "one two");
}

TEST(BoundedText, KeepsBothEndsOfALongOne) {
  BoundedText text;
  text.append("first");
  for (int i = 0; i < 1000; ++i) text.append(std::string(1000, 'x'));
  text.append("last");
  const std::string out = text.text();
  EXPECT_TRUE(out.starts_with("first"));
  EXPECT_TRUE(out.ends_with("last"));
  EXPECT_NE(out.find(" bytes left out "), std::string::npos);
  EXPECT_LT(out.size(), BoundedText::kHeadBytes + 2 * BoundedText::kTailBytes + 100);
}

TEST(RunProgram, TellsExitCodeAndOutputApart) {
  const auto result = shell("echo to out; echo to err >&2; exit 3");
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_EQ(result.signal, 0);
  EXPECT_EQ(result.out, "to out\n");
  EXPECT_EQ(result.err, "to err\n");
  EXPECT_FALSE(result.hung);
  expect_no_child_left();
}

TEST(RunProgram, TellsTheSignal) {
  const auto result = shell("kill -TERM $$");
  EXPECT_EQ(result.exit_code, -1);
  EXPECT_EQ(result.signal, SIGTERM);
}

TEST(RunProgram, ChangesTheEnvironment) {
  ASSERT_EQ(::setenv("WEFT_TEST_GOES", "here", 1), 0);
  const auto result =
      shell("echo ${WEFT_TEST_GOES-gone} $WEFT_TEST_COMES", {.env = {"WEFT_TEST_GOES", "WEFT_TEST_COMES=a=b"}});
  ASSERT_EQ(::unsetenv("WEFT_TEST_GOES"), 0);
  EXPECT_EQ(result.out, "gone a=b\n");
}

TEST(RunProgram, AFullPipeDoesNotBlockTheProgram) {
  const auto result = shell("head -c 3000000 /dev/zero; echo end");
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_TRUE(result.out.ends_with("end\n"));
}

TEST(RunProgram, WhatItLeavesRunningIsKilled) {
  // The sleeper holds the pipes open: waiting for their end would take its ten minutes.
  const auto result = shell("sleep 600 & echo $!");
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_FALSE(result.hung);
  EXPECT_TRUE(goes_away(std::stoi(result.out)));
}

TEST(RunProgram, EndsAtTheDeadlineWhileTheProgramPrints) {
  const auto result = shell("yes", {.deadline = Seconds(1)});
  EXPECT_TRUE(result.hung);
  EXPECT_EQ(result.signal, SIGKILL);
  EXPECT_TRUE(result.out.starts_with("y\ny\n"));
  expect_no_child_left();
}

TEST(RunProgram, ThrowsWhenThereIsNoSuchProgram) {
  EXPECT_THROW(run_program({"/nowhere/weft"}), std::system_error);
  expect_no_child_left();
}

}  // namespace
}  // namespace weft::test
