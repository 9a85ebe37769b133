// A file that torch.save wrote: its values (pickle.h), and its tensors by range. Opening reads the directory and data.pkl; bytes of
// tensors are read when they are asked for. No Python, no torch, and nothing in the file is run.
//
//   TorchFile file(Env::posix(), "pytorch_model.bin");
//   const auto tensor = file.tensor(*file.root().find("wte.weight"));   // nothing: it is no tensor
//   file.read(*tensor, 128, bytes);                                     // its elements from 128 on, in row-major order
//
// Views, shared storages and strides come out as they are in Python. A tensor whose elements would lie outside of its storage, or whose
// storage is not in the file at its full size, is refused.
//
// Ownership: owns the open file and the values. Threads: one at a time. Failure: Error(kInput) naming file, byte and global; IoError.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "weft/base/env.h"
#include "weft/checkpoint/foreign/pickle.h"

namespace weft::checkpoint::foreign {

struct TorchTensor {
  std::string dtype = {};  // as safetensors spells it; "" where it has no word for it, and then nothing can be read
  uint64_t width = 0;      // bytes of an element
  std::vector<int64_t> shape = {}, strides = {};
  uint64_t storage_offset = 0;  // bytes from the start of the file
  uint64_t first = 0;           // element of the storage
  bool operator==(const TorchTensor&) const = default;

  uint64_t num_elements() const;
  bool is_contiguous() const;
};

class TorchFile {
 public:
  TorchFile(Env& env, const std::string& path);

  const std::string& path() const { return file_->path(); }
  const Value& root() const { return pickle_->root(); }
  // `name` is for messages.
  std::optional<TorchTensor> tensor(const Value& value, const std::string& name) const;
  // Elements [first, ...) of a tensor of this file, as many as `into` takes. Requires: they are there, and its dtype is known.
  void read(const TorchTensor& tensor, uint64_t first, std::span<std::byte> into);
  // Requires: it has one, and its dtype is known.
  std::vector<std::byte> first_element(const TorchTensor& tensor) const;

 private:
  struct Stored {
    uint64_t offset = 0, bytes = 0;
  };
  void open_container();
  TorchTensor tensor_of(const Value& args, const Value* dtype, const std::string& name) const;
  void read_bytes(uint64_t offset, std::span<std::byte> into) const;
  void gather(const TorchTensor& tensor, uint64_t first, std::span<std::byte> into);
  void load_window(uint64_t begin, uint64_t bytes);

  std::unique_ptr<File> file_;
  std::map<std::string, Stored, std::less<>> storages_;  // by key
  std::unique_ptr<Pickle> pickle_;
  std::vector<std::byte> window_;  // of a tensor with strides: all that it spans, or a page of it
  uint64_t window_begin_ = 0;
};

// The shape that a value says: torch.Size, or a list or tuple of sizes.
std::optional<std::vector<int64_t>> shape_in(const Value& value);
// Elements of such a shape; nothing where they are too many for 63 bits of bytes.
std::optional<uint64_t> num_elements_of(const std::vector<int64_t>& shape);

}  // namespace weft::checkpoint::foreign
