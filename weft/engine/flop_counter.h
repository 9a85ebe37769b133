// Counts the floating-point operations of what runs: torch tells of every operator (as it tells the gate), and for those that multiply
// matrices the shapes say how many there are.
//
//   FlopCounter counter;
//   ... forward, backward ...
//   FlopCount count = counter.end();          // count.total
//
// A multiplication and an addition are two (operator_flops.h). Counted are matrix products, attention, convolutions and recurrent
// layers, forward and backward; the rest of a network is memory traffic. Attention counts as if nothing were masked, and its
// backward as twice its forward: what a kernel computes again inside itself is not counted, what the program computes again
// (activation checkpointing) is. What autograd runs counts as soon as it is run: end() after backward.
//
// While one lives every operator costs about a microsecond more: for a step now and then. Threads: operators of any
// thread are counted; at most one counter at a time, made and ended by one thread. Failure: Error(kBug) for a second one.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

namespace weft::engine {

struct FlopCount {
  int64_t total = 0;
  std::map<std::string, int64_t> by_operator = {};  // "aten::mm"
  std::map<std::string, int64_t> calls = {};        // of those operators
};

class FlopCounter {
 public:
  FlopCounter();
  ~FlopCounter();
  FlopCounter(const FlopCounter&) = delete;
  FlopCounter& operator=(const FlopCounter&) = delete;

  // Later operators are not counted.
  FlopCount end();

 private:
  uint64_t handle_ = 0;  // 0: ended
};

}  // namespace weft::engine
