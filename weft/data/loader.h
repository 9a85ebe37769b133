// Batches of one rank, read ahead by threads, in the sampler's order whatever the threads do.
//
//   Loader loader(dataset, DistributedSampler({.num_samples = dataset->size(), .rank = r, .world = w}),
//                 {.micro_batch = 8, .num_threads = 2});
//   for (int64_t epoch = 0; epoch < 3; ++epoch) {
//     loader.set_epoch(epoch);
//     for (const Batch& batch : loader) train(batch.data, batch.target);
//   }
//
// The threads of an epoch start with its first batch. state() counts what next() has handed out, not what was read ahead, so
// a resumed run goes on with the batch after the last one it saw. All ranks get equally many batches of equal sizes.
//
// Ownership: keeps the dataset alive; the destructor, at any time, joins the threads. Threads: one consumer; the dataset is
// read from several. Failure: what reading a batch throws comes out of the next() concerned, as a SampleError; the batch
// counts as taken (the other ranks have taken theirs), so going on skips it. Error(kInput) on impossible options.
#pragma once

#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>

#include "weft/data/dataset.h"
#include "weft/data/prefetch.h"
#include "weft/data/sampler.h"

namespace weft::data {

struct Batch {
  at::Tensor data;    // the first tensor
  at::Tensor target;  // the second; undefined where there is but one
  Tensors tensors;    // all of them, in the dataset's order
};

struct LoaderOptions {
  int64_t micro_batch = 1;    // samples in a batch
  bool drop_partial = false;  // the epoch's last batch is left out where it is not full
  int64_t num_threads = 1;    // 0: batches are read in the caller's thread, when asked for
  int64_t depth = 2;          // batches finished or under way, at most
};

class Loader {
 public:
  template <typename D>
  Loader(const std::shared_ptr<D>& dataset, DistributedSampler sampler, const LoaderOptions& options)
      : Loader(batch_reader(std::shared_ptr<const D>(dataset)), dataset->size(), std::move(sampler), options) {}
  ~Loader() = default;
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // The next batch, or nothing at the end of the epoch: then set_epoch() starts another.
  std::optional<Batch> next();
  // Batches of this epoch, or of what was left of it at resume().
  int64_t size() const;

  // At the start of `epoch`, also where it is the one under way.
  void set_epoch(int64_t epoch);
  int64_t epoch() const { return sampler_.epoch(); }
  SamplerState state() const;
  void resume(const SamplerState& state);

  class Iterator;
  // From where the epoch stands to its end. One at a time: all iterators share the loader's position.
  Iterator begin();
  std::default_sentinel_t end() const { return {}; }

 private:
  Loader(ReadBatch read, int64_t num_samples, DistributedSampler sampler, const LoaderOptions& options);

  Batch read_batch(int64_t number) const;
  int64_t samples_in_first(int64_t num_batches) const;

  ReadBatch read_;
  DistributedSampler sampler_;
  LoaderOptions options_;
  int64_t taken_ = 0;  // batches handed out
  // Last, so that its threads end before what they use.
  std::unique_ptr<Prefetcher<Batch>> prefetcher_;
};

class Loader::Iterator {
 public:
  using value_type = Batch;
  using difference_type = std::ptrdiff_t;

  explicit Iterator(Loader& loader) : loader_(&loader), batch_(loader.next()) {}
  Batch& operator*() { return *batch_; }
  Iterator& operator++() {
    batch_.reset();  // its memory can be used for a batch to come
    batch_ = loader_->next();
    return *this;
  }
  void operator++(int) { ++*this; }
  bool operator==(std::default_sentinel_t) const { return !batch_.has_value(); }

 private:
  Loader* loader_;
  std::optional<Batch> batch_;
};

inline Loader::Iterator Loader::begin() { return Iterator(*this); }

}  // namespace weft::data
