#include "weft/launcher/descendants.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>

#include "weft/base/process.h"

namespace weft::launcher {
namespace {

// A child that starts `script` and says so with one line, which is returned.
std::string first_line(Process& child) {
  char text[64];
  const auto got = read_pipe(child.out().get(), text, Deadline::after(30));
  return {text, got.value_or(0)};
}

bool is_below(pid_t pid) {
  const auto all = descendants();
  return std::ranges::find(all, pid) != all.end();
}

TEST(Descendants, AGrandchildThatLeftItsGroupAndItsParentIsFoundAndEnded) {
  const Subreaper subreaper;
  Process child = Process::spawn({.argv = {"/bin/sh", "-c", "setsid sleep 1000 & echo $!"}, .out = Stream::pipe()});
  const pid_t grandchild = std::atoi(first_line(child).c_str());
  ASSERT_GT(grandchild, 0);
  EXPECT_TRUE(child.wait(Deadline::after(30))->ok());
  EXPECT_TRUE(is_below(grandchild));
  EXPECT_TRUE(end_descendants(std::vector{child.pid()}, Deadline::after(30)));
  EXPECT_FALSE(is_below(grandchild));
  EXPECT_EQ(::kill(grandchild, 0), -1) << "ended and not reaped";
  EXPECT_TRUE(is_below(child.pid())) << "its Process reaps it";
}

TEST(Descendants, OnesOwnAreLeftAlone) {
  const Subreaper subreaper;
  Process child = Process::spawn({.argv = {"sleep", "1000"}});
  EXPECT_TRUE(end_descendants(std::vector{child.pid()}, Deadline::after(30)));
  EXPECT_EQ(child.wait(Deadline::after(0)), std::nullopt);
}

TEST(Descendants, ATreeThatGrowsIsEnded) {
  const Subreaper subreaper;
  {
    const std::string script = "for i in 1 2 3; do (sleep 1000 & sleep 1000) & done; echo on; wait";
    Process child = Process::spawn({.argv = {"/bin/sh", "-c", script}, .out = Stream::pipe()});
    EXPECT_EQ(first_line(child), "on\n");
    EXPECT_TRUE(end_descendants({}, Deadline::after(30)));
  }
  EXPECT_TRUE(descendants().empty());
}

}  // namespace
}  // namespace weft::launcher
