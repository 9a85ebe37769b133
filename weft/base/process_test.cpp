#include "weft/base/process.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "tests/support/temp_dir.h"
#include "weft/base/env.h"
#include "weft/base/error.h"
#include "weft/base/text.h"

namespace weft {
namespace {

constexpr size_t kMaxOutputBytes = 1 << 20;

ProcessSpec shell(const std::string& script) { return {.argv = {"/bin/sh", "-c", script}}; }

Captured run_shell(const std::string& script) {
  return run_and_capture(shell(script), Deadline::after(30), kMaxOutputBytes);
}

// Reads to the end of the pipe.
std::string read_all(int fd) {
  std::string all;
  char buffer[256];
  for (;;) {
    const auto got = read_pipe(fd, buffer, Deadline::after(30));
    EXPECT_TRUE(got.has_value()) << "no end within 30 s";
    if (!got || *got == 0) return all;
    all.append(buffer, *got);
  }
}

bool exists(pid_t pid) { return ::kill(pid, 0) == 0; }

// Until nobody holds the write end: every process that inherited it has ended.
bool hangs_up(int fd) {
  pollfd one{.fd = fd, .events = 0, .revents = 0};
  return ::poll(&one, 1, 30'000) == 1 && (one.revents & POLLHUP) != 0;
}

TEST(Process, TellsCodesFromSignals) {
  EXPECT_TRUE(run_shell("exit 0").status.ok());
  EXPECT_EQ(run_shell("exit 3").status, (ExitStatus{.code = 3, .signal = 0}));
  EXPECT_EQ(run_shell("kill -TERM $$").status, (ExitStatus{.code = 0, .signal = SIGTERM}));
  EXPECT_EQ((ExitStatus{.code = 3, .signal = 0}).describe(), "exit code 3");
  EXPECT_EQ((ExitStatus{.code = 0, .signal = SIGSEGV}).describe(), "killed by SIGSEGV");
}

TEST(Process, CapturesBothOutputsApart) {
  const auto captured = run_shell("echo out; echo err >&2");
  EXPECT_EQ(captured.out, "out\n");
  EXPECT_EQ(captured.err, "err\n");
  EXPECT_FALSE(captured.timed_out);
  EXPECT_FALSE(captured.truncated);
}

TEST(Process, CapturesMoreThanAPipeHolds) {
  const auto captured = run_shell("head -c 700000 /dev/zero; head -c 300000 /dev/zero >&2");
  EXPECT_EQ(captured.out.size(), 700'000u);
  EXPECT_EQ(captured.err.size(), 300'000u);
}

TEST(Process, KeepsTheFirstBytesOfTooManyAndLetsTheChildFinish) {
  const auto captured =
      run_and_capture(shell("printf 12345; head -c 500000 /dev/zero; exit 4"), Deadline::after(30), 3);
  EXPECT_EQ(captured.out, "123");
  EXPECT_TRUE(captured.truncated);
  EXPECT_EQ(captured.status.code, 4);
}

TEST(Process, KillsAtTheDeadlineAndKeepsWhatCame) {
  Captured captured;
  // A busy machine may not even start the shell in the first half second; then it gets longer.
  for (double seconds = 0.5; captured.out.empty() && seconds < 40; seconds *= 4) {
    captured = run_and_capture(shell("echo started; exec sleep 1000"), Deadline::after(seconds), kMaxOutputBytes);
    EXPECT_TRUE(captured.timed_out);
    EXPECT_EQ(captured.status.signal, SIGKILL);
  }
  EXPECT_EQ(captured.out, "started\n");
}

TEST(Process, DoesNotWaitForGrandchildrenThatKeepThePipe) {
  const Stopwatch watch;
  const auto captured = run_shell("sleep 1000 & echo $!");
  EXPECT_FALSE(captured.timed_out);
  const pid_t grandchild = std::atoi(captured.out.c_str());
  ASSERT_GT(grandchild, 0);
  EXPECT_EQ(::kill(grandchild, SIGKILL), 0);
  EXPECT_LT(watch.elapsed_s(), 30);
}

TEST(Process, AMissingProgramIsNamed) {
  for (const std::string program : {"no-such-program-anywhere", "/no/such/program"}) {
    try {
      Process::spawn({.argv = {program}});
      FAIL() << program << " started";
    } catch (const IoError& error) {
      EXPECT_EQ(error.code(), ENOENT);
      EXPECT_EQ(error.text().where, program);
      EXPECT_NE(error.text().title.find(program), std::string::npos);
    }
  }
}

TEST(Process, AProgramThatMayNotRunIsEacces) {
  const test::TempDir folder;
  write_file(Env::posix(), folder / "plain", bytes_of("#!/bin/sh\n"));
  const auto start = [&](ProcessSpec spec) {
    try {
      Process::spawn(spec);
    } catch (const IoError& error) {
      return error.code();
    }
    return 0;
  };
  EXPECT_EQ(start({.argv = {folder / "plain"}}), EACCES);
  EXPECT_EQ(start({.argv = {"plain"}, .env = {{"PATH", folder.path().string() + ":/nowhere"}}}), EACCES);
}

TEST(Process, ABadFolderIsNamed) {
  ProcessSpec spec = shell("true");
  spec.cwd = "/no/such/folder";
  try {
    Process::spawn(spec);
    FAIL();
  } catch (const IoError& error) {
    EXPECT_EQ(error.code(), ENOENT);
    EXPECT_EQ(error.text().where, "/no/such/folder");
  }
}

TEST(Process, AFailedStartLeavesNoZombie) {
  EXPECT_THROW(Process::spawn({.argv = {"/no/such/program"}}), IoError);
  siginfo_t zombie{};
  const int result = ::waitid(P_ALL, 0, &zombie, WEXITED | WNOHANG | WNOWAIT);
  EXPECT_TRUE(result != 0 || zombie.si_pid == 0) << "process " << zombie.si_pid << " was not reaped";
}

TEST(Process, PathIsSearchedInOrder) {
  const test::TempDir folder;
  write_file(Env::posix(), folder / "greet", bytes_of("#!/bin/sh\necho hello \"$1\"\n"));
  std::filesystem::permissions(folder / "greet", std::filesystem::perms::owner_all);
  ProcessSpec spec{.argv = {"greet", "you all"},
                   .env = {{"PATH", "/nowhere:" + folder.path().string() + ":/usr/bin:/bin"}}};
  EXPECT_EQ(run_and_capture(spec, Deadline::after(30), kMaxOutputBytes).out, "hello you all\n");
}

TEST(Process, EnvironmentIsAddedToAndRemovedFrom) {
  setenv("WEFT_TEST_GONE", "1", 1);
  setenv("WEFT_TEST_KEPT", "kept", 1);
  ProcessSpec spec = shell("echo \"$WEFT_TEST_NEW,${WEFT_TEST_GONE-unset},$WEFT_TEST_KEPT\"");
  spec.env = {{"WEFT_TEST_NEW", "a=b c"}, {"WEFT_TEST_GONE", std::nullopt}};
  EXPECT_EQ(run_and_capture(spec, Deadline::after(30), kMaxOutputBytes).out, "a=b c,unset,kept\n");
  unsetenv("WEFT_TEST_GONE");
  unsetenv("WEFT_TEST_KEPT");
}

TEST(Process, RunsInItsFolder) {
  const test::TempDir folder;
  ProcessSpec spec = shell("pwd -P");
  spec.cwd = folder.path();
  const auto captured = run_and_capture(spec, Deadline::after(30), kMaxOutputBytes);
  EXPECT_EQ(captured.out, std::filesystem::canonical(folder.path()).string() + "\n");
}

TEST(Process, StreamsCanBeFiles) {
  const test::TempDir folder;
  write_file(Env::posix(), folder / "in", bytes_of("given\n"));
  write_file(Env::posix(), folder / "log", bytes_of("old content that must go\n"));
  ProcessSpec spec = shell("cat; echo to err >&2; echo to out");
  spec.in = Stream::file(folder / "in");
  spec.out = spec.err = Stream::file(folder / "log");
  EXPECT_TRUE(Process::spawn(spec).wait()->ok());
  EXPECT_EQ(read_file(Env::posix(), folder / "log", kMaxOutputBytes), "given\nto err\nto out\n");
}

TEST(Process, AStreamThatCannotBeOpenedIsNamed) {
  ProcessSpec spec = shell("true");
  spec.out = Stream::file("/no/such/folder/log");
  try {
    Process::spawn(spec);
    FAIL();
  } catch (const IoError& error) {
    EXPECT_EQ(error.text().where, "/no/such/folder/log");
  }
}

TEST(Process, RunsOnItsCpusOnly) {
  cpu_set_t ours;
  ASSERT_EQ(::sched_getaffinity(0, sizeof ours, &ours), 0);
  int last = CPU_SETSIZE - 1;
  while (!CPU_ISSET(last, &ours)) --last;
  ProcessSpec spec = shell("grep Cpus_allowed_list /proc/self/status");
  spec.cpus = {last};
  const auto captured = run_and_capture(spec, Deadline::after(30), kMaxOutputBytes);
  EXPECT_EQ(captured.out, cat("Cpus_allowed_list:\t", last, "\n"));
  spec.cpus = {5000};
  EXPECT_THROW(Process::spawn(spec), IoError);
}

TEST(Process, NullGivesAndTakesNothing) {
  ProcessSpec spec = shell("wc -c");
  spec.in = Stream::null();
  EXPECT_EQ(std::atoi(run_and_capture(spec, Deadline::after(30), kMaxOutputBytes).out.c_str()), 0);
}

TEST(Process, PipesTalkBothWays) {
  Process child = Process::spawn({.argv = {"cat"}, .in = Stream::pipe(), .out = Stream::pipe()});
  EXPECT_FALSE(child.err());
  ASSERT_EQ(::write(child.in().get(), "ping", 4), 4);
  child.in().reset();
  EXPECT_EQ(read_all(child.out().get()), "ping");
  EXPECT_TRUE(child.wait()->ok());
}

TEST(Process, WaitHonoursItsDeadlineAndRemembersTheAnswer) {
  Process child = Process::spawn({.argv = {"cat"}, .in = Stream::pipe(), .out = Stream::null()});
  EXPECT_EQ(child.wait(Deadline::after(0)), std::nullopt);
  EXPECT_EQ(child.wait(Deadline::after(0.01)), std::nullopt);
  char byte[1];
  Process talker = Process::spawn({.argv = {"cat"}, .in = Stream::pipe(), .out = Stream::pipe()});
  EXPECT_EQ(read_pipe(talker.out().get(), byte, Deadline::after(0.01)), std::nullopt);
  child.in().reset();
  EXPECT_TRUE(child.wait()->ok());
  EXPECT_TRUE(child.wait(Deadline::after(0))->ok());
}

TEST(Process, SignalsReachTheChild) {
  Process child = Process::spawn({.argv = {"sleep", "1000"}});
  child.signal(SIGTERM);
  EXPECT_EQ(child.wait()->signal, SIGTERM);
  child.signal(SIGTERM);  // ended: no harm
}

TEST(Process, GroupSignalsReachGrandchildrenEvenAfterTheChildEnded) {
  ProcessSpec spec = shell("sleep 1000 & exit 0");
  spec.out = Stream::pipe();
  spec.new_group = true;
  Process child = Process::spawn(spec);
  EXPECT_TRUE(child.wait()->ok());
  child.kill_group(SIGKILL);
  EXPECT_TRUE(hangs_up(child.out().get()));
}

TEST(Process, ANewGroupIsItsOwn) {
  ProcessSpec spec{.argv = {"sleep", "1000"}};
  const Process same = Process::spawn(spec);
  EXPECT_EQ(::getpgid(same.pid()), ::getpgid(0));
  EXPECT_THROW(same.kill_group(SIGTERM), Error);
  spec.new_group = true;
  const Process own = Process::spawn(spec);
  EXPECT_EQ(::getpgid(own.pid()), own.pid());
}

TEST(Process, TheDestructorKillsAndReaps) {
  UniqueFd out;
  pid_t pid = 0;
  {
    ProcessSpec spec = shell("sleep 1000 & echo ready; wait");
    spec.out = Stream::pipe();
    spec.new_group = true;
    Process child = Process::spawn(spec);
    char ready[6];
    ASSERT_EQ(read_pipe(child.out().get(), ready, Deadline::after(30)), 6u);
    pid = child.pid();
    out = std::move(child.out());
  }
  EXPECT_FALSE(exists(pid));
  EXPECT_TRUE(hangs_up(out.get())) << "the grandchild in the group still runs";
}

TEST(Process, MovingMovesTheDuty) {
  Process first = Process::spawn({.argv = {"sleep", "1000"}});
  const pid_t pid = first.pid();
  Process second = std::move(first);
  EXPECT_EQ(second.pid(), pid);
  EXPECT_TRUE(exists(pid));
  const Process third = Process::spawn({.argv = {"sleep", "1000"}});
  second = Process::spawn({.argv = {"sleep", "1000"}});
  EXPECT_FALSE(exists(pid));
  EXPECT_TRUE(exists(third.pid()));
}

TEST(Process, TheChildStartsWithPlainSignals) {
  sigset_t blocked, before;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &blocked, &before);
  const auto handler = ::signal(SIGPIPE, SIG_IGN);
  // Bits of SigBlk and SigIgn; SIGPIPE is bit 12. Read by a program that installs no handlers itself.
  const auto captured = run_and_capture({.argv = {"grep", "-E", "SigBlk|SigIgn", "/proc/self/status"}},
                                        Deadline::after(30), kMaxOutputBytes);
  ::signal(SIGPIPE, handler);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  EXPECT_NE(captured.out.find("SigBlk:\t0000000000000000"), std::string::npos) << captured.out;
  const size_t at = captured.out.find("SigIgn:\t");
  ASSERT_NE(at, std::string::npos);
  EXPECT_EQ(std::stoull(captured.out.substr(at + 8), nullptr, 16) & (1ull << (SIGPIPE - 1)), 0u);
}

TEST(Process, NoDescriptorOfOursLeaksIntoTheChild) {
  const Process other = Process::spawn({.argv = {"cat"}, .in = Stream::pipe(), .out = Stream::pipe()});
  // Descriptor 3 is the folder that ls itself reads; anything more came from us.
  const auto before =
      run_and_capture({.argv = {"ls", "/proc/self/fd"}, .in = Stream::null()}, Deadline::after(30), kMaxOutputBytes);
  const Process more =
      Process::spawn({.argv = {"cat"}, .in = Stream::pipe(), .out = Stream::pipe(), .err = Stream::pipe()});
  const auto after =
      run_and_capture({.argv = {"ls", "/proc/self/fd"}, .in = Stream::null()}, Deadline::after(30), kMaxOutputBytes);
  EXPECT_EQ(before.out, after.out);
}

TEST(Process, StandardDescriptorsMayBeClosedInTheParent) {
  // In a child of its own, for it closes what the test runner needs.
  const pid_t pid = ::fork();
  ASSERT_GE(pid, 0);
  if (pid == 0) {
    ::close(0), ::close(1), ::close(2);
    const auto captured = run_and_capture(shell("echo out; echo err >&2"), Deadline::after(30), kMaxOutputBytes);
    ::_exit(captured.out == "out\n" && captured.err == "err\n" ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(pid, &status, 0), pid);
  EXPECT_EQ(status, 0);
}

TEST(Process, DiesWithItsParent) {
  // A parent that spawns and is then killed without a chance to clean up; the pipe tells when the last of them is gone.
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  UniqueFd read_end(ends[0]), write_end(ends[1]);
  const pid_t parent = ::fork();
  ASSERT_GE(parent, 0);
  if (parent == 0) {
    const Process child = Process::spawn({.argv = {"sleep", "1000"}, .die_with_parent = true});
    ::raise(SIGKILL);
  }
  write_end.reset();
  ASSERT_EQ(::waitpid(parent, nullptr, 0), parent);
  EXPECT_TRUE(hangs_up(read_end.get()));
}

}  // namespace
}  // namespace weft
