#include "weft/engine/loading.h"

namespace weft::engine {

data::SamplerOptions sampler_options(const Engine& engine, const LoadOptions& options, int64_t num_samples) {
  return {.num_samples = num_samples,
          .rank = engine.world().rank,
          .world = engine.world().size,
          .seed = options.seed,
          .shuffle = options.shuffle,
          .drop_last = options.drop_last};
}

data::LoaderOptions loader_options(const Engine& engine, const LoadOptions& options) {
  const config::Resolved& config = engine.config();
  return {.micro_batch = config.train_micro_batch_size_per_gpu,
          .drop_partial = options.drop_partial.value_or(config.dataloader_drop_last),
          .num_threads = options.num_threads,
          .depth = options.depth};
}

data::DistributedSampler sampler_at(const data::SamplerOptions& sampler, const LoadOptions& options) {
  data::DistributedSampler out(sampler);
  if (options.resume) {
    out.resume(*options.resume);
  } else {
    out.set_epoch(options.epoch);
  }
  return out;
}

}  // namespace weft::engine
