// A collective on device tensors, by way of host memory.
//
// Copies run on a stream of our own, one per device: out behind an event of the caller's stream, so that the collective sees
// what that stream was given before; back behind the collective, and whoever waits makes its stream wait for that. No device
// is ever synchronised as a whole. Written against c10's generic streams and events: no CUDA header, no CUDA build needed.
//
// Ownership: holds the tensors and the pinned copies until it goes; torch's allocators know which stream still uses them.
// Threads: the constructor and order_current_stream() on the caller's, landed() on any, the rest on the thread that runs the collective.
#pragma once

#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include "weft/comm/collective.h"

namespace weft::comm {

class StagedCall {
 public:
  // Starts the copies out.
  explicit StagedCall(const Collective& call);

  // The same call on host tensors.
  const Collective& host() const { return host_; }
  // Blocks this thread until the inputs are in host memory.
  void wait_copied_out();
  // Starts the copy of the result to where it belongs.
  void copy_back();
  // Whatever the current stream is given from here on sees the result.
  void order_current_stream();
  // Requires: copy_back().
  bool landed() const;

 private:
  at::Tensor copy_out(const at::Tensor& device);

  Collective device_, host_;
  c10::Stream stream_;
  c10::Event copied_out_, copied_back_;
};

}  // namespace weft::comm
