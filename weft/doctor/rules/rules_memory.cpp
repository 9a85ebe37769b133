// Will it fit: stage and offload against the model's parameters and the GPU's memory.
#include <algorithm>

#include "weft/base/text.h"
#include "weft/base/units.h"
#include "weft/doctor/rules/memory_estimate.h"
#include "weft/doctor/rules/rule.h"

namespace weft::doctor {

MemoryEstimate estimate_memory(const config::Resolved& resolved, double params, int64_t world) {
  const auto& zero = resolved.zero_optimization;
  const bool half = resolved.fp16.enabled || resolved.bf16.enabled;
  const double ranks = static_cast<double>(std::max<int64_t>(1, world));
  const double element = half ? 2 : 4;
  MemoryEstimate estimate;
  estimate.params_bytes = params * element / (zero.stage >= 3 ? ranks : 1);
  estimate.grads_bytes = params * element / (zero.stage >= 2 ? ranks : 1);
  estimate.optimizer_bytes = params * (half ? 12 : 8) / (zero.stage >= 1 ? ranks : 1);
  if (zero.stage >= 1) {
    const bool twice = zero.overlap_comm && zero.contiguous_gradients && zero.stage < 3;
    const double elements = std::min(static_cast<double>(zero.reduce_bucket_size), params);
    estimate.buckets_bytes = elements * element * (twice ? 2 : 1);
  }
  if (zero.stage >= 1 && zero.offload_optimizer.device != config::OffloadDevice::kNone) {
    const double part = zero.offload_optimizer.ratio;
    estimate.host_bytes += estimate.optimizer_bytes * part;
    estimate.optimizer_bytes *= 1 - part;
  }
  if (zero.stage == 3 && zero.offload_param.device != config::OffloadDevice::kNone) {
    estimate.host_bytes += estimate.params_bytes;
    estimate.params_bytes = std::min(params, static_cast<double>(zero.stage3_max_live_parameters)) * element;
  }
  return estimate;
}

namespace {

using config::OffloadDevice;
using config::Resolved;
using config::Severity;

constexpr double kFull = 0.80;  // what is left goes to activations and fragments
constexpr double kRoomy = 0.40;

std::string size_text(double bytes) { return format_bytes(static_cast<uint64_t>(bytes)); }

// The first change, in the order people make them, after which the states fit: stages, then offload.
struct Change {
  std::string path;
  std::string literal;
};

std::optional<Change> change_that_fits(const Subject& subject, double limit) {
  const double params = *subject.machine.params;
  Resolved tried = subject.resolved();
  for (int64_t stage = subject.zero().stage + 1; stage <= 3; ++stage) {
    tried.zero_optimization.stage = stage;
    if (estimate_memory(tried, params, subject.reading.world).gpu_bytes() < limit)
      return Change{"zero_optimization.stage", cat(stage)};
  }
  tried.zero_optimization.offload_optimizer.device = OffloadDevice::kCpu;
  if (estimate_memory(tried, params, subject.reading.world).gpu_bytes() < limit)
    return Change{"zero_optimization.offload_optimizer", "{\"device\": \"cpu\"}"};
  tried.zero_optimization.offload_param.device = OffloadDevice::kCpu;
  if (estimate_memory(tried, params, subject.reading.world).gpu_bytes() < limit)
    return Change{"zero_optimization.offload_param", "{\"device\": \"cpu\"}"};
  return std::nullopt;
}

bool known(const Subject& subject) { return subject.machine.params && subject.machine.gpu_bytes; }

config::Words parts_of(const MemoryEstimate& estimate) {
  const std::string params = size_text(estimate.params_bytes), grads = size_text(estimate.grads_bytes);
  const std::string optimizer = size_text(estimate.optimizer_bytes), buckets = size_text(estimate.buckets_bytes);
  return {cat("parameters ", params, ", gradients ", grads, ", optimizer ", optimizer, ", buckets ", buckets),
          cat("参数 ", params, "，梯度 ", grads, "，优化器 ", optimizer, "，桶 ", buckets)};
}

void report_full(const Subject& subject, Reporter& reporter, const MemoryEstimate& estimate, double limit) {
  const std::string need = size_text(estimate.gpu_bytes()), have = size_text(limit);
  const config::Words parts = parts_of(estimate);
  const auto change = change_that_fits(subject, kFull * limit);
  config::Problem& problem = reporter.problem(
      "zero_optimization.stage",
      {cat("states alone need ", need, " of ", have, " a GPU (", parts.en, "), and activations come on top"),
       cat("仅模型状态每卡就需要 ", need, "，而显存只有 ", have, "（", parts.zh, "），还不含激活")},
      change ? config::Words{cat("set ", change->path, " to ", change->literal),
                             cat("把 ", change->path, " 设为 ", change->literal)}
             : config::Words{"more GPUs, or NVMe offload: even stage 3 with both offloads does not fit",
                             "需要更多 GPU 或 NVMe 卸载：stage 3 加两种卸载也放不下"});
  if (!change) return;
  const bool is_stage = change->path == "zero_optimization.stage";
  problem.suggested = is_stage ? change->literal : cat(change->path, " ", change->literal);
  if (is_stage) problem.edits = {{config::Edit::Kind::kSet, change->path, "", change->literal}};
}

void fits(const Subject& subject, Reporter& reporter) {
  if (!known(subject)) return;
  const auto limit = static_cast<double>(*subject.machine.gpu_bytes);
  const MemoryEstimate estimate = estimate_memory(subject.resolved(), *subject.machine.params, subject.reading.world);
  if (estimate.gpu_bytes() > kFull * limit) return report_full(subject, reporter, estimate, limit);
  const std::string need = size_text(estimate.gpu_bytes()), have = size_text(limit);
  reporter.good("zero_optimization.stage", {cat("states take ", need, " of ", have, " a GPU, activations not counted"),
                                            cat("模型状态占每卡 ", have, " 中的 ", need, "，不含激活")});
}

// What the stage means, where nothing is known that speaks against it.
void stage(const Subject& subject, Reporter& reporter) {
  switch (subject.zero().stage) {
    case 1: return reporter.good("zero_optimization.stage", {"optimizer state is sharded", "优化器状态分片"});
    case 2:
      return reporter.good("zero_optimization.stage",
                           {"optimizer state and gradients are sharded: memory for little traffic",
                            "优化器状态和梯度分片，兼顾性能和显存"});
    case 3: return reporter.good("zero_optimization.stage", {"parameters are sharded too", "参数也分片"});
    default: return;
  }
}

void needless_offload(const Subject& subject, Reporter& reporter) {
  if (!known(subject) || subject.zero().stage == 0) return;
  Resolved tried = subject.resolved();
  const bool optimizer = tried.zero_optimization.offload_optimizer.device == OffloadDevice::kCpu;
  if (!optimizer) return;
  tried.zero_optimization.offload_optimizer.device = OffloadDevice::kNone;
  const auto limit = static_cast<double>(*subject.machine.gpu_bytes);
  const double without = estimate_memory(tried, *subject.machine.params, subject.reading.world).gpu_bytes();
  if (without > kRoomy * limit) {
    return reporter.good("zero_optimization.offload_optimizer.device",
                         {"the optimizer would crowd the GPU", "优化器状态留在 GPU 上会太挤"});
  }
  reporter.problem(
      "zero_optimization.offload_optimizer.device",
      {cat("without offload the states take ", size_text(without), " of ", size_text(limit),
           ": the optimizer fits on the GPU and runs several times faster there"),
       cat("不卸载时模型状态占 ", size_text(without), " / ", size_text(limit), "：优化器放得下，而且在 GPU 上快数倍")},
      {"keep it on the GPU", "留在 GPU 上"}, "\"none\"");
}

struct MicroBatch {
  double gpu_gigabytes;
  int64_t micro;
  int64_t batch;
};
constexpr MicroBatch kAdvised[] = {{80, 32, 1024}, {40, 16, 512}, {24, 8, 256}};

void micro_batch(const Subject& subject, Reporter& reporter) {
  if (!subject.machine.gpu_bytes) return;
  const double gigabytes_here = static_cast<double>(*subject.machine.gpu_bytes) / (1 << 30);
  const auto* row = std::find_if(std::begin(kAdvised), std::end(kAdvised),
                                 [&](const MicroBatch& m) { return gigabytes_here >= m.gpu_gigabytes * 0.95; });
  if (row == std::end(kAdvised)) return;
  const int64_t micro = subject.resolved().train_micro_batch_size_per_gpu;
  const std::string_view path = "train_micro_batch_size_per_gpu";
  const std::string usual = cat(row->micro, " (batch ", row->batch, ")");
  if (micro * 2 >= row->micro && micro <= row->micro * 2) {
    return reporter.good(path, {cat("near the usual ", usual, " for ", row->gpu_gigabytes, " GB"),
                                cat("接近 ", row->gpu_gigabytes, " GB 显存的常用值 ", usual)});
  }
  const bool large = micro > row->micro;
  reporter.problem(path,
                   {cat(micro, large ? " may not fit" : " may leave the GPU idle", ": on ", row->gpu_gigabytes,
                        " GB a micro batch of ", usual, " is usual"),
                    cat(micro, large ? " 可能放不下" : " 可能让 GPU 空闲", "：", row->gpu_gigabytes,
                        " GB 显存常用的微批次是 ", usual)},
                   {cat("try ", row->micro, ", and keep train_batch_size = micro x accumulation x world"),
                    cat("试试 ", row->micro, "，并保持 train_batch_size = 微批次 × 累积 × 卡数")});
}

constexpr Rule kMemoryRules[] = {
    {{"memory/stage", Severity::kAdvice, "the ZeRO stage, and what it shards", "ZeRO stage 及其分片内容",
      "Each stage trades traffic for memory.", "每一级都用通信换显存。"},
     stage},
    {{"memory/fits", Severity::kWarning, "parameters, gradients and optimizer state do not fit the GPU",
      "参数、梯度和优化器状态放不下", "The run would end with an out-of-memory error, minutes after it started.",
      "训练会在启动几分钟后因显存不足而终止。"},
     fits},
    {{"memory/needless-offload", Severity::kAdvice, "the optimizer is on the CPU though it would fit the GPU",
      "优化器放得下却卸载到 CPU", "A CPU step and two copies cost several times the GPU's step.",
      "CPU 更新加两次拷贝的代价是 GPU 更新的数倍。"},
     needless_offload},
    {{"memory/micro-batch", Severity::kAdvice, "a micro batch far from what is usual for the memory",
      "微批次与显存不相称", "Usual: 8 on 24 GB, 16 on 40 GB, 32 on 80 GB.",
      "常用：24 GB 用 8，40 GB 用 16，80 GB 用 32。"},
     micro_batch},
};

}  // namespace

std::span<const Rule> memory_rules() { return kMemoryRules; }

}  // namespace weft::doctor
