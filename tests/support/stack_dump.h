// The stacks of every thread of a process, for tests that hang. eu-stack does it, gdb where there is no eu-stack; with
// neither, a process can still show its own threads through backtrace(3).
//
// Threads: one dump at a time per process is meaningful; concurrent ones are safe but mix their text. Failure: never
// throws and never hangs: a tool that takes longer than its limit is killed, and the text says so.
#pragma once

#include <sys/types.h>

#include <string>

namespace weft::test {

// Long enough to read the symbols of libtorch on a busy machine; short enough to stay below ctest's own limit.
inline constexpr int kStackDumpLimitS = 10;

// Lets any process of the same user trace this one. Without it Yama (ptrace_scope 1) refuses a tool that is our child.
void allow_stack_dumps();

// Writes a line per thread (id and name), then the stacks. Returns false when no way of reading them worked.
bool dump_stacks(pid_t pid, int fd, int limit_s = kStackDumpLimitS);

// The same as text.
std::string stacks_of(pid_t pid, int limit_s = kStackDumpLimitS);

}  // namespace weft::test
