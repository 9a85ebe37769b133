// What of a config the engine reads, in the engine's own terms. Pure functions, but for say_idle_settings(). Failure: Error(kInput).
#pragma once

#include <optional>
#include <vector>

#include "weft/config/reading.h"
#include "weft/config/resolved.h"
#include "weft/engine/gathering.h"
#include "weft/engine/model_tensors.h"
#include "weft/engine/reducer.h"
#include "weft/optim/core/loss_scaler.h"
#include "weft/plan/agreement.h"
#include "weft/plan/residency.h"

namespace weft::engine {

// Logs which settings of a file change nothing here, and why: each once in a process, however often the file is read. For
// one rank of a run to call.
void say_idle_settings(const config::Reading& reading);

// Refuses what this version does not do, rather than doing something else.
void check_supported(const config::Resolved& config);
// A config is read for so many ranks: its batch is theirs.
void check_world(const config::Resolved& config, int num_ranks);
void check_types(const plan::ParameterTable& table, const config::Resolved& config);

// The table as it will be trained: in bf16 or fp16 where the config says so.
plan::ParameterTable in_precision(const plan::ParameterTable& table, const config::Resolved& config);
// Whether the bf16 parameters themselves are what the optimizer updates.
bool has_bf16_masters(const config::Resolved& config);
// What has no place in buckets, frozen parameters and buffers, in that type too; buffers in "buffer_dtype" if that is given.
void convert_the_rest(const ModelTensors& model, const config::Resolved& config);

// What forward is to compute in where it may; absent: in the model's types. Without a "dtype", bf16.
std::optional<at::ScalarType> autocast_type(const config::Resolved& config);

// Whether losses are scaled: in fp16, the model's or autocast's.
bool scales_losses(const config::Resolved& config);
// "fp16" says how; for autocast, which has no settings for it, torch's GradScaler does: 65536, doubled after 2000 updates, halved by each
// overflow.
optim::LossScaler loss_scaler(const config::Resolved& config);

// With what the ranks' transport can do.
plan::PlanOptions plan_options(const config::Resolved& config, const comm::Group& group, at::Device device);
ReduceSettings reduce_settings(const config::Resolved& config, const plan::Plan& plan);
plan::ResidencyLimits residency_limits(const config::Resolved& config);
Bring bring_of(const config::Resolved& config, const plan::Plan& plan);

// What must be equal on all ranks beside the plan.
std::vector<plan::SharedSetting> shared_settings(const config::Resolved& config);

}  // namespace weft::engine
