// Parts of live tensors, on any device, to and from a saved step: named shards in, named shards out. Who has which part is the
// caller's affair; the store knows only names and ranges.
//
//   HostCopy copy;
//   copy.take(slices);                                            // training may go on when it returns
//   save_step(env, store, request_with(to_save(slices)), [&](auto& writer) { copy.write_to(writer); });   // in any thread
//   ...
//   read_slices(reader, slices);                                  // each rank its own, re-cut from whatever ranks saved
//
// Ownership: a slice shares its tensor; a copy owns its memory, as much as it copied, and keeps it for the next time. Threads: one
// at a time. Failure: Error(kInput) for tensors the store does not have or in another shape, for dtypes it cannot hold, and
// for damage; IoError.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "weft/checkpoint/step_reader.h"
#include "weft/checkpoint/store_writer.h"

namespace weft::checkpoint {

struct LiveSlice {
  std::string tensor = {};          // its name in the store
  std::vector<int64_t> shape = {};  // of the whole tensor
  int64_t begin = 0;                // of the values, in the whole tensor taken as flat
  at::Tensor values = {};           // one dimension, contiguous; or the whole tensor as it is
};

std::vector<SliceToSave> to_save(const std::vector<LiveSlice>& slices);
uint64_t total_bytes(const std::vector<LiveSlice>& slices);

class HostCopy {
 public:
  // Copies into memory of its own, page-locked where the values are on a device: there the copies are only ordered behind what
  // the current stream has been given, and write_to() waits for them.
  void take(const std::vector<LiveSlice>& slices);
  // In the order of take(). Requires: the writer was made for these slices.
  void write_to(RankFileWriter& writer);

 private:
  at::Tensor memory_;  // bytes; grows, never shrinks
  std::vector<at::Tensor> copies_;
  std::optional<c10::Event> copied_;
};

// Fills the slices' values. A type may differ: values are then converted. Requires: they fit (misfits() says so).
void read_slices(StepReader& reader, const std::vector<LiveSlice>& slices);

// Every way in which what is wanted is not what the step holds: missing, of another shape, and, of tensors whose name begins with
// one of `prefixes`, left over. A line each; empty: it fits.
using Shapes = std::map<std::string, std::vector<int64_t>>;  // by the tensor's name
std::vector<std::string> misfits(const Manifest& manifest, const Shapes& wanted,
                                 const std::vector<std::string>& prefixes);

}  // namespace weft::checkpoint
