// Tensors to and from safetensors files, the container of everything we write, so that any Python user can open it.
//
// Writing publishes: the file appears whole under its name or not at all, and is on the disk when the call returns. The metadata
// gets "weft.xxh3_128", the hash of all tensor bytes; reading checks it where it is there. Failure: Error naming the file; for
// a damaged one it says which check failed. Threads: none of its own; one call per path at a time.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "weft/base/env.h"
#include "weft/checkpoint/safetensors_header.h"

namespace weft::checkpoint {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

struct TensorFile {
  std::map<std::string, at::Tensor> tensors;  // on the CPU, owning their memory
  std::map<std::string, std::string> metadata;
};

// A tensor that is yet to come.
struct TensorSpec {
  std::string name;
  at::ScalarType type = at::kFloat;
  std::vector<int64_t> shape;
};

// Into a new file, one tensor after the other: `tensor(i)` is asked for once each, in order, and what it gives is not kept. Makes
// nothing durable. Requires: names are unique.
void stream_safetensors(File& file, const std::vector<TensorSpec>& specs,
                        const std::function<at::Tensor(size_t number)>& tensor,
                        const std::map<std::string, std::string>& metadata = {});

// Tensors on any device; each is copied to the CPU and made contiguous one at a time. Requires: names are unique.
void write_safetensors(Env& env, const std::string& path, const NamedTensors& tensors,
                       const std::map<std::string, std::string>& metadata = {});

TensorFile read_safetensors(Env& env, const std::string& path);

// Copies values into the tensors of the same name. Throws Error(kInput) that lists every name or shape that does not match.
void load_into(const TensorFile& file, const NamedTensors& targets, const std::string& path);

}  // namespace weft::checkpoint
