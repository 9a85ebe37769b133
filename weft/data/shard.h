// Which samples of an epoch belong to which rank: the arithmetic of the sampler, without the shuffling.
//
// An epoch is a row of places. Place g holds sample order[g mod N], where order is the epoch's shuffled (or plain) order, so
// that places past N repeat the epoch from its start: that is the padding. The ranks deal the places out in turn: rank r of w
// takes places begin + r, begin + r + w, ..., up to `end`. Everything is a function of the options and of how many places
// were consumed before, so a resumed epoch, also with another world, needs no more than that one number.
//
// Threads: values, any thread. Failure: Error(kInput) that lists everything wrong with the options.
#pragma once

#include <cstdint>

namespace weft::data {

struct SamplerOptions {
  int64_t num_samples = 0;  // of the dataset
  int64_t rank = 0;
  int64_t world = 1;
  int64_t seed = 0;
  bool shuffle = true;
  // Where the world does not divide the samples: leave the last ones out, or repeat the first ones so that no rank runs short.
  bool drop_last = false;
};

// Where a run stands. The same on every rank between two steps, and without the world: it may be resumed with another.
// On-disk: saved with training state; a field that is added needs a default that keeps old states readable.
struct SamplerState {
  int64_t epoch = 0;
  int64_t consumed = 0;  // places taken this epoch, by all ranks together
  // What the order depends on. A state for another order would repeat samples and miss others without a word.
  int64_t num_samples = 0;
  int64_t seed = 0;
  bool shuffle = true;

  bool operator==(const SamplerState&) const = default;
};

// Throws unless the options make sense.
void check(const SamplerOptions& options);
// Throws unless the state was saved with the same dataset size, seed and shuffle, and its numbers are possible.
void check(const SamplerState& state, const SamplerOptions& options);

// One rank's part of an epoch, or of what is left of it after `consumed` places.
class ShardPlaces {
 public:
  // Requires: check(options) passes, consumed >= 0.
  explicit ShardPlaces(const SamplerOptions& options, int64_t consumed = 0);

  // Places this rank takes; the same on every rank.
  int64_t size() const { return (end_ - begin_) / world_; }
  // The i-th place of this rank, as a position in the epoch's order. Requires: 0 <= i < size().
  int64_t at(int64_t i) const { return (begin_ + i * world_ + rank_) % num_samples_; }
  // Places consumed by all ranks once each has taken `taken` of its own.
  int64_t consumed_after(int64_t taken) const { return begin_ + taken * world_; }

 private:
  int64_t num_samples_;
  int64_t rank_;
  int64_t world_;
  int64_t begin_;  // place
  int64_t end_;    // place; begin_ plus a multiple of the world
};

}  // namespace weft::data
