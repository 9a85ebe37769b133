// Sends gradients as int8 (int8_blocks.h): every rank rounds its bucket slice by slice, all-to-all brings each slice to
// its owner, and the owner adds them up in rank order in fp32. About a quarter of the bytes of fp32.
//
//   work = group.start(compression.pack(b, gradients));
//   ...
//   work.wait();
//   compression.unpack(b, slice_of(gradients), ReduceOp::kMean);
//
// What rounding left over is kept by bucket, in fp32, and goes with the next reduction of it. It belongs to a layout: a
// new one begins with nothing left over.
//
// Ownership: owns what travels and what is left over. Threads: one at a time; a bucket is unpacked before it is packed
// again. Failure: none of its own.
#pragma once

#include <vector>

#include "weft/comm/collective.h"

namespace weft::engine {

class Compression {
 public:
  Compression(int world, int num_buckets);

  // Any floating type, on the CPU. Requires: equal sizes each time, slices of a multiple of 4.
  comm::Collective pack(int bucket, const at::Tensor& gradients);
  // Into this rank's slice. Sum or mean.
  void unpack(int bucket, const at::Tensor& slice, comm::ReduceOp op);

 private:
  struct Bucket {
    at::Tensor errors;          // fp32, by element
    at::Tensor sent, received;  // bytes: a slice for each rank, a slice from each
  };
  Bucket& bucket_for(int bucket, int64_t num_elements);
  // The same memory each time.
  at::Tensor in_fp32(int64_t num_elements);

  const int world_;
  std::vector<Bucket> buckets_;
  at::Tensor wide_;  // where gradients are narrower: one bucket in fp32
};

}  // namespace weft::engine
