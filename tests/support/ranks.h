// Ranks for tests, in two gears: threads of this process (fast, torch-free or over a hash store) and processes (each
// rank re-executes the test binary). Both end at a deadline with the stacks of whoever hangs.
#pragma once

#include "tests/support/rank_processes.h"
#include "tests/support/rank_threads.h"
