#include "weft/cli/front/train_config.h"

#include <nlohmann/json.hpp>

#include "weft/base/env.h"
#include "weft/base/text.h"

namespace weft::cli {
namespace {

// AdamW as torch.optim.AdamW has it; the learning rate is set step by step, after the flags.
std::string config_of_flags(const TrainOptions& o) {
  const nlohmann::json config = {
      {"train_micro_batch_size_per_gpu", o.micro_batch},
      {"gradient_accumulation_steps", o.accumulation},
      {"gradient_clipping", 0},
      {"optimizer",
       {{"type", "AdamW"}, {"params", {{"lr", o.lr}, {"betas", {0.9, 0.999}}, {"eps", 1e-8}, {"weight_decay", 0.01}}}}},
      {"zero_optimization", {{"stage", 0}, {"overlap_comm", true}}},
      {"weft", {{"bucket", "auto"}}}};
  return config.dump();
}

config::Document document_of(const TrainOptions& o) {
  if (!o.config_path.empty()) return config::load_document(Env::posix(), o.config_path);
  return config::parse_document(std::make_shared<config::Source>("flags.json", config_of_flags(o)));
}

}  // namespace

config::Reading train_reading(const TrainOptions& o, int world_size) {
  config::Facts facts = {{"world", config::int_fact(world_size, "-n")},
                         {"hidden_size", config::int_fact(o.dim, "--dim")},
                         {"learning_rate", config::real_fact(o.lr, "--lr")},
                         {"per_device_train_batch_size", config::int_fact(o.micro_batch, "--micro-batch")},
                         {"gradient_accumulation_steps", config::int_fact(o.accumulation, "--accumulation")}};
  auto reading = config::read_config(document_of(o), std::move(facts));
  config::require_usable(reading);
  if (o.save_local) reading.resolved.checkpoint.use_node_local_storage = true;
  return reading;
}

config::Resolved train_config(const TrainOptions& o, int world_size) { return train_reading(o, world_size).resolved; }

}  // namespace weft::cli
