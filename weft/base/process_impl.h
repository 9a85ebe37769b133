// The part of starting a process that runs between fork and exec. Everything it needs is prepared before the fork: the
// child of a process with threads may only make async-signal-safe calls, so no allocation, no locks, no C++ library.
#pragma once

#include <sched.h>
#include <sys/types.h>

namespace weft::detail {

enum class ChildStage : int { kGroup, kCpus, kStreams, kFolder, kExec };

// What the child sends through the pipe when it cannot become the program.
struct ChildFailure {
  ChildStage stage = ChildStage::kExec;
  int code = 0;
};

struct ChildPlan {
  const char* const* programs = nullptr;  // full paths to try in turn, null at the end
  char* const* argv = nullptr;
  char* const* envp = nullptr;
  const char* cwd = nullptr;        // null: stay
  int streams[3] = {-1, -1, -1};    // -1: inherit. Requires: none below 3, so that no dup2 lands on another
  int failure_fd = -1;              // close-on-exec, so that a successful exec reads as end of file
  const cpu_set_t* cpus = nullptr;  // null: as the parent
  size_t cpus_bytes = 0;
  bool new_group = false;
  bool die_with_parent = false;
  pid_t parent = -1;
};

// Runs in the child with all signals blocked. Never returns.
[[noreturn]] void become_program(const ChildPlan& plan) noexcept;

}  // namespace weft::detail
