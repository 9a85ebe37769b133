// Reads a saved step from end to end and says what is wrong with it.
//
// Threads: free functions over an Env; one block in memory. Failure: damage is the result; only bad_alloc is thrown.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "weft/base/env.h"
#include "weft/base/error.h"
#include "weft/checkpoint/manifest.h"
#include "weft/checkpoint/store.h"

namespace weft::checkpoint {

// Called after each block.
using VerifyProgress = std::function<void(uint64_t done_bytes, uint64_t total_bytes)>;

// Every block of every file against its hash, and every file's safetensors header against the manifest. One Error for each
// thing that is wrong, naming file, block and tensor.
std::vector<Error> verify_files(Env& env, const std::string& folder, const Manifest& manifest,
                                const VerifyProgress& progress = {});

// The manifest too.
std::vector<Error> verify_step(Env& env, const StepPlace& place, const VerifyProgress& progress = {});

}  // namespace weft::checkpoint
