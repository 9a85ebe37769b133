// A tensor whose elements lie in pieces of others, one after the other: a parameter in the flat groups of several ranks.
//
//   ElementRuns runs;
//   add_range(runs, {rank_0, rank_1}, 100, 64, "h.0.weight");   // elements 100 to 164 of the two laid end to end
//   runs.read(16, bytes);
//
// Ownership: shares the files. Threads: as TorchFile. Failure: Error(kInput) naming the file and the tensor; as TorchFile::read.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "weft/checkpoint/foreign/torch_file.h"

namespace weft::checkpoint::foreign {

struct FilePart {
  std::shared_ptr<TorchFile> file;
  TorchTensor tensor;
};

class ElementRuns {
 public:
  // Elements [first, first + count) of a part. Requires: they are there.
  void add(const FilePart& part, uint64_t first, uint64_t count);

  // Of the first piece; all have the same.
  const std::string& dtype() const { return runs_.front().part.tensor.dtype; }
  uint64_t width() const { return runs_.front().part.tensor.width; }
  bool empty() const { return runs_.empty(); }
  uint64_t num_elements() const { return num_elements_; }
  void read(uint64_t first, std::span<std::byte> into) const;

 private:
  struct Run {
    FilePart part;
    uint64_t first = 0, count = 0;
    uint64_t begin = 0;  // where it stands in the whole
  };
  std::vector<Run> runs_;
  uint64_t num_elements_ = 0;
};

// Elements [first, first + count) of parts that are laid end to end. `name` is for messages.
void add_range(ElementRuns& into, std::span<const FilePart> parts, uint64_t first, uint64_t count,
               const std::string& name);
uint64_t num_elements_in(std::span<const FilePart> parts);

}  // namespace weft::checkpoint::foreign
