// A long run of work in blocks, shared by the threads of OpenMP, which are torch's: one set of threads in a process, as many as
// OMP_NUM_THREADS says, or at::set_num_threads() where the calling thread has asked torch for anything before. A target of its own,
// base_threads, so that only who shares work links OpenMP.
//
// Any thread; from one that is itself at work in such a run, all blocks are its own.
#pragma once

#include <cstddef>
#include <functional>

namespace weft {

// Calls body(first, size) for each block of `block` elements of [0, count). The blocks do not depend on how many threads there are.
// Requires: body does not throw.
void for_blocks(size_t count, size_t block, const std::function<void(size_t first, size_t size)>& body);

}  // namespace weft
