#include "tests/support/stack_dump.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <thread>

#include "tests/support/child_process.h"
#include "tests/support/posix.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_helpers.h"

extern "C" [[gnu::noinline]] void weft_test_sleeps_in_a_thread(std::promise<pid_t>& running, int fd) {
  running.set_value(::gettid());
  char byte = 0;
  while (::read(fd, &byte, 1) < 0) {
    EXPECT_EQ(errno, EINTR);
  }
}

namespace weft::test {
namespace {

// A thread inside the named function above, for as long as this object lives.
class SleepingThread {
 public:
  SleepingThread() {
    int fds[2];
    if (::pipe(fds) != 0) throw_errno("make a pipe", "");
    read_end_ = Fd(fds[0]);
    write_end_ = Fd(fds[1]);
    std::promise<pid_t> running;
    thread_ = std::thread([&running, fd = fds[0]] {
      ::pthread_setname_np(::pthread_self(), "sleeper");
      weft_test_sleeps_in_a_thread(running, fd);
    });
    id_ = running.get_future().get();
  }
  ~SleepingThread() {
    write_all(write_end_.get(), "x");
    thread_.join();
  }
  pid_t id() const { return id_; }

 private:
  Fd read_end_, write_end_;
  pid_t id_ = -1;
  std::thread thread_;
};

// PATH with nothing on it but these programs, until the end of the scope.
class OnlyOnPath {
 public:
  explicit OnlyOnPath(const std::vector<std::string>& programs) {
    for (const auto& name : programs) std::filesystem::create_symlink(find_program(name), dir_.path() / name);
    ::setenv("PATH", dir_.path().c_str(), 1);
  }
  ~OnlyOnPath() { ::setenv("PATH", before_.c_str(), 1); }
  const std::filesystem::path& folder() const { return dir_.path(); }

 private:
  const TempDir dir_;
  const std::string before_ = std::getenv("PATH");
};

class StackDumpTools : public testing::TestWithParam<std::string> {};

TEST_P(StackDumpTools, ShowAThreadOfThisProcess) {
  if (find_program(GetParam()).empty()) GTEST_SKIP() << GetParam() << " is not installed";
  const OnlyOnPath path({"timeout", GetParam()});
  const SleepingThread sleeper;
  const std::string stacks = stacks_of(::getpid());
  EXPECT_NE(stacks.find(": sleeper"), std::string::npos) << stacks;
  EXPECT_NE(stacks.find("weft_test_sleeps_in_a_thread"), std::string::npos) << stacks;
}

INSTANTIATE_TEST_SUITE_P(Tools, StackDumpTools, testing::Values("eu-stack", "gdb"));

TEST(StackDump, WithoutToolsAThreadShowsItself) {
  const OnlyOnPath path({});
  const SleepingThread sleeper;
  const std::string stacks = stacks_of(::getpid());
  EXPECT_NE(stacks.find("no tool read the stacks"), std::string::npos) << stacks;
  const size_t begin = stacks.find(concat("backtrace of thread ", sleeper.id()));
  ASSERT_NE(begin, std::string::npos) << stacks;
  const std::string own = stacks.substr(begin, stacks.find("backtrace of thread", begin + 1) - begin);
  EXPECT_EQ(own.find("did not answer"), std::string::npos) << own;
  EXPECT_NE(own.find("libc"), std::string::npos) << own;
}

TEST(StackDump, AToolThatHangsIsKilled) {
  const OnlyOnPath path({"timeout", "sleep"});
  const auto tool = path.folder() / "eu-stack";
  std::ofstream(tool) << "#!/bin/sh\nexec sleep 600\n";
  std::filesystem::permissions(tool, std::filesystem::perms::owner_all);
  const std::string stacks = stacks_of(::getpid(), 1);
  EXPECT_NE(stacks.find("killed at its limit"), std::string::npos) << stacks;
  expect_no_child_left();
}

TEST(StackDump, SaysSoWhenThereIsNoSuchProcess) {
  // A number that was ours a moment ago and, reaped, is nobody's.
  const auto nobody = std::stoi(run_program({"/bin/sh", "-c", "echo $$"}).out);
  const Fd sink(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  EXPECT_FALSE(dump_stacks(nobody, sink.get()));
  EXPECT_NE(stacks_of(nobody).find("no tool read the stacks"), std::string::npos);
  expect_no_child_left();
}

}  // namespace
}  // namespace weft::test
