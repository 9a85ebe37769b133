#include "weft/data/sampler.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/randperm.h>

#include <limits>

#include "weft/base/check.h"
#include "weft/base/error.h"
#include "weft/base/text.h"

namespace weft::data {
namespace {

SamplerOptions checked(const SamplerOptions& options) {
  check(options);
  return options;
}

// The same draws whatever the type of the result, so the narrow one gives the same order in half the memory.
at::Tensor shuffled_order(int64_t num_samples, uint64_t seed) {
  const bool narrow = num_samples <= std::numeric_limits<int32_t>::max();
  return at::randperm(num_samples, at::Generator(at::detail::createCPUGenerator(seed)), narrow ? at::kInt : at::kLong);
}

}  // namespace

DistributedSampler::DistributedSampler(const SamplerOptions& options) : options_(checked(options)), places_(options) {
  reorder();
}

void DistributedSampler::set_epoch(int64_t epoch) {
  if (epoch < 0) {
    throw Error(ErrorKind::kInput, {.title = "there is no such epoch",
                                    .what = cat("the epoch is ", epoch, ", 0 is the first"),
                                    .where = cat("rank ", options_.rank, " of ", options_.world),
                                    .fix = "count epochs from 0"});
  }
  places_ = ShardPlaces(options_);
  if (epoch == epoch_) return;
  epoch_ = epoch;
  reorder();
}

int64_t DistributedSampler::at(int64_t i) const {
  WEFT_CHECK(i >= 0 && i < size());
  const int64_t place = places_.at(i);
  if (!order_.defined()) return place;
  return order_.scalar_type() == at::kInt ? order_.const_data_ptr<int32_t>()[place]
                                          : order_.const_data_ptr<int64_t>()[place];
}

SamplerState DistributedSampler::state(int64_t taken) const {
  WEFT_CHECK(taken >= 0 && taken <= size());
  return {.epoch = epoch_,
          .consumed = places_.consumed_after(taken),
          .num_samples = options_.num_samples,
          .seed = options_.seed,
          .shuffle = options_.shuffle};
}

void DistributedSampler::resume(const SamplerState& state) {
  check(state, options_);
  set_epoch(state.epoch);
  places_ = ShardPlaces(options_, state.consumed);
}

void DistributedSampler::reorder() {
  if (!options_.shuffle) return;
  order_ = at::Tensor();  // the old one first: two would stand in memory at once
  // Neither is negative, so their sum fits.
  order_ = shuffled_order(options_.num_samples, static_cast<uint64_t>(options_.seed) + static_cast<uint64_t>(epoch_));
}

}  // namespace weft::data
