// engine.loader(dataset): the data room's sampler and loader with the engine's world and micro-batch size.
//
//   auto loader = engine.loader(dataset, {.seed = 7, .resume = saved});  // loader.state() of a run before, or nothing
//   for (; loader.epoch() < 3; loader.set_epoch(loader.epoch() + 1)) {
//     for (auto& batch : loader) ...
//   }
//
// Apart from engine.h, which most of those who include it need without threads and queues. Ownership, threads: as
// data::Loader; the loader does not need the engine once it is made. Failure: Error(kInput) for options that cannot be,
// on every rank alike.
#pragma once

#include <memory>
#include <utility>

#include "weft/data/loader.h"
#include "weft/engine/engine.h"

namespace weft {
namespace engine {

data::SamplerOptions sampler_options(const Engine& engine, const LoadOptions& options, int64_t num_samples);
data::LoaderOptions loader_options(const Engine& engine, const LoadOptions& options);
// At the epoch of the options, or at their resume.
data::DistributedSampler sampler_at(const data::SamplerOptions& sampler, const LoadOptions& options);

}  // namespace engine

template <typename Dataset>
data::Loader Engine::loader(const std::shared_ptr<Dataset>& dataset, const LoadOptions& options) const {
  auto sampler = engine::sampler_at(engine::sampler_options(*this, options, dataset->size()), options);
  return data::Loader(dataset, std::move(sampler), engine::loader_options(*this, options));
}

}  // namespace weft
