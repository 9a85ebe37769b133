// Reads and writes past the page cache: what is written once and read once, a gigabyte at a time, would only push out of it what
// the training reads, at the cost of a copy and of clearing the pages.
//
// Threads: free functions. Failure: none but bad_alloc; where a file system has no direct reads and writes, as tmpfs, it is said so.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace weft::checkpoint {

constexpr size_t kDirectAlignment = 4096;  // of memory, offset and length; no disk asks for more

using AlignedBytes = std::unique_ptr<std::byte[], void (*)(void*)>;

// At least so many, rounded up to whole units of the alignment.
AlignedBytes aligned_bytes(uint64_t count);
uint64_t rounded_up(uint64_t count);

// Whether the file is now as asked. Some file systems take this and refuse the first read or write with EINVAL.
bool set_direct(int fd, bool on);

}  // namespace weft::checkpoint
