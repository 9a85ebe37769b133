// Deals the samples of a dataset out to the ranks, shuffled anew each epoch, in step on all of them without a word between
// them: the order is a function of (seed, epoch) alone. It is the order of torch.utils.data.DistributedSampler with the same
// seed, epoch, world, shuffle and drop_last, index by index. See docs/data.md.
//
//   DistributedSampler sampler({.num_samples = 1000, .rank = 0, .world = 4, .seed = 7});
//   for (int64_t i = 0; i < sampler.size(); ++i) use(sampler.at(i));
//   sampler.set_epoch(1);
//
// state() says where all ranks stand together, resume() goes on from there, also with another world: no sample that was taken
// this epoch comes again before the epoch has had every sample (padding aside), and none is left out (drop_last aside).
//
// Ownership: holds the epoch's order, 4 bytes a sample (8 from 2^31 on). Threads: at() and the other const functions from any
// while nobody calls the rest. Failure: Error(kInput) on options or a state that cannot be.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "weft/data/shard.h"

namespace weft::data {

class DistributedSampler {
 public:
  // At the start of epoch 0.
  explicit DistributedSampler(const SamplerOptions& options);

  // At the start of `epoch`, also where it is the epoch under way. Throws on a negative one.
  void set_epoch(int64_t epoch);
  int64_t epoch() const { return epoch_; }
  const SamplerOptions& options() const { return options_; }

  // Samples for this rank in this epoch, the same number on every rank; after resume(), in what was left of it.
  int64_t size() const { return places_.size(); }
  // The i-th of them: an index into the dataset. Requires: 0 <= i < size().
  int64_t at(int64_t i) const;

  // The state once every rank has taken its first `taken` samples. Requires: 0 <= taken <= size().
  SamplerState state(int64_t taken) const;
  // Goes to where the state was taken: at(0) is the first sample after it.
  void resume(const SamplerState& state);

 private:
  void reorder();

  SamplerOptions options_;
  int64_t epoch_ = 0;
  ShardPlaces places_;
  at::Tensor order_;  // int32 or int64; undefined without shuffle, where place and sample are the same
};

}  // namespace weft::data
