// `weft run --agent`, what `weft run --hosts` starts on each host: it says hello on standard output, gets a job on
// standard input, runs its ranks and reports. frames.h has the words. The ranks end with the connection.
//
// Threads: call it from the only thread of the process.
// Failure: Error(kEnvironment) when the other side does not speak our language; whatever else happens is reported to it.
#pragma once

namespace weft::launcher {

// The exit code: 0, whatever became of the ranks.
int run_agent();

}  // namespace weft::launcher
