#include "weft/engine/settings.h"

#include <algorithm>
#include <mutex>
#include <set>
#include <span>

#include "weft/base/build_info.h"
#include "weft/base/hash.h"
#include "weft/base/log.h"
#include "weft/base/text.h"
#include "weft/config/optimizer_names.h"
#include "weft/engine/refuse_impl.h"
#include "weft/optim/optimizer.h"

namespace weft::engine {
namespace {

std::string brief(const config::Value& value) {
  switch (value.kind) {
    case config::Kind::kBool: return value.boolean ? "true" : "false";
    case config::Kind::kInt:
    case config::Kind::kReal: return cat(value.number());
    case config::Kind::kString: return to_hex(hash128(std::as_bytes(std::span(value.text))));
    default: break;
  }
  std::vector<std::string> items;
  for (const auto& item : value.items) items.push_back(brief(item));
  return cat("[", join(items, ","), "]");
}

at::ScalarType torch_type(config::Dtype dtype) {
  switch (dtype) {
    case config::Dtype::kFp16: return at::kHalf;
    case config::Dtype::kBf16: return at::kBFloat16;
    case config::Dtype::kFp32: break;
  }
  return at::kFloat;
}

std::optional<plan::Dtype> precision_of(const config::Resolved& config) {
  if (config.bf16.enabled) return plan::Dtype::kBf16;
  return config.fp16.enabled ? std::optional(plan::Dtype::kFp16) : std::nullopt;
}

// Gradients of another type than the parameters' can only be added up in buckets: autograd's own have the parameters'.
bool adds_wider(const plan::Plan& plan) {
  return std::ranges::any_of(plan.layout.gradient_buckets(), [&](const plan::Bucket& bucket) {
    return gradient_dtype(plan.options, bucket) != bucket.dtype;
  });
}

// Every argument by itself, so that the one that differs is named.
void add_arguments(std::vector<plan::SharedSetting>& out, std::string_view section,
                   const std::optional<config::Value>& params) {
  if (!params) return;
  for (const auto& member : params->members) {
    const bool plain = std::ranges::all_of(member.key, [](char c) { return c > ' ' && c <= '~'; });
    if (plain) out.push_back({cat(section, ".params.", member.key), brief(member.value)});
  }
}

// What decides whether a step is left out, and by what scale the next one's losses are multiplied.
void add_precision(std::vector<plan::SharedSetting>& out, const config::Resolved& config) {
  const config::Fp16& fp16 = config.fp16;
  out.insert(out.end(), {{"fp16.loss_scale", cat(fp16.loss_scale)},
                         {"fp16.initial_scale_power", cat(fp16.initial_scale_power)},
                         {"fp16.loss_scale_window", cat(fp16.loss_scale_window)},
                         {"fp16.hysteresis", cat(fp16.hysteresis)},
                         {"fp16.consecutive_hysteresis", cat(fp16.consecutive_hysteresis)},
                         {"fp16.min_loss_scale", cat(fp16.min_loss_scale)},
                         {"bf16.check_grad_overflow", cat(config.bf16.check_grad_overflow)}});
}

// Compression is of the wire alone, so whatever else would decide about it is refused.
void check_compression(const config::Resolved& config) {
  if (config.weft.compress == config::Compress::kNone) return;
  const auto with = [](std::string_view what, std::string fix) {
    refuse("gradients cannot be compressed like this", cat("\"compress\": \"int8\" with ", what), std::move(fix));
  };
  if (config.communication_data_type)
    with("\"communication_data_type\"", "leave \"communication_data_type\" out: int8 is what travels");
  if (config.zero_optimization.stage == 0 && !config.weft.shard_update)
    with("\"shard_update\": false in stage 0", "leave \"shard_update\" out, or set \"stage\": 1");
  if (config.zero_optimization.stage == 3) with("\"stage\": 3", "set \"stage\": 2");
  // What is left over is in units of the loss scale it came with.
  if (scales_losses(config)) with("fp16, whose loss scale changes between steps", "use bf16 instead");
}

// Stage 3 over a network with a copy of the parameters in each host: in memory that its ranks share.
void check_host_copy(const config::Resolved& config, const comm::Group& group, at::Device device) {
  const int64_t wanted = config.zero_optimization.zero_hpz_partition_size;
  if (config.zero_optimization.stage != 3 || wanted <= 1 || group.world() == 1) return;
  const auto no = [&](std::string what, std::string fix) {
    refuse(cat("no copy of the parameters for each ", wanted, " ranks (\"zero_hpz_partition_size\")"), std::move(what),
           std::move(fix));
  };
  const std::string without = "leave \"zero_hpz_partition_size\" out";
  if (!device.is_cpu())
    no(cat("this version of weft keeps it in CPU memory only, the model is on ", device.str()), without);
  if (!config.weft.common_parameters)
    no("\"common_parameters\" is false, and ranks of a host would have it in common", "leave one of the two out");
  if (group.num_sharing() == 1) {
    no(cat("the ranks of a host share no memory: transport ", group.transport()),
       cat("set \"transport\": \"auto\" and start as many ranks on each host, one host's after the other's; or ",
           without));
  }
  if (group.num_sharing() != wanted) {
    no(cat(group.num_sharing(), " ranks are on each host"),
       cat("set \"zero_hpz_partition_size\": ", group.num_sharing(), ", the ranks of a host, or leave it out"));
  }
}

// Inside one host every gather stays there already.
config::Resolved without_host_copy(config::Resolved config) {
  config.zero_optimization.zero_hpz_partition_size = 1;
  return config;
}

void check_masters(const config::Resolved& config) {
  if (config.bf16.bf16_optimizer_states && !has_bf16_masters(config)) {
    refuse("moments are kept in bf16 only where master weights are", "\"bf16_optimizer_states\": true",
           "set \"bf16\": {\"enabled\": true, \"bf16_master_weights_and_grads\": true}, or leave it out");
  }
  if (has_bf16_masters(config) && config::optimizer_kind(config.optimizer.type.value_or("")) == "lamb") {
    refuse("Lamb keeps master weights in fp32", "\"bf16_master_weights_and_grads\": true",
           "leave \"bf16_master_weights_and_grads\" out, or use AdamW");
  }
}

}  // namespace

void say_idle_settings(const config::Reading& reading) {
  static std::mutex mutex;
  static std::set<std::string> said;
  const std::scoped_lock lock(mutex);
  for (const config::IdleSetting& idle : config::describe_idle(reading)) {
    if (said.insert(idle.text).second) log_line(idle.is_planned ? LogLevel::kWarn : LogLevel::kInfo, idle.text);
  }
}

bool has_bf16_masters(const config::Resolved& config) {
  return config.bf16.enabled && config.bf16.bf16_master_weights_and_grads;
}

void check_supported(const config::Resolved& config) {
  if (config.fp16.enabled && config.bf16.enabled) {
    refuse("the model cannot be in two types", "\"fp16\" and \"bf16\" are both enabled",
           "leave one of them out; bf16 needs no loss scale");
  }
  check_masters(config);
  check_compression(config);
}

void check_world(const config::Resolved& config, int num_ranks) {
  const int64_t micro = config.train_micro_batch_size_per_gpu, steps = config.gradient_accumulation_steps;
  if (config.train_batch_size == micro * steps * num_ranks) return;
  refuse("the config was read for another number of ranks",
         cat("train_batch_size is ", config.train_batch_size, ", and ", micro, " x ", steps, " x ", num_ranks,
             " ranks are ", micro * steps * num_ranks),
         cat("read it for this world, read_engine_config(path, ", num_ranks, "), or start as many ranks as it is for"));
}

void check_types(const plan::ParameterTable& table, const config::Resolved& config) {
  const auto precision = precision_of(config);
  for (const int parameter : table.trainable()) {
    const plan::Dtype dtype = table[parameter].dtype;
    if (dtype == plan::Dtype::kFp32 || dtype == precision) continue;
    refuse(cat("parameter '", table[parameter].name, "' is ", name_of(dtype)), "",
           cat("give the engine fp32 parameters, model->to(torch::kFloat), and let \"bf16\" or \"fp16\" of the config ",
               "convert them"));
  }
}

plan::ParameterTable in_precision(const plan::ParameterTable& table, const config::Resolved& config) {
  const auto precision = precision_of(config);
  std::vector<plan::Parameter> parameters = table.all();
  for (auto& parameter : parameters) parameter.dtype = precision.value_or(parameter.dtype);
  return plan::ParameterTable(std::move(parameters));
}

void convert_the_rest(const ModelTensors& model, const config::Resolved& config) {
  const auto convert = [](const at::Tensor& tensor, std::optional<at::ScalarType> type) {
    if (type && tensor.scalar_type() != *type) tensor.set_data(tensor.to(*type));
  };
  const auto precision = precision_of(config);
  const auto type = precision ? std::optional(memory::scalar_type(*precision)) : std::nullopt;
  for (const auto& [name, tensor] : model.parameters) {
    if (!tensor.requires_grad()) convert(tensor, type);
  }
  const auto& wanted = config.data_types.buffer_dtype;
  for (const auto& [name, tensor] : model.buffers) {
    if (tensor.is_floating_point()) convert(tensor, wanted ? torch_type(*wanted) : type);
  }
}

std::optional<at::ScalarType> autocast_type(const config::Resolved& config) {
  if (!config.torch_autocast.enabled) return std::nullopt;
  const auto type = torch_type(config.torch_autocast.dtype.value_or(config::Dtype::kBf16));
  return type == at::kFloat ? std::nullopt : std::optional(type);
}

bool scales_losses(const config::Resolved& config) { return config.fp16.enabled || autocast_type(config) == at::kHalf; }

optim::LossScaler loss_scaler(const config::Resolved& config) {
  if (config.fp16.enabled || !scales_losses(config)) return optim::read_loss_scaler(config.fp16);
  return optim::LossScaler({.window = 2000, .hysteresis = 1});
}

plan::PlanOptions plan_options(const config::Resolved& config, const comm::Group& group, at::Device device) {
  if (config.weft.compress != config::Compress::kNone && !device.is_cpu()) {
    refuse("this version of weft compresses gradients on the CPU only", cat("the model is on ", device.str()),
           "leave \"compress\" out");
  }
  if (has_bf16_masters(config) && !optim::has_own_kernels(device)) {
    refuse("master weights in bf16 need kernels that torch does not have", cat("the model is on ", device.str()),
           "leave \"bf16_master_weights_and_grads\" out");
  }
  if (!group.one_sided()) check_host_copy(config, group, device);
  plan::PlanOptions out = plan::options_from(group.one_sided() ? without_host_copy(config) : config, group.world());
  // A device's own links reduce and send back in one go; sharing the update out would only add a second call.
  if (!device.is_cpu()) out.shard_update = false;
  const bool share_memory = device.is_cpu() && group.shares_memory() && group.world() > 1;
  // Gradients that travel in a narrower type would come back as parameters in the wider one.
  if (out.stage == 0 && out.wire_dtype && !share_memory) out.shard_update = false;
  const bool shares_out = out.stage >= 1 || out.shard_update;
  out.common_parameters = share_memory && shares_out && config.weft.common_parameters;
  // In one memory there is nothing to gather, so nothing has to stay.
  if (reads_in_place(out)) out.layout.persistent_below = 0;
  if (config.weft.reduce_each == config::ReduceEach::kAuto) out.reduce_each = share_memory;
  return out;
}

Bring bring_of(const config::Resolved& config, const plan::Plan& plan) {
  if (plan::effective_stage(plan, plan.options.stage) == 0) return Bring::kNone;
  if (plan.options.common_parameters) return Bring::kCommon;
  if (plan::effective_stage(plan, plan.options.stage) >= 3 && plan.options.host_copy == 0) return Bring::kNone;
  return config.weft.lazy_gather ? Bring::kLazily : Bring::kAtOnce;
}

plan::ResidencyLimits residency_limits(const config::Resolved& config) {
  const auto& zero = config.zero_optimization;
  return {.max_live = zero.stage3_max_live_parameters,
          .prefetch = zero.stage3_prefetch_bucket_size,
          .max_reuse_distance = zero.stage3_max_reuse_distance};
}

ReduceSettings reduce_settings(const config::Resolved& config, const plan::Plan& plan) {
  const int world = plan.layout.world, stage = plan::effective_stage(plan, plan.options.stage);
  ReduceSettings out{.contiguous = stage < 2 && (config.zero_optimization.contiguous_gradients || adds_wider(plan)),
                     .scatter = stage >= 1,
                     .add_up = stage >= 2 || plan::adds_reduced(plan, plan.options.stage),
                     .op = comm::ReduceOp::kSum};
  out.int8 = plan.options.compress && stage >= 1;
  if (plan.options.wire_dtype) out.wire = memory::scalar_type(*plan.options.wire_dtype);
  out.num_wires = plan::num_wire_buffers(plan, plan.options.stage);
  if (world == 1) return out;  // the mean and the sum of one, without rounding in between
  const bool mean = config.gradient_allreduce_op == config::ReduceOp::kMean;
  if (config.prescale_gradients) {
    out.before = mean ? 1.0 / world : 1.0;
  } else if (config.gradient_predivide_factor != 1) {
    out.before = 1.0 / config.gradient_predivide_factor;
    out.after = mean ? config.gradient_predivide_factor / world : config.gradient_predivide_factor;
  } else if (mean) {
    out.op = comm::ReduceOp::kMean;
  }
  return out;
}

std::vector<plan::SharedSetting> shared_settings(const config::Resolved& config) {
  std::vector<plan::SharedSetting> out;
  const auto add = [&](std::string name, std::string value) { out.push_back({std::move(name), std::move(value)}); };
  add("weft", std::string(kVersion));
  add("gradient_clipping", cat(config.gradient_clipping));
  add("managed_gradient_accumulation", config.managed_gradient_accumulation ? "true" : "false");
  add("prescale_gradients", config.prescale_gradients ? "true" : "false");
  add("gradient_predivide_factor", cat(config.gradient_predivide_factor));
  add("gradient_allreduce_op", std::string(to_text(config.gradient_allreduce_op)));
  add("optimizer.type", config.optimizer.type.value_or("none"));
  add("weft.bucket", std::string(to_text(config.weft.bucket)));
  add("weft.compress", std::string(to_text(config.weft.compress)));
  const auto narrow = autocast_type(config);
  add("torch_autocast", narrow ? c10::toString(*narrow) : "none");
  add_precision(out, config);
  add("zero_optimization.zero_hpz_partition_size", cat(config.zero_optimization.zero_hpz_partition_size));
  add("zero_optimization.contiguous_gradients", cat(config.zero_optimization.contiguous_gradients));
  add("scheduler.type", config.scheduler.type.value_or("none"));
  add_arguments(out, "optimizer", config.optimizer.params);
  add_arguments(out, "scheduler", config.scheduler.params);
  return out;
}

}  // namespace weft::engine
