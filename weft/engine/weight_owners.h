// Which module a tensor is a weight of, by its memory: parameters lie in flat buckets, so that storage and offset together are the
// identity. Transposes, slices and tied weights come out right, because they keep it. Copies of weights (those of autocast, and what
// is computed from weights alone) are told of by whoever sees them made.
//
// Keeps no tensor's memory alive. Threads: one at a time. Failure: none.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <unordered_map>

#include "weft/engine/module_tree.h"

namespace weft::engine {

class WeightOwners {
 public:
  // As the parameters lie now: made anew when they are laid out anew.
  WeightOwners(const ModelTensors& model, const ModuleTree& tree);

  // -1: it is no weight.
  int of(const at::Tensor& tensor) const;
  void add_copy(const at::Tensor& copy, int module);

 private:
  struct Range {
    int64_t end = 0;  // bytes from the storage's start
    int module = -1;
  };
  struct Copy {
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;  // so that no other gets its address
    int module = -1;
  };

  void add(const at::Tensor& tensor, int module);

  std::unordered_map<const void*, std::map<int64_t, Range>> ranges_;  // by storage, then by first byte
  std::unordered_map<const void*, Copy> copies_;                      // by storage
};

}  // namespace weft::engine
