// Our calls in NCCL's terms: which of c10d's operations makes each, and what is left to plain messages.
//
// Threads: one at a time, on the group's device. Failure: c10d's exceptions.
#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
#include <vector>

#include "weft/comm/collective.h"

namespace weft::comm {

using NcclPtr = c10::intrusive_ptr<c10d::ProcessGroupNCCL>;
using WorkPtr = c10::intrusive_ptr<c10d::Work>;

class NcclCalls {
 public:
  NcclCalls(NcclPtr nccl, c10::Device device);

  // Nothing when NCCL has nothing to do; the current stream may then have been given a copy.
  WorkPtr start(const Collective& call);

 private:
  using Tensors = std::vector<at::Tensor>;

  int rank() const { return nccl_->getRank(); }
  int world() const { return nccl_->getSize(); }

  WorkPtr all_reduce(const at::Tensor& data, ReduceOp op);
  WorkPtr reduce(const Collective& call);
  WorkPtr broadcast(const Collective& call);
  WorkPtr reduce_scatter(const Collective& call);
  WorkPtr all_gather(const Collective& call);
  WorkPtr all_to_all(const Collective& call);
  WorkPtr gather(const Collective& call);
  WorkPtr scatter(const Collective& call);
  WorkPtr message(const at::Tensor& data, bool is_send, int peer);
  // What goes to each rank and what comes from it; undefined or empty: nothing. Our own part is copied on the current
  // stream, behind which NCCL's stream goes.
  WorkPtr exchange(const Tensors& out, const Tensors& in);
  bool has_bytes_for_others(const Tensors& parts) const;

  const NcclPtr nccl_;
  const at::Tensor token_;  // for barriers
};

}  // namespace weft::comm
