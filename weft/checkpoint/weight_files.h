// A model's weights as they lie in files, read part by part: only what is asked for is read. The files are safetensors, or what
// torch.save wrote of a state_dict() (pytorch_model.bin), of which nothing is run.
//
//   WeightFiles files(Env::posix(), "llama/");                     // a file, an index, or a folder that has one of them
//   files.find("h.0.weight");                                      // its type and shape; null: not there
//   files.read("h.0.weight", 128, bytes);                          // its elements from 128 on, in the file's own type
//
// Opening reads the headers, and refuses what safetensors_header.h, foreign/torch_file.h and model_files.h refuse, and an index that does
// not say what the files have. Bytes are not checked against a hash: that would take reading all of them. Torch-free. Threads: one at a
// time. Failure: Error(kInput) naming the file; IoError.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "weft/base/env.h"
#include "weft/checkpoint/foreign/torch_file.h"
#include "weft/checkpoint/manifest.h"

namespace weft::checkpoint {

class WeightFiles {
 public:
  WeightFiles(Env& env, const std::string& path);

  const std::string& path() const { return path_; }
  std::vector<std::string> names() const;
  const StoredTensor* find(const std::string& name) const;
  // Elements [first, ...), as many as `into` takes. Requires: the name is there, and so are the elements.
  void read(const std::string& name, uint64_t first, std::span<std::byte> into);
  // Of tensors, so far.
  int64_t read_bytes() const { return read_bytes_; }

  // Names of a tensor that has another name before it in the file: that other name, by name.
  const std::map<std::string, std::string>& tied() const { return tied_; }
  // What torch.save's files hold beside tensors.
  const std::vector<std::string>& others() const { return others_; }
  bool has_pickles() const { return !torch_files_.empty(); }

 private:
  struct Place {
    StoredTensor tensor;
    std::string path;
    File* file = nullptr;  // of safetensors
    uint64_t begin = 0;    // bytes from the start of it
    foreign::TorchFile* torch_file = nullptr;
    foreign::TorchTensor torch_tensor = {};
  };
  void add(Env& env, const std::string& path);
  void add_safetensors(Env& env, const std::string& path);
  void add_pickle(Env& env, const std::string& path);
  void add_indexed(Env& env, const std::string& index_path);
  void add_place(const std::string& name, Place place);

  std::string path_;
  std::vector<std::unique_ptr<File>> files_;
  std::vector<std::unique_ptr<foreign::TorchFile>> torch_files_;
  std::map<std::string, Place> places_;
  std::map<std::string, std::string> tied_;
  std::vector<std::string> others_;
  int64_t read_bytes_ = 0;
};

}  // namespace weft::checkpoint
