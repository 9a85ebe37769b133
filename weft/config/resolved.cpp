// Made by tools/gen_settings.py from settings.toml; change that.
// clang-format off
#include "weft/config/resolved.h"

#include "weft/base/check.h"
#include "weft/config/resolved_impl.h"

namespace weft::config {

std::string_view to_text(Dtype value) {
  constexpr std::string_view kTexts[] = {"fp16", "bf16", "fp32"};
  return kTexts[static_cast<size_t>(value)];
}

std::string_view to_text(ReduceOp value) {
  constexpr std::string_view kTexts[] = {"mean", "sum"};
  return kTexts[static_cast<size_t>(value)];
}

std::string_view to_text(OffloadDevice value) {
  constexpr std::string_view kTexts[] = {"none", "cpu", "nvme"};
  return kTexts[static_cast<size_t>(value)];
}

std::string_view to_text(Transport value) {
  constexpr std::string_view kTexts[] = {"auto", "shm", "gloo", "nccl"};
  return kTexts[static_cast<size_t>(value)];
}

std::string_view to_text(BucketSizes value) {
  constexpr std::string_view kTexts[] = {"fixed", "auto"};
  return kTexts[static_cast<size_t>(value)];
}

std::string_view to_text(ReduceEach value) {
  constexpr std::string_view kTexts[] = {"auto", "micro_step", "step"};
  return kTexts[static_cast<size_t>(value)];
}

std::string_view to_text(Compress value) {
  constexpr std::string_view kTexts[] = {"none", "int8"};
  return kTexts[static_cast<size_t>(value)];
}

std::string_view to_text(Matmul value) {
  constexpr std::string_view kTexts[] = {"auto", "torch"};
  return kTexts[static_cast<size_t>(value)];
}

Resolved make_resolved(std::span<const Value> values) {
  Resolved r;
  take(values[0], r.train_batch_size);
  take(values[1], r.train_micro_batch_size_per_gpu);
  take(values[2], r.gradient_accumulation_steps);
  take(values[3], r.managed_gradient_accumulation);
  take(values[4], r.steps_per_print);
  take(values[5], r.dataloader_drop_last);
  take(values[6], r.gradient_clipping);
  take(values[7], r.zero_allow_untested_optimizer);
  take(values[8], r.zero_force_ds_cpu_optimizer);
  take(values[9], r.communication_data_type, 3);
  take(values[10], r.prescale_gradients);
  take(values[11], r.gradient_predivide_factor);
  take(values[12], r.gradient_allreduce_op, 2);
  take(values[13], r.wall_clock_breakdown);
  take(values[14], r.memory_breakdown);
  take(values[15], r.dump_state);
  take(values[39], r.optimizer.type);
  take(values[40], r.optimizer.params);
  take(values[42], r.scheduler.type);
  take(values[43], r.scheduler.params);
  take(values[44], r.fp16.enabled);
  take(values[46], r.fp16.loss_scale);
  take(values[47], r.fp16.initial_scale_power);
  take(values[48], r.fp16.loss_scale_window);
  take(values[49], r.fp16.hysteresis);
  take(values[50], r.fp16.consecutive_hysteresis);
  take(values[51], r.fp16.min_loss_scale);
  take(values[53], r.bf16.enabled);
  take(values[55], r.bf16.check_grad_overflow);
  take(values[56], r.bf16.bf16_master_weights_and_grads);
  take(values[57], r.bf16.bf16_optimizer_states);
  take(values[58], r.torch_autocast.enabled);
  take(values[59], r.torch_autocast.dtype, 3);
  take(values[61], r.data_types.grad_accum_dtype, 3);
  take(values[62], r.data_types.param_dtype, 3);
  take(values[63], r.data_types.buffer_dtype, 3);
  take(values[65], r.zero_optimization.stage);
  take(values[66], r.zero_optimization.contiguous_gradients);
  take(values[68], r.zero_optimization.reduce_bucket_size);
  take(values[72], r.zero_optimization.overlap_comm);
  take(values[77], r.zero_optimization.stage3_prefetch_bucket_size);
  take(values[78], r.zero_optimization.stage3_param_persistence_threshold);
  take(values[79], r.zero_optimization.stage3_model_persistence_threshold);
  take(values[80], r.zero_optimization.stage3_max_live_parameters);
  take(values[81], r.zero_optimization.stage3_max_reuse_distance);
  take(values[82], r.zero_optimization.stage3_gather_16bit_weights_on_model_save);
  take(values[91], r.zero_optimization.zero_hpz_partition_size);
  take(values[107], r.zero_optimization.offload_param.device, 3);
  take(values[108], r.zero_optimization.offload_param.nvme_path);
  take(values[109], r.zero_optimization.offload_param.buffer_count);
  take(values[110], r.zero_optimization.offload_param.buffer_size);
  take(values[111], r.zero_optimization.offload_param.max_in_cpu);
  take(values[112], r.zero_optimization.offload_param.pin_memory);
  take(values[113], r.zero_optimization.offload_optimizer.device, 3);
  take(values[114], r.zero_optimization.offload_optimizer.nvme_path);
  take(values[115], r.zero_optimization.offload_optimizer.buffer_count);
  take(values[116], r.zero_optimization.offload_optimizer.pin_memory);
  take(values[117], r.zero_optimization.offload_optimizer.pipeline_read);
  take(values[118], r.zero_optimization.offload_optimizer.pipeline_write);
  take(values[120], r.zero_optimization.offload_optimizer.ratio);
  take(values[136], r.activation_checkpointing.partition_activations);
  take(values[137], r.activation_checkpointing.number_checkpoints);
  take(values[139], r.activation_checkpointing.cpu_checkpointing);
  take(values[142], r.aio.block_size);
  take(values[143], r.aio.queue_depth);
  take(values[144], r.aio.intra_op_parallelism);
  take(values[146], r.aio.single_submit);
  take(values[147], r.aio.overlap_events);
  take(values[151], r.checkpoint.use_node_local_storage);
  take(values[161], r.tensorboard.enabled);
  take(values[162], r.tensorboard.output_path);
  take(values[163], r.tensorboard.job_name);
  take(values[164], r.csv_monitor.enabled);
  take(values[165], r.csv_monitor.output_path);
  take(values[166], r.csv_monitor.job_name);
  take(values[167], r.wandb.enabled);
  take(values[168], r.wandb.group);
  take(values[169], r.wandb.team);
  take(values[170], r.wandb.project);
  take(values[180], r.flops_profiler.enabled);
  take(values[181], r.flops_profiler.recompute_fwd_factor);
  take(values[182], r.flops_profiler.profile_step);
  take(values[183], r.flops_profiler.module_depth);
  take(values[184], r.flops_profiler.top_modules);
  take(values[185], r.flops_profiler.detailed);
  take(values[186], r.flops_profiler.output_file);
  take(values[189], r.comms_logger.enabled);
  take(values[190], r.comms_logger.verbose);
  take(values[191], r.comms_logger.prof_all);
  take(values[192], r.comms_logger.prof_ops);
  take(values[306], r.weft.semantics);
  take(values[307], r.weft.transport, 4);
  take(values[308], r.weft.bucket, 2);
  take(values[309], r.weft.shard_update);
  take(values[310], r.weft.common_parameters);
  take(values[311], r.weft.lazy_gather);
  take(values[312], r.weft.reduce_each, 3);
  take(values[313], r.weft.compress, 2);
  take(values[314], r.weft.deadline_s);
  take(values[315], r.weft.save_every_steps);
  take(values[316], r.weft.buddy);
  take(values[317], r.weft.buddy_every_steps);
  take(values[318], r.weft.keep_saves);
  take(values[319], r.weft.matmul, 2);
  take(values[320], r.weft.peak_tflops);
  take(values[321], r.weft.dashboard.port);
  take(values[322], r.weft.dashboard.host);
  take(values[323], r.weft.dashboard.token);
  return r;
}

}  // namespace weft::config
