#include "weft/data/loader.h"

#include <c10/core/GradMode.h>

#include <algorithm>
#include <vector>

#include "weft/base/error.h"
#include "weft/base/text.h"

namespace weft::data {
namespace {

PrefetchOptions prefetch_of(const LoaderOptions& options) {
  return {.num_threads = options.num_threads, .depth = options.depth};
}

void check_options(const LoaderOptions& options, int64_t num_samples, const SamplerOptions& sampler) {
  check(prefetch_of(options));
  if (options.micro_batch < 1) {
    throw Error(ErrorKind::kInput, {.title = "batches cannot be made like this",
                                    .what = cat("the micro-batch is ", options.micro_batch, ", 1 is the least"),
                                    .where = "the loader's options",
                                    .fix = "set micro_batch to the samples one rank takes at once"});
  }
  if (num_samples != sampler.num_samples) {
    throw Error(ErrorKind::kInput,
                {.title = "the sampler was made for another dataset",
                 .what = cat("the dataset has ", num_samples, " samples, the sampler deals out ", sampler.num_samples),
                 .where = cat("rank ", sampler.rank, " of ", sampler.world),
                 .fix = "make the sampler with num_samples = dataset.size()"});
  }
  const int64_t samples = ShardPlaces(sampler).size();
  if (options.drop_partial && samples < options.micro_batch) {
    throw Error(ErrorKind::kInput, {.title = "no epoch has a full batch",
                                    .what = cat("a rank takes ", samples, " samples an epoch, the micro-batch is ",
                                                options.micro_batch, ", and partial batches are left out"),
                                    .where = cat("rank ", sampler.rank, " of ", sampler.world),
                                    .fix = "turn drop_partial off, or make micro_batch smaller"});
  }
}

Batch as_batch(Tensors tensors) {
  Batch batch;
  if (!tensors.empty()) batch.data = tensors[0];
  if (tensors.size() > 1) batch.target = tensors[1];
  batch.tensors = std::move(tensors);
  return batch;
}

}  // namespace

Loader::Loader(ReadBatch read, int64_t num_samples, DistributedSampler sampler, const LoaderOptions& options)
    : read_(std::move(read)), sampler_(std::move(sampler)), options_(options) {
  check_options(options, num_samples, sampler_.options());
}

int64_t Loader::size() const {
  const int64_t full = sampler_.size() / options_.micro_batch;
  const bool partial = sampler_.size() % options_.micro_batch != 0;
  return full + (partial && !options_.drop_partial ? 1 : 0);
}

int64_t Loader::samples_in_first(int64_t num_batches) const {
  // The left-out part of an epoch counts as taken with its last batch, so that resuming there finds the epoch at its end.
  return num_batches == size() ? sampler_.size() : num_batches * options_.micro_batch;
}

Batch Loader::read_batch(int64_t number) const {
  // As in a thread of the prefetcher, so in the caller's: a batch has no history.
  const c10::NoGradGuard no_grad;
  std::vector<int64_t> indices;
  for (int64_t i = samples_in_first(number); i < std::min((number + 1) * options_.micro_batch, sampler_.size()); ++i) {
    indices.push_back(sampler_.at(i));
  }
  return as_batch(read_(indices));
}

std::optional<Batch> Loader::next() {
  if (!prefetcher_) {
    prefetcher_ = std::make_unique<Prefetcher<Batch>>(
        size() - taken_, prefetch_of(options_), [this, first = taken_](int64_t i) { return read_batch(first + i); });
  }
  if (taken_ < size()) ++taken_;  // before what may throw: a batch that cannot be read counts
  return prefetcher_->next();
}

void Loader::set_epoch(int64_t epoch) {
  prefetcher_.reset();  // its threads read the sampler
  sampler_.set_epoch(epoch);
  taken_ = 0;
}

SamplerState Loader::state() const { return sampler_.state(samples_in_first(taken_)); }

void Loader::resume(const SamplerState& state) {
  prefetcher_.reset();
  sampler_.resume(state);
  taken_ = 0;
}

}  // namespace weft::data
