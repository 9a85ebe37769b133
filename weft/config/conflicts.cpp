// Settings that cannot stand together. DeepSpeed refuses each of these, some only once the engine is built on every GPU.
#include <functional>

#include "weft/base/text.h"
#include "weft/config/optimizer_names.h"
#include "weft/config/reading_impl.h"

namespace weft::config {
namespace {

struct Conflict {
  std::string_view rule;
  std::string_view path;  // where to point, and what the edit changes
  bool (*holds)(const Resolved&, const Reading&);
  std::string_view en;
  std::string_view zh;
  std::string_view fix_en;
  std::string_view fix_zh;
  std::string_view literal;  // the value that ends the conflict; empty: a person must decide
};

bool offloads_part(const Resolved& r) { return r.zero_optimization.offload_optimizer.ratio < 1; }
bool scaled_before(const Resolved& r) { return r.prescale_gradients || r.gradient_predivide_factor != 1; }
bool without_zero(const Resolved& r) { return r.zero_optimization.stage == 0; }
bool dynamic_fp16(const Resolved& r) { return r.fp16.enabled && r.fp16.loss_scale == 0; }

std::optional<Dtype> mode_of(const Resolved& r) {
  if (r.fp16.enabled) return Dtype::kFp16;
  if (r.bf16.enabled) return Dtype::kBf16;
  return std::nullopt;
}

constexpr Conflict kConflicts[] = {
    {"conflicts/two-precisions", "fp16.enabled",
     [](const Resolved& r, const Reading&) { return r.fp16.enabled && r.bf16.enabled; },
     "fp16 and bf16 are both enabled; a model has one precision", "fp16 和 bf16 同时开启；模型只能有一种精度",
     "switch fp16 off: bf16 needs no loss scale", "关闭 fp16：bf16 不需要 loss scale", "false"},
    {"conflicts/sum-stage3", "gradient_allreduce_op",
     [](const Resolved& r, const Reading&) {
       return r.gradient_allreduce_op == ReduceOp::kSum && r.zero_optimization.stage == 3;
     },
     "gradient_allreduce_op \"sum\" is not supported with stage 3", "stage 3 不支持 gradient_allreduce_op 为 \"sum\"",
     "use mean", "改用 mean", "\"mean\""},
    {"conflicts/norm-needs-stage", "zero_optimization.compute_grad_norm",
     [](const Resolved& r, const Reading& reading) {
       return !reading.value("zero_optimization.compute_grad_norm").boolean && r.zero_optimization.stage != 1 &&
              r.zero_optimization.stage != 2;
     },
     "compute_grad_norm false is possible in stages 1 and 2 only", "compute_grad_norm 为 false 只在 stage 1、2 可用",
     "leave it true", "保持 true", "true"},
    {"conflicts/norm-needs-no-clipping", "zero_optimization.compute_grad_norm",
     [](const Resolved& r, const Reading& reading) {
       const bool can = r.zero_optimization.stage == 1 || r.zero_optimization.stage == 2;
       return can && !reading.value("zero_optimization.compute_grad_norm").boolean && r.gradient_clipping > 0;
     },
     "clipping needs the norm that compute_grad_norm false leaves out",
     "梯度裁剪需要范数，而 compute_grad_norm 为 false 不计算范数", "leave it true", "保持 true", "true"},
    {"conflicts/partial-offload", "zero_optimization.offload_optimizer.ratio",
     [](const Resolved& r, const Reading&) { return offloads_part(r) && r.zero_optimization.stage != 3; },
     "a ratio below 1 (part of the optimizer state on the CPU) works in stage 3 only",
     "ratio 小于 1（部分优化器状态放 CPU）只在 stage 3 可用", "write 1.0", "写成 1.0", "1.0"},
    {"conflicts/master-needs-zero", "bf16.bf16_master_weights_and_grads",
     [](const Resolved& r, const Reading&) { return r.bf16.bf16_master_weights_and_grads && without_zero(r); },
     "bf16 master weights need ZeRO stage 1, 2 or 3", "bf16 主权重需要 ZeRO stage 1、2 或 3",
     "set zero_optimization.stage", "设置 zero_optimization.stage", "false"},
    {"conflicts/states-need-zero", "bf16.bf16_optimizer_states",
     [](const Resolved& r, const Reading&) { return r.bf16.bf16_optimizer_states && without_zero(r); },
     "bf16 optimizer states need ZeRO stage 1, 2 or 3", "bf16 优化器状态需要 ZeRO stage 1、2 或 3",
     "set zero_optimization.stage", "设置 zero_optimization.stage", "false"},
    {"conflicts/states-need-master", "bf16.bf16_optimizer_states",
     [](const Resolved& r, const Reading&) {
       return r.bf16.bf16_optimizer_states && !r.bf16.bf16_master_weights_and_grads && !without_zero(r);
     },
     "bf16_optimizer_states needs bf16_master_weights_and_grads",
     "bf16_optimizer_states 需要同时开启 bf16_master_weights_and_grads", "switch it off, or the other on",
     "关闭它，或开启另一项", "false"},
    {"conflicts/loss-scale-window", "fp16.loss_scale_window",
     [](const Resolved& r, const Reading&) { return dynamic_fp16(r) && r.fp16.loss_scale_window <= 0; },
     "dynamic loss scaling needs a loss_scale_window above 0", "动态 loss scale 需要 loss_scale_window 大于 0",
     "write 1000", "写 1000", "1000"},
    {"conflicts/min-loss-scale", "fp16.min_loss_scale",
     [](const Resolved& r, const Reading&) { return dynamic_fp16(r) && r.fp16.min_loss_scale <= 0; },
     "dynamic loss scaling needs a min_loss_scale above 0", "动态 loss scale 需要 min_loss_scale 大于 0", "write 1",
     "写 1", "1"},
    {"conflicts/prescale-reduce-scatter", "zero_optimization.reduce_scatter",
     [](const Resolved& r, const Reading& reading) {
       return r.zero_optimization.stage >= 2 && reading.value("zero_optimization.reduce_scatter").boolean &&
              scaled_before(r);
     },
     "with stage 2 or 3 and reduce_scatter, gradients cannot be scaled before the reduction (prescale_gradients, "
     "gradient_predivide_factor)",
     "stage 2/3 且开启 reduce_scatter 时，不能在归约前缩放梯度（prescale_gradients、gradient_predivide_factor）",
     "leave prescale_gradients false and gradient_predivide_factor 1",
     "保持 prescale_gradients 为 false、gradient_predivide_factor 为 1", ""},
    {"conflicts/odd-gather-bucket", "zero_optimization.allgather_bucket_size",
     [](const Resolved& r, const Reading& reading) {
       const bool reads = r.zero_optimization.stage == 1 || r.zero_optimization.stage == 2;
       return reads && reading.value("zero_optimization.allgather_bucket_size").integer % 2 != 0;
     },
     "allgather_bucket_size must be even in stages 1 and 2", "stage 1、2 里 allgather_bucket_size 必须是偶数",
     "write an even number", "写一个偶数", "200000000"},
    {"conflicts/param-dtype", "data_types.param_dtype",
     [](const Resolved& r, const Reading&) {
       return r.data_types.param_dtype && r.data_types.param_dtype != mode_of(r).value_or(Dtype::kFp32);
     },
     "param_dtype is not the precision that is enabled", "param_dtype 与启用的精度不一致",
     "remove it: it follows the precision", "删除它：它会跟随精度", ""},
    {"conflicts/unmanaged-overlap", "managed_gradient_accumulation",
     [](const Resolved& r, const Reading&) {
       return !r.managed_gradient_accumulation && r.zero_optimization.stage == 1 && r.zero_optimization.overlap_comm;
     },
     "managed_gradient_accumulation false cannot overlap communication in stage 1",
     "stage 1 下 managed_gradient_accumulation 为 false 时不能重叠通信", "leave it true", "保持 true", "true"},
    {"conflicts/contiguous-checkpoints", "activation_checkpointing.contiguous_memory_optimization", nullptr,
     "contiguous_memory_optimization needs partition_activations and number_checkpoints",
     "contiguous_memory_optimization 需要同时设置 partition_activations 和 number_checkpoints",
     "set both, or switch it off", "两项都设置，或关闭它", "false"},
    {"conflicts/lamb-static-scale", "fp16.loss_scale", nullptr, "Lamb works with a dynamic loss scale only",
     "Lamb 只支持动态 loss scale", "write 0: dynamic", "写 0：动态", "0"},
};

bool holds(const Reading& reading, const Conflict& conflict) {
  const Resolved& r = reading.resolved;
  if (conflict.holds != nullptr) return conflict.holds(r, reading);
  if (conflict.rule == "conflicts/lamb-static-scale") {
    return r.fp16.enabled && r.fp16.loss_scale > 0 && optimizer_kind(r.optimizer.type.value_or("")) == "lamb";
  }
  return reading.value(conflict.path).boolean &&
         !(r.activation_checkpointing.partition_activations && r.activation_checkpointing.number_checkpoints);
}

}  // namespace

void check_conflicts(Reading& reading) {
  for (const Conflict& conflict : kConflicts) {
    if (!holds(reading, conflict)) continue;
    Problem& problem = report(reading, conflict.rule, conflict.path, reading.span_of(conflict.path),
                              {std::string(conflict.en), std::string(conflict.zh)},
                              {std::string(conflict.fix_en), std::string(conflict.fix_zh)});
    problem.current = reading.shown(conflict.path);
    problem.suggested = conflict.literal;
    problem.deepspeed_refuses = true;
    if (!conflict.literal.empty())
      problem.edits = {{Edit::Kind::kSet, std::string(conflict.path), "", std::string(conflict.literal)}};
  }
}

}  // namespace weft::config
