// One call of a Group, as data: what to do, on which tensors, with whom. Wrappers, the recorder and the transports all take
// this one value, so that a new operation or a new wrapper is written once.
//
//   group.run(all_reduce(gradients, ReduceOp::kMean));           // and group.all_reduce(...) for short
//   Work work = group.start(all_gather(shard, whole));
//
// Tensors are flat runs of elements here: any shape, contiguous, not overlapping each other. Counts are elements per rank;
// left empty they mean split_evenly() of the whole. Values: copy, any thread. Failure: none; a Group checks them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "weft/comm/fabric/call.h"
#include "weft/comm/fabric/reduce_kernels.h"

namespace weft::comm {

using fabric::Operation;
using fabric::ReduceOp;

struct Collective {
  Operation operation = Operation::kBarrier;
  at::Tensor input = {}, output = {};       // the same tensor where the operation works in place
  std::vector<int64_t> input_counts = {};   // reduce_scatter, scatter, all_to_all: for each rank
  std::vector<int64_t> output_counts = {};  // all_gather, gather, all_to_all: from each rank
  ReduceOp reduce_op = ReduceOp::kSum;
  int peer = -1;             // the root, or the other end of send and recv
  int tag = 0;               // send and recv: messages of one tag arrive in order
  bool in_common = false;    // all_gather: into memory that the ranks of a host share
  std::string purpose = {};  // for whoever reads of it in a message; may be empty

  // Of the larger of the two tensors: what everyone calls the size of a collective.
  int64_t bytes() const;
  at::ScalarType dtype() const;
};

Collective all_reduce(const at::Tensor& data, ReduceOp op = ReduceOp::kSum);
// Only the root's data changes.
Collective reduce(const at::Tensor& data, int root, ReduceOp op = ReduceOp::kSum);
Collective broadcast(const at::Tensor& data, int root);
// `input` holds one part per rank; this rank gets the reduction of its own part.
Collective reduce_scatter(const at::Tensor& input, const at::Tensor& output, ReduceOp op = ReduceOp::kSum,
                          std::vector<int64_t> counts = {});
Collective all_gather(const at::Tensor& input, const at::Tensor& output, std::vector<int64_t> counts = {});
// An all_gather whose output is of Group::allocate_common(), each rank's part being in its place of it: a host takes and sends it
// once. After it all parts are there and nobody writes.
Collective gather_common(const at::Tensor& whole, int rank, int world);
Collective all_to_all(const at::Tensor& input, const at::Tensor& output, std::vector<int64_t> input_counts = {},
                      std::vector<int64_t> output_counts = {});
// `output` counts in the root only, and may be undefined elsewhere.
Collective gather(const at::Tensor& input, const at::Tensor& output, int root, std::vector<int64_t> counts = {});
// `input` counts in the root only, and may be undefined elsewhere.
Collective scatter(const at::Tensor& input, const at::Tensor& output, int root, std::vector<int64_t> counts = {});
Collective barrier();
Collective send(const at::Tensor& data, int to, int tag = 0);
Collective recv(const at::Tensor& data, int from, int tag = 0);

// `count` over `world` ranks, in order, sizes differing by one at most: the first count % world ranks have one more.
std::vector<int64_t> split_evenly(int64_t count, int world);

// Fills in the counts, and refuses what does not fit together, as an Error of kind kBug that says what was given.
void complete(Collective& call, int rank, int world);

// "all_reduce of 4194304 bytes (float, mean)", and " for ..." where it has a purpose.
std::string describe(const Collective& call);

// The fabric's name of a tensor's type; an Error for one that no transport moves.
fabric::ElementType element_type(at::ScalarType type);

}  // namespace weft::comm
