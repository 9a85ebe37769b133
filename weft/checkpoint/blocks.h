// Blocks: the unit in which a store's files are hashed when written and checked when read.
//
// Threads: free functions; one File may be read by several threads. Failure: Error(kInput) that names file, block and tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "weft/base/env.h"
#include "weft/base/error.h"
#include "weft/checkpoint/manifest.h"

namespace weft::checkpoint {

// Reads a block and checks it. Requires: `into` is exactly as large as the block.
void read_block(File& file, const StoredFile& stored, uint64_t block, std::span<std::byte> into);

// Compares what was read of a block with its size and its hash.
void check_block(const File& file, const StoredFile& stored, uint64_t block, std::span<const std::byte> got);

}  // namespace weft::checkpoint
