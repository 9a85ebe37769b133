// Reads elements of a saved step's tensors, whatever ranks wrote them: any range of any tensor, by any number of ranks. Only
// the blocks that hold the asked elements are read, and each is compared with its hash before a byte of it is handed out.
//
//   StepReader reader(env, found.folder, found.manifest);
//   reader.read("wte", begin, end, std::as_writable_bytes(std::span(slice)));
//
// Ownership: keeps the files it has read from open, and a few blocks in memory. Threads: one reader per thread.
// Failure: Error(kInput) for a tensor or range that is not there, and for damage, naming file, block and tensor; IoError.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "weft/base/env.h"
#include "weft/checkpoint/block_stream.h"
#include "weft/checkpoint/manifest.h"

namespace weft::checkpoint {

// Bytes of one file that belong at one place of what was asked for.
struct PlannedRead {
  std::string file = {};
  uint64_t offset = 0;  // bytes from the start of the file
  uint64_t bytes = 0;
  uint64_t into = 0;  // bytes from the start of the asked range
  bool operator==(const PlannedRead&) const = default;
};

class StepReader {
 public:
  // `folder` is the step's; the manifest is that folder's, and checked.
  StepReader(Env& env, std::string folder, Manifest manifest);
  ~StepReader();
  StepReader(const StepReader&) = delete;
  StepReader& operator=(const StepReader&) = delete;

  const Manifest& manifest() const { return manifest_; }

  // What must be read for elements [begin, end), in their order.
  std::vector<PlannedRead> plan_reads(std::string_view tensor, uint64_t begin, uint64_t end) const;
  // Requires: `into` is exactly as large as those elements.
  void read(std::string_view tensor, uint64_t begin, uint64_t end, std::span<std::byte> into);

  // Bytes taken from the disk so far, whole blocks.
  uint64_t bytes_read() const { return stream_.bytes_read(); }

 private:
  struct Source;  // one file: open once it was needed
  struct Place {
    size_t source = 0;
    const StoredSlice* slice = nullptr;
  };

  const StoredTensor& tensor_of(std::string_view name, uint64_t begin, uint64_t end) const;
  void read_piece(Source& source, uint64_t offset, std::span<std::byte> into);

  Env& env_;
  std::string folder_;
  Manifest manifest_;
  std::map<std::string_view, std::vector<Place>> places_;  // by tensor, in the order of elements; views into manifest_
  std::vector<Source> sources_;
  BlockStream stream_;  // after the files it reads from
};

}  // namespace weft::checkpoint
