// Ranks as processes: each re-executes this test binary and runs an entry registered with WEFT_RANK_MAIN.
//
//   WEFT_RANK_MAIN(greets) {                 // `self` is the RankSelf of this process
//     self.store().set("from " + std::to_string(self.rank()), "hello");
//     self.store().barrier();
//     return 0;                              // the exit code; a failed EXPECT_ makes it 1
//   }
//   TEST(Greeting, IsSaid) { expect_all_ok(run_ranks_as_processes("greets", 4)); }
//
// A test that interferes uses the handle: start(), wait until the rank is where it should be (store().get("ready")),
// signal(1, SIGKILL), wait().
//
// Threads: one thread owns a RankProcesses, and it must outlive the ranks: the kernel kills them when the thread that
// started them ends (which is what cleans up after a test that crashes). Failure: whatever a rank does is in its
// result; a rank past the deadline has its stacks printed and is killed.
#pragma once

#include <sys/types.h>

#include <exception>
#include <map>
#include <memory>
#include <source_location>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/child_process.h"
#include "tests/support/file_store.h"
#include "tests/support/temp_dir.h"

namespace weft::test {

// What a rank's entry sees of its run.
class RankSelf {
 public:
  RankSelf(int rank, int world, std::filesystem::path dir, Seconds within);

  int rank() const { return rank_; }
  int world() const { return world_; }
  // Shared by the ranks, removed after the run. Also in WEFT_TEST_DIR.
  const std::filesystem::path& dir() const { return dir_; }
  FileStore& store() { return store_; }

 private:
  int rank_, world_;
  std::filesystem::path dir_;
  FileStore store_;
};

using RankMain = int (*)(RankSelf&);
// Returns true, so that a namespace-scope constant can call it. A name taken twice ends the process with a message.
bool register_rank_main(const char* name, RankMain entry);

// For main(): true when this process is a re-executed rank; run_as_rank() then gives its exit code.
bool is_rank_process();
int run_as_rank();

// The exit code of a rank whose entry threw; the exception's text is on its standard error.
inline constexpr int kThrewExitCode = 70;

struct RankEnding {
  int exit_code = 0;
  int signal = 0;
};

struct RankResult : ProgramResult {
  int rank = -1;
  RankEnding expected;
  // It ended in the expected way, and by itself.
  bool ok() const;
};

struct RankProcessOptions {
  Seconds deadline{0};                      // from start(); 0: see ranks_deadline
  std::vector<std::string> env = {};        // on top of ours: "NAME=value" sets, "NAME" removes
  std::map<int, RankEnding> expected = {};  // by rank; exit code 0 for those not named
};

class RankProcesses {
 public:
  RankProcesses(std::string entry, int world, RankProcessOptions options = {});
  ~RankProcesses();  // kills whoever still runs
  RankProcesses(const RankProcesses&) = delete;
  RankProcesses& operator=(const RankProcesses&) = delete;

  void start();
  // False when the rank has ended already.
  bool signal(int rank, int sig);
  pid_t pid(int rank) const;
  // Until all have ended, or the deadline. In order of rank.
  std::vector<RankResult> wait();

  // The parent's view of the ranks' folder and store. It is no rank: no barrier() here.
  const std::filesystem::path& dir() const { return dir_.path(); }
  FileStore& store() { return store_; }

 private:
  std::vector<std::string> environment_of(int rank) const;
  void mind();

  const std::string entry_;
  const int world_;
  const RankProcessOptions options_;
  const Seconds limit_;
  TempDir dir_;
  FileStore store_;
  Children children_;
  Pipe stop_;  // closing the write end tells the minder to kill them
  std::thread minder_;
  std::exception_ptr minder_failure_;  // read after joining it
};

std::vector<RankResult> run_ranks_as_processes(const std::string& entry, int world, RankProcessOptions options = {});

// A GoogleTest failure at the caller's line, with the output of every rank that did not end as expected.
void expect_all_ok(const std::vector<RankResult>& results,
                   std::source_location where = std::source_location::current());

}  // namespace weft::test

#define WEFT_RANK_MAIN(name)                                            \
  static int weft_rank_main_##name(::weft::test::RankSelf& self);       \
  [[maybe_unused]] static const bool weft_rank_main_registered_##name = \
      ::weft::test::register_rank_main(#name, &weft_rank_main_##name);  \
  static int weft_rank_main_##name([[maybe_unused]] ::weft::test::RankSelf& self)
