// Stage 3 and offload: when to go there, and what to mind once there.
#include <algorithm>

#include "weft/base/text.h"
#include "weft/base/units.h"
#include "weft/doctor/rules/rule.h"

namespace weft::doctor {
namespace {

using config::OffloadDevice;
using config::Severity;

constexpr double kLargeModel = 20e9;

void large_model(const Subject& subject, Reporter& reporter) {
  const double params = subject.machine.params.value_or(0);
  if (params < kLargeModel) return;
  if (subject.zero().stage == 3)
    return reporter.good("zero_optimization.stage",
                         {"a model above 20B needs sharded parameters", "20B 以上的模型需要分片参数"});
  reporter.problem("zero_optimization.stage",
                   {cat("a model of ", format_count(static_cast<int64_t>(params)),
                        " parameters, and every GPU holds them all; above 20B shard them (stage 3), with offload to "
                        "the CPU where they still do not fit"),
                    cat("模型有 ", format_count(static_cast<int64_t>(params)),
                        " 参数，而每张卡都保存全部；20B 以上请用 stage 3 分片，仍放不下时再卸载到 CPU")},
                   {"stage 3, with offload_optimizer and offload_param on the CPU",
                    "改用 stage 3，并把 offload_optimizer 和 offload_param 设为 cpu"},
                   "3");
}

void prefetch(const Subject& subject, Reporter& reporter) {
  const auto& zero = subject.zero();
  if (zero.stage != 3) return;
  const std::string_view path = "zero_optimization.stage3_prefetch_bucket_size";
  if (zero.stage3_prefetch_bucket_size == 0) {
    reporter.problem(
        path,
        {"0 switches prefetch off: every layer waits for its parameters", "0 会关闭预取：每一层都要等待自己的参数"},
        {"use 50000000", "改为 5e7"}, "50000000");
  } else if (zero.stage3_prefetch_bucket_size > zero.stage3_max_live_parameters) {
    reporter.problem(
        path,
        {"prefetch is larger than stage3_max_live_parameters lets live: it can never run ahead that far",
         "预取大小超过 stage3_max_live_parameters，永远达不到"},
        {cat("at most ", zero.stage3_max_live_parameters), cat("不超过 ", zero.stage3_max_live_parameters)},
        cat(std::min<int64_t>(zero.stage3_max_live_parameters, 50'000'000)));
  } else {
    reporter.good(path, {"parameters arrive ahead of their use", "参数会提前到达"});
  }
}

void persistence(const Subject& subject, Reporter& reporter) {
  const auto& zero = subject.zero();
  if (zero.stage != 3) return;
  const std::string_view path = "zero_optimization.stage3_param_persistence_threshold";
  if (zero.stage3_param_persistence_threshold >= 1000)
    return reporter.good(path, {"biases and norms stay on every rank", "偏置和归一化参数常驻各卡"});
  reporter.problem(path,
                   {"biases and norms are gathered one by one, thousands of tiny messages a step; kept on every rank "
                    "they cost next to nothing",
                    "偏置和归一化参数会被逐个聚合，每步成千上万条小消息；常驻各卡几乎不占显存"},
                   {"use 100000", "改为 1e5"}, "100000");
}

void live(const Subject& subject, Reporter& reporter) {
  const auto& zero = subject.zero();
  if (zero.stage != 3) return;
  for (const std::string_view path :
       {"zero_optimization.stage3_max_live_parameters", "zero_optimization.stage3_max_reuse_distance"}) {
    const int64_t elements = subject.reading.value(path).integer;
    if (elements >= 10'000'000) {
      reporter.good(path, {"room for the layers in use", "足够容纳正在使用的层"});
    } else {
      reporter.problem(path,
                       {cat(elements,
                            " elements are less than a layer of most models: parameters are dropped and gathered again "
                            "within one pass"),
                        cat(elements, " 个元素比多数模型的一层还小：一次前向中参数会被反复释放和聚合")},
                       {"use 500000000 or more", "改为 5e8 或更大"}, "500000000");
    }
  }
}

void whole_weights(const Subject& subject, Reporter& reporter) {
  const auto& zero = subject.zero();
  if (zero.stage != 3) return;
  const std::string_view path = "zero_optimization.stage3_gather_16bit_weights_on_model_save";
  if (zero.stage3_gather_16bit_weights_on_model_save)
    return reporter.good(path, {"a saved model holds whole weights", "保存的模型包含完整权重"});
  reporter.problem(
      path,
      {"until this is on, a 16-bit save from stage 3 has no weights: DeepSpeed writes empty placeholders of "
       "a few KB, weft's save_16bit_model() writes nothing and returns false",
       "stage 3 下不开启它，16 位保存不含权重：DeepSpeed 只写几 KB 的空占位，weft 的 save_16bit_model() "
       "什么都不写并返回 false"},
      {"switch it on, or export from a checkpoint", "开启它，或从检查点导出"}, "true");
}

void nvme(const Subject& subject, Reporter& reporter) {
  const auto& zero = subject.zero();
  const std::pair<std::string, OffloadDevice> tiers[] = {
      {"zero_optimization.offload_optimizer", zero.offload_optimizer.device},
      {"zero_optimization.offload_param", zero.offload_param.device}};
  for (const auto& [section, device] : tiers) {
    if (device != OffloadDevice::kNvme) continue;
    const bool optimizer = section.ends_with("optimizer");
    if (optimizer && (zero.stage == 1 || zero.stage == 2)) {
      reporter.problem(section + ".device",
                       {cat("NVMe offload needs stage 3; in stage ", zero.stage, " DeepSpeed quietly uses the CPU"),
                        cat("NVMe 卸载需要 stage 3；stage ", zero.stage, " 下 DeepSpeed 会悄悄用 CPU")},
                       {"write cpu, or use stage 3", "写成 cpu，或改用 stage 3"}, "\"cpu\"");
      continue;
    }
    const bool has_path = (optimizer ? zero.offload_optimizer.nvme_path : zero.offload_param.nvme_path).has_value();
    if (has_path) continue;
    reporter.problem(section + ".nvme_path",
                     {"NVMe offload without nvme_path: DeepSpeed accepts it and fails once it wants to swap",
                      "NVMe 卸载却没有 nvme_path：DeepSpeed 会接受，直到换出时才失败"},
                     {"name a folder on a local NVMe disk", "写上本地 NVMe 盘的目录"});
  }
}

void offload_without_stage(const Subject& subject, Reporter& reporter) {
  const auto& zero = subject.zero();
  if (zero.stage != 0 || zero.offload_optimizer.device == OffloadDevice::kNone) return;
  reporter
      .problem("zero_optimization.offload_optimizer.device",
               {"the optimizer is offloaded but stage is 0: DeepSpeed picks its CPU optimizer for parameters on the "
                "GPU and fails at the first step",
                "stage 为 0 却卸载优化器：DeepSpeed 会为 GPU 参数选用 CPU 优化器，第一步就失败"},
               {"set stage 1, 2 or 3", "把 stage 设为 1、2 或 3"})
      .edits = {{config::Edit::Kind::kSet, "zero_optimization.stage", "", "2"}};
}

void small_model(const Subject& subject, Reporter& reporter) {
  const double params = subject.machine.params.value_or(0);
  const auto& zero = subject.zero();
  const bool offloads =
      zero.offload_param.device != OffloadDevice::kNone || zero.offload_optimizer.device != OffloadDevice::kNone;
  if (zero.stage != 3 || params == 0 || params > 1e9 || offloads) return;
  reporter.problem("zero_optimization.stage",
                   {cat(format_count(static_cast<int64_t>(params)),
                        " parameters fit every GPU; stage 3 gathers them twice a step for nothing"),
                    cat(format_count(static_cast<int64_t>(params)), " 参数每张卡都放得下；stage 3 每步要白白聚合两次")},
                   {"stage 1 or 2 is faster", "stage 1 或 2 更快"}, "2");
}

constexpr Rule kZero3Rules[] = {
    {{"zero3/large-model", Severity::kWarning, "a model above 20B without sharded parameters",
      "20B 以上的模型没有分片参数", "16-bit parameters alone are 40 GB on every GPU.", "仅 16 位参数每卡就要 40 GB。"},
     large_model},
    {{"zero3/small-model", Severity::kAdvice, "stage 3 for a model that fits every GPU", "小模型使用 stage 3",
      "Each parameter is gathered in forward and again in backward.", "每个参数在前向和反向各聚合一次。"},
     small_model},
    {{"zero3/prefetch", Severity::kWarning, "prefetch is off or cannot run", "预取关闭或无法生效",
      "Layers wait for their parameters.", "各层都要等待参数。"},
     prefetch},
    {{"zero3/persistence", Severity::kWarning, "tiny parameters are sharded", "极小的参数也被分片",
      "Thousands of latency-bound gathers a step.", "每步成千上万次受延迟限制的聚合。"},
     persistence},
    {{"zero3/live", Severity::kWarning, "room for less than a layer", "可驻留的参数少于一层",
      "The same parameters are gathered again and again.", "同样的参数被反复聚合。"},
     live},
    {{"zero3/whole-weights", Severity::kAdvice, "a 16-bit save will hold no weights", "16 位保存不含权重",
      "The gathered copy is what other tools load.", "其他工具加载的是聚合后的权重。"},
     whole_weights},
    {{"zero3/nvme", Severity::kWarning, "NVMe offload that cannot work", "NVMe 卸载无法工作",
      "DeepSpeed does not check it when it reads the file.", "DeepSpeed 读取时不会检查。"},
     nvme},
    {{"zero3/offload-stage0", Severity::kError, "optimizer offload without ZeRO", "没有 ZeRO 却卸载优化器",
      "Nothing checks it until the first step fails.", "直到第一步失败才会发现。"},
     offload_without_stage},
};

}  // namespace

std::span<const Rule> zero3_rules() { return kZero3Rules; }

}  // namespace weft::doctor
