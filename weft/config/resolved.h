// Made by tools/gen_settings.py from settings.toml; change that.
// clang-format off
//
// A config after everything is decided: plain structs with the names and the nesting of the file. Every other room reads
// these and never the file. Made by resolve() (resolve.h), which also knows where each value came from. Sizes named bucket, threshold,
// live, distance, sub_group count elements. Values: copy, any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weft/config/value.h"

namespace weft::config {

enum class Dtype { kFp16, kBf16, kFp32 };
std::string_view to_text(Dtype value);

enum class ReduceOp { kMean, kSum };
std::string_view to_text(ReduceOp value);

enum class OffloadDevice { kNone, kCpu, kNvme };
std::string_view to_text(OffloadDevice value);

enum class Transport { kAuto, kShm, kGloo, kNccl };
std::string_view to_text(Transport value);

enum class BucketSizes { kFixed, kAuto };
std::string_view to_text(BucketSizes value);

enum class ReduceEach { kAuto, kMicroStep, kStep };
std::string_view to_text(ReduceEach value);

enum class Compress { kNone, kInt8 };
std::string_view to_text(Compress value);

enum class Matmul { kAuto, kTorch };
std::string_view to_text(Matmul value);

// Where parameter shards live. Stage 3.
struct OffloadParam {
  OffloadDevice device = OffloadDevice::kNone;  // Memory that holds the shards.
  std::optional<std::string> nvme_path = {};  // Folder for the swap files.
  int64_t buffer_count = 5;  // Staging buffers.
  int64_t buffer_size = 100000000;  // Elements of one staging buffer; must hold the largest parameter.
  int64_t max_in_cpu = 1000000000;  // Elements kept in CPU memory rather than on NVMe.
  bool pin_memory = true;  // Page-locked host memory: faster copies, cannot be swapped out.
};

// Where optimizer state lives and is updated. Stages 1 to 3.
struct OffloadOptimizer {
  OffloadDevice device = OffloadDevice::kNone;  // Memory that holds the state; nvme in stages 1 and 2 means cpu to DeepSpeed.
  std::optional<std::string> nvme_path = {};  // Folder for the swap files.
  int64_t buffer_count = 4;  // Staging buffers; Adam needs 4.
  bool pin_memory = true;  // Page-locked host memory.
  bool pipeline_read = false;  // Read the next tile while this one is updated.
  bool pipeline_write = false;  // Write the last tile while this one is updated.
  double ratio = 1.0;  // Part of the state that goes to the CPU.
};

// A page in the browser that shows the run while it goes on.
struct Dashboard {
  std::optional<int64_t> port = {};  // Where it is served, by rank 0, or the next port that is free; 0: any; absent: no page.
  std::string host = "127.0.0.1";  // The address it is bound to; any other than this host's own asks for the token.
  std::optional<std::string> token = {};  // What visitors must show; absent: none on 127.0.0.1, else one is made up and said.
};

// Which optimizer, and its arguments.
struct Optimizer {
  std::optional<std::string> type = {};  // Adam, AdamW, Adagrad, Lamb or Lion (any case), or SGD.
  std::optional<Value> params = {};  // Arguments of the optimizer: lr, betas, eps, weight_decay, ...
};

// Learning-rate schedule, stepped once per optimizer step that was not skipped.
struct Scheduler {
  std::optional<std::string> type = {};  // WarmupLR, WarmupDecayLR, WarmupCosineLR, OneCycle, LRRangeTest, ConstantLR, LinearLR or CosineAnnealingLR.
  std::optional<Value> params = {};  // Arguments of the schedule.
};

// Training in fp16 with loss scaling.
struct Fp16 {
  bool enabled = false;  // Parameters in fp16, an fp32 master copy, a loss scale.
  double loss_scale = 0.0;  // 0: dynamic; above 0: that scale, always.
  int64_t initial_scale_power = 16;  // The dynamic scale starts at 2 to this power.
  int64_t loss_scale_window = 1000;  // Steps without overflow before the scale doubles.
  int64_t hysteresis = 2;  // Overflows tolerated before the scale halves.
  bool consecutive_hysteresis = false;  // Every good step refills the hysteresis.
  int64_t min_loss_scale = 1;  // The scale's floor.
};

// Training in bf16; no loss scale.
struct Bf16 {
  bool enabled = false;  // Parameters in bf16, an fp32 master copy.
  bool check_grad_overflow = true;  // Skip a step whose gradient holds inf or nan.
  bool bf16_master_weights_and_grads = false;  // Master weights and gradients in bf16.
  bool bf16_optimizer_states = false;  // Moments in bf16; needs bf16_master_weights_and_grads.
};

// torch.autocast around forward.
struct TorchAutocast {
  bool enabled = false;  // Enter autocast in forward; parameters stay fp32.
  std::optional<Dtype> dtype = {};  // Lower type of the autocast region.
};

// Types of buffers the engine keeps.
struct DataTypes {
  std::optional<Dtype> grad_accum_dtype = {};  // Type gradients accumulate in; absent: that of the model.
  std::optional<Dtype> param_dtype = {};  // Must equal the enabled mode.
  std::optional<Dtype> buffer_dtype = {};  // Type of the module's buffers; absent: as loaded.
};

// What is sharded over ranks, and how it is communicated. Sizes are elements, not bytes.
struct ZeroOptimization {
  int64_t stage = 0;  // 0: nothing sharded; 1: optimizer state; 2: and gradients; 3: and parameters.
  bool contiguous_gradients = true;  // Gradients are produced straight into one flat buffer.
  int64_t reduce_bucket_size = 500000000;  // Elements reduced at a time.
  bool overlap_comm = false;  // Reduce gradients while backward goes on; absent: true in stage 3, else false.
  int64_t stage3_prefetch_bucket_size = 50000000;  // Elements gathered ahead of their use; 0: no prefetch.
  int64_t stage3_param_persistence_threshold = 100000;  // Parameters smaller than this stay on every rank.
  int64_t stage3_model_persistence_threshold = 9223372036854775807;  // Cap on all persistent parameters together, divided by the number of ranks.
  int64_t stage3_max_live_parameters = 1000000000;  // Gathered elements at any time.
  int64_t stage3_max_reuse_distance = 1000000000;  // Keep a gathered parameter that is used again within this many elements.
  bool stage3_gather_16bit_weights_on_model_save = false;  // A 16-bit save holds whole parameters.
  int64_t zero_hpz_partition_size = 1;  // Over a network, a second copy of the shards inside groups of this many ranks, those of a host: gathers stay there.
  OffloadParam offload_param;
  OffloadOptimizer offload_optimizer;
};

// Recompute activations in backward. DeepSpeed applies it only where the model calls deepspeed.checkpointing itself.
struct ActivationCheckpointing {
  bool partition_activations = false;  // Shard saved inputs over model-parallel ranks.
  std::optional<int64_t> number_checkpoints = {};  // Checkpointed layers; sizes the contiguous buffers.
  bool cpu_checkpointing = false;  // Saved inputs wait in CPU memory.
};

// Asynchronous file I/O of the NVMe tiers and the fast checkpoint writer.
struct Aio {
  int64_t block_size = 1048576;  // Bytes of one request.
  int64_t queue_depth = 8;  // Requests in flight.
  int64_t intra_op_parallelism = 1;  // Threads that share one request.
  bool single_submit = false;  // Submit requests one at a time.
  bool overlap_events = true;  // Submit and complete at the same time.
};

// Saving and loading.
struct Checkpoint {
  bool use_node_local_storage = false;  // Hosts have folders of their own: each holds the files of its ranks.
};

// Scalars for TensorBoard.
struct Tensorboard {
  bool enabled = false;  // Write event files.
  std::string output_path;  // Folder; empty: the working folder.
  std::string job_name = "DeepSpeedJobName";  // Folder below it.
};

// Scalars as CSV.
struct CsvMonitor {
  bool enabled = false;  // Write CSV files.
  std::string output_path;  // Folder; empty: the working folder.
  std::string job_name = "DeepSpeedJobName";  // Folder below it.
};

// Weights & Biases.
struct Wandb {
  bool enabled = false;  // Keep what tools/wandb_offline.py needs to make an offline run afterwards.
  std::optional<std::string> group = {};  // Group of runs.
  std::optional<std::string> team = {};  // Team.
  std::string project = "deepspeed";  // Project.
};

// Counts floating-point operations of one step, by module and by operator. Enabled, it also switches wall_clock_breakdown on.
struct FlopsProfiler {
  bool enabled = false;  // Profile.
  double recompute_fwd_factor = 0.0;  // Forward passes repeated in backward, for the estimate beside what was counted.
  int64_t profile_step = 1;  // Which step.
  int64_t module_depth = -1;  // Depth of the table; -1: all.
  int64_t top_modules = 1;  // Largest kinds of modules shown of each depth.
  bool detailed = true;  // Every module and operator; false: only the sums and the largest of each depth.
  std::optional<std::string> output_file = {};  // Where the table goes.
};

// Records each collective.
struct CommsLogger {
  bool enabled = false;  // Count and time them; a table at the end.
  bool verbose = false;  // Print each call.
  bool prof_all = true;  // All operations.
  Value prof_ops = {};  // Or only these.
};

// weft's own settings. DeepSpeed ignores the section, so that one file serves both.
struct WeftSettings {
  std::optional<std::string> semantics = {};  // Read the file as this DeepSpeed would: deepspeed-0.18; --as has the last word.
  Transport transport = Transport::kAuto;  // How ranks talk; auto: shared memory inside a host, NCCL or Gloo between hosts.
  BucketSizes bucket = BucketSizes::kFixed;  // auto: two steps are measured, then gradients are cut into buckets so that the least communication is exposed; fixed: reduce_bucket_size.
  bool shard_update = true;  // Stage 0: each rank updates its slice of the weights and keeps only that part of the optimizer's state, as stage 1 does; the bits are the same.
  bool common_parameters = true;  // Ranks that share a host's memory share one copy of the parameters: there is nothing to gather. False: a copy for each rank, for models that write into their parameters by themselves.
  bool lazy_gather = true;  // Updated parameters are gathered behind the next forward, which waits for those it touches; false: step() waits for all.
  ReduceEach reduce_each = ReduceEach::kAuto;  // When gradients are reduced in stages 0 and 1; auto: every micro-step where ranks share a host's memory, as stage 2 does, so that stages have the same bits; else once a step, which sends less.
  Compress compress = Compress::kNone;  // int8: gradients travel as 8-bit numbers with a scale for each 256; what rounding leaves over is added in the next step. About a quarter of the bytes of fp32. Needs shard_update, or stage 1 or 2.
  double deadline_s = 600.0;  // Seconds a collective may take before the rank that is missing is named and the run ends.
  std::optional<int64_t> save_every_steps = {};  // Save a checkpoint every so many steps.
  bool buddy = false;  // A copy of the training is kept in memory that outlives the ranks, on several hosts also on the next one: after the loss of a rank or a host weft run --restarts K --resume goes on from there without reading a checkpoint.
  int64_t buddy_every_steps = 1;  // With buddy: steps between two copies, which is what a loss costs at most.
  std::optional<int64_t> keep_saves = {};  // Checkpoints kept; older ones are pruned.
  Matmul matmul = Matmul::kAuto;  // fp32 products on CPUs; auto: by a kernel of weft's own for shapes where it gave the same bits as torch's and took less time, as on processors of AMD; torch: always torch's.
  std::optional<double> peak_tflops = {};  // What the device of a rank reaches at most, in TFLOP/s, for the model FLOPs utilisation; absent: what a matrix product reaches there, measured once.
  Dashboard dashboard;
};

// The top level: batch, optimizer step, reduction, logging.
struct Resolved {
  int64_t train_batch_size = 0;  // Samples per optimizer step over all data-parallel ranks: micro batch x accumulation x world.
  int64_t train_micro_batch_size_per_gpu = 0;  // Samples per forward and backward on one rank.
  int64_t gradient_accumulation_steps = 0;  // Micro-steps per optimizer step.
  bool managed_gradient_accumulation = true;  // The engine counts micro-steps; false: every step() is the boundary.
  std::optional<int64_t> steps_per_print = {};  // Progress line every so many steps; absent: none.
  bool dataloader_drop_last = false;  // Drop the last, incomplete batch of the engine's own loader.
  double gradient_clipping = 1.0;  // Global L2 norm the gradient is clipped to; 0 switches it off.
  bool zero_allow_untested_optimizer = false;  // Allow ZeRO with an optimizer outside DeepSpeed's tested list; here: one of the user's own.
  bool zero_force_ds_cpu_optimizer = true;  // With optimizer offload, refuse optimizers other than DeepSpeed's CPU ones.
  std::optional<Dtype> communication_data_type = {};  // Type on the wire for gradient reduction; absent: that of the training precision.
  bool prescale_gradients = false;  // Divide by the world size before the reduction rather than after.
  double gradient_predivide_factor = 1.0;  // Divide by this before the reduction and by world/this after.
  ReduceOp gradient_allreduce_op = ReduceOp::kMean;  // Average gradients over ranks, or add them up.
  bool wall_clock_breakdown = false;  // Time forward, backward, reduction and step; waits for the device each time.
  bool memory_breakdown = false;  // Report memory with each line of steps_per_print.
  bool dump_state = false;  // Print the engine's settings, and where each comes from, at the start.
  Optimizer optimizer;
  Scheduler scheduler;
  Fp16 fp16;
  Bf16 bf16;
  TorchAutocast torch_autocast;
  DataTypes data_types;
  ZeroOptimization zero_optimization;
  ActivationCheckpointing activation_checkpointing;
  Aio aio;
  Checkpoint checkpoint;
  Tensorboard tensorboard;
  CsvMonitor csv_monitor;
  Wandb wandb;
  FlopsProfiler flops_profiler;
  CommsLogger comms_logger;
  WeftSettings weft;
};

// Fills the structs from one value a setting, in the order of settings(). Requires: each of its setting's type, or null.
Resolved make_resolved(std::span<const Value> values);

}  // namespace weft::config
