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

// Reads a block and compares its hash. Requires: `into` is exactly as large as the block.
void read_block(File& file, const StoredFile& stored, uint64_t block, std::span<std::byte> into);

}  // namespace weft::checkpoint
