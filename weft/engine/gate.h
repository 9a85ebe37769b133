// The gate: tells when an operator is about to read a parameter, so that one which is still on its way can be waited for, and one
// that is not there can be brought.
//
// The storage is the identity: views, tied weights, parameters used outside of their module and those that autograd saved all come
// out right, because they share it. Nothing is wrapped and no user code is changed. While a gate is open it costs nothing.
//
//   Gate gate({flat_0, flat_1}, {.touched = [&](const Touch& touch) { works[touch.number].wait(); }});
//   ... start what fills them ...
//   gate.close();              // from here on the first touch of each calls back, before the operator runs; later ones until it is settled
//   gate.open();               // and from here on none does; so too when all have been touched
//
// With `passed`, every touch calls back, not only the first, and once more when the operator has ended.
//
// Memory that is read without an operator (data_ptr()) is not seen. Threads: operators of any thread are seen, and the callbacks run on
// theirs, one at a time; close() and open() from the owner's. Threads of transports run none that is seen. Failure: what
// a callback throws (a std::exception) cannot come out of an operator; it is logged, and rethrow() throws it later.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <vector>

namespace weft::engine {

struct GateTouch {
  int number = 0;         // of the flat tensor
  bool is_first = true;   // that this operator touches
  const char* name = "";  // of the operator
};

struct GateCalls {
  std::function<void(const GateTouch& touch)> touched;
  // `writes`: the operator has written to it.
  std::function<void(int number, bool writes)> passed = {};
  // Asked after `touched`: whether touches of this number may go unseen from here on; none: yes.
  std::function<bool(int number)> settled = {};
};

class Gate {
 public:
  // Requires: a storage for each.
  Gate(const std::vector<at::Tensor>& flats, GateCalls calls);
  ~Gate();
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  void close();
  void open();
  void rethrow();

 private:
  class Door;
  friend class ClosedDoors;
  const std::shared_ptr<Door> door_;
};

}  // namespace weft::engine
