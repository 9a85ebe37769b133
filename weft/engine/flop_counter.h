// Counts the floating-point operations of what runs: torch tells of every operator (as it tells the gate), and for those that multiply
// matrices the shapes say how many there are.
//
//   FlopCounter counter;
//   ... forward, backward ...
//   FlopCount count = counter.end();          // count.total
//
//   FlopCounter counter(&model);              // and by module (module_flops.h)
//
// A multiplication and an addition are two (operator_flops.h). Counted are matrix products, attention, convolutions and recurrent
// layers, forward and backward; the rest of a network is memory traffic. Attention counts as if nothing were masked, and its
// backward as twice its forward: what a kernel computes again inside itself is not counted, what the program computes again
// (activation checkpointing) is. What autograd runs counts as soon as it is run: end() after backward.
//
// While one lives every operator costs about a microsecond more, by module a few: for a step now and then. Threads: operators of any
// thread are counted; at most one counter at a time, made and ended by one thread. Failure: Error(kBug) for a second one.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace weft::engine {

struct ModelTensors;

struct FlopParts {
  int64_t forward = 0;
  int64_t recomputed = 0;  // of forward, in backward once more
  int64_t backward = 0;
  int64_t elapsed_ns = 0;  // in the operators that were counted; on a device only what it takes to start them

  int64_t total() const { return forward + recomputed + backward; }
  FlopParts& operator+=(const FlopParts& other) {
    forward += other.forward, recomputed += other.recomputed, backward += other.backward;
    elapsed_ns += other.elapsed_ns;
    return *this;
  }
};

// A module with all that is in it.
struct ModuleRow {
  std::string name = {},
              type = {};  // "block0.qkv", "Linear"; of the model itself the name is ""; a type that is not known too
  int parent = -1;        // row
  int depth = 0;
  int64_t num_parameters = 0;  // elements, tied ones once
  FlopParts flops = {};
};

struct FlopCount {
  int64_t total = 0;
  std::map<std::string, int64_t> by_operator = {};  // "aten::mm"
  std::map<std::string, int64_t> calls = {};        // of those operators
  // The model itself first, each before those in it; empty where modules were not asked for. The model and elsewhere add up to the total.
  std::vector<ModuleRow> modules = {};
  FlopParts elsewhere = {};  // of no module: products of an optimizer
};

class FlopCounter {
 public:
  FlopCounter();
  // By the modules of a model as well, with its parameters where they lie now; null: not.
  explicit FlopCounter(const ModelTensors* model);
  ~FlopCounter();
  FlopCounter(const FlopCounter&) = delete;
  FlopCounter& operator=(const FlopCounter&) = delete;

  // Later operators are not counted.
  FlopCount end();

 private:
  uint64_t handle_ = 0, node_handle_ = 0;  // 0: ended, and not by module
};

}  // namespace weft::engine
