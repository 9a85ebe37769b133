// A model's weights as they lie in safetensors files, read part by part: only what is asked for is read.
//
//   WeightFiles files(Env::posix(), "llama/");                     // a file, an index, or a folder that has one of them
//   files.find("h.0.weight");                                      // its type and shape; null: not there
//   files.read("h.0.weight", 128, 64);                             // 64 of its elements, in the file's own type
//
// Opening reads the headers, and refuses what safetensors_header.h and model_files.h refuse, and an index that does not say what the
// files have. Bytes are not checked against a hash: that would take reading all of them. Threads: one at a time. Failure: Error(kInput)
// naming the file; IoError.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "weft/base/env.h"
#include "weft/checkpoint/safetensors_header.h"

namespace weft::checkpoint {

class WeightFiles {
 public:
  WeightFiles(Env& env, const std::string& path);

  const std::string& path() const { return path_; }
  std::vector<std::string> names() const;
  const TensorEntry* find(const std::string& name) const;
  // Requires: the name is there, and so are the elements.
  at::Tensor read(const std::string& name, int64_t first, int64_t count);
  // Of tensors, so far.
  int64_t read_bytes() const { return read_bytes_; }

 private:
  struct Place {
    File* file = nullptr;
    uint64_t data_begin = 0;
    TensorEntry entry;
  };
  void add(Env& env, const std::string& path);
  void add_indexed(Env& env, const std::string& index_path);

  std::string path_;
  std::vector<std::unique_ptr<File>> files_;
  std::map<std::string, Place> places_;
  int64_t read_bytes_ = 0;
};

}  // namespace weft::checkpoint
