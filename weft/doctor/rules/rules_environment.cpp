// Environment variables that launch scripts set: which exist, which do nothing, which hurt.
#include <algorithm>
#include <array>

#include "weft/base/text.h"
#include "weft/doctor/rules/rule.h"

namespace weft::doctor {
namespace {

using config::OffloadDevice;
using config::Severity;
using config::Words;

// What DeepSpeed 0.19.8 reads under its own prefixes; DS_BUILD_* switch parts of its installation.
constexpr std::string_view kReadByDeepSpeed[] = {
    "DS_ACCELERATOR",
    "DS_ALLOW_DEPRECATED_FP16",
    "DS_DC_OFFLOAD_ACT_BUDGET_GB",
    "DS_DC_OFFLOAD_ACT_MARGIN",
    "DS_DC_OFFLOAD_ACT_MIN_SIZE_MB",
    "DS_DC_OFFLOAD_OPT_BUDGET_GB",
    "DS_DEBUG_CUDA_BUILD",
    "DS_ENV_FILE",
    "DS_EVOFORMER_GPU_ARCH",
    "DS_IGNORE_CUDA_DETECTION",
    "DS_NVCC_THREADS",
    "DS_PIN_MEMORY_BACKEND",
    "DS_PIN_MEMORY_REGISTER_DEVICE",
    "DS_SDMA_ALLGATHER",
    "DS_SDMA_ALLGATHER_MAX_NUMEL",
    "DS_SKIP_CUDA_CHECK",
    "DEEPSPEED_TIMEOUT",
};

std::string path_of(std::string_view name) { return cat("environment.", name); }

void unread(const Subject& subject, Reporter& reporter) {
  for (const auto& [name, value] : subject.machine.environment) {
    const bool theirs = name.starts_with("DS_") || name.starts_with("DEEPSPEED_");
    const bool known =
        name.starts_with("DS_BUILD_") ||
        std::find(std::begin(kReadByDeepSpeed), std::end(kReadByDeepSpeed), name) != std::end(kReadByDeepSpeed);
    if (!theirs || known) continue;
    reporter
        .problem(path_of(name),
                 {cat(name, " does nothing: no version of DeepSpeed from 0.9.5 to 0.19.8 reads it"),
                  cat(name, " 没有任何作用：DeepSpeed 0.9.5 到 0.19.8 都不读取它")},
                 {cat("unset ", name), cat("unset ", name)})
        .current = value;
  }
}

struct Harmful {
  std::string_view name;
  std::string_view value;  // empty: any value but 0
  std::string_view en;
  std::string_view zh;
  std::string_view fix_en;
  std::string_view fix_zh;
};

constexpr Harmful kHarmful[] = {
    {"CUDA_LAUNCH_BLOCKING", "1",
     "every kernel waits for the one before: nothing overlaps, training is several times slower",
     "每个内核都要等前一个：完全无法重叠，训练慢数倍", "for debugging only: unset it", "只用于调试：请 unset"},
    {"CUDA_DEVICE_MAX_CONNECTIONS", "1",
     "one hardware queue for all streams: a reduction waits behind the kernels launched before it. Megatron's tensor "
     "parallelism wants that; ZeRO's overlap does not",
     "所有流共用一个硬件队列：通信要排在先发射的内核之后。Megatron 张量并行需要它，ZeRO 的重叠不需要",
     "unset it for data parallelism", "数据并行时请 unset"},
    {"TORCH_DISTRIBUTED_DEBUG", "DETAIL", "every collective is checked across ranks first",
     "每次集合通信都要先跨卡校验", "OFF for long runs", "正式训练时设为 OFF"},
    {"NCCL_P2P_DISABLE", "1", "GPUs of one host talk through host memory instead of directly",
     "同机 GPU 之间改走主机内存", "unset it, unless the driver makes you", "若驱动没有问题请 unset"},
    {"NCCL_IB_DISABLE", "1", "hosts talk over TCP instead of InfiniBand", "主机之间用 TCP 而不是 InfiniBand",
     "unset it where there is InfiniBand", "有 InfiniBand 时请 unset"},
    {"NCCL_DEBUG", "TRACE", "NCCL logs every operation", "NCCL 会记录每个操作", "WARN is enough", "WARN 足够"},
    {"PYTORCH_NO_CUDA_MEMORY_CACHING", "", "every tensor is a cudaMalloc", "每个张量都要 cudaMalloc",
     "for debugging only: unset it", "只用于调试：请 unset"},
};

void harmful(const Subject& subject, Reporter& reporter) {
  for (const Harmful& one : kHarmful) {
    const auto found = subject.machine.environment.find(one.name);
    if (found == subject.machine.environment.end()) continue;
    const bool bad = one.value.empty() ? found->second != "0" : found->second == one.value;
    if (!bad) continue;
    reporter
        .problem(path_of(one.name),
                 {cat(one.name, "=", found->second, ": ", one.en), cat(one.name, "=", found->second, "：", one.zh)},
                 {std::string(one.fix_en), std::string(one.fix_zh)})
        .current = found->second;
  }
}

void no_effect(const Subject& subject, Reporter& reporter) {
  const auto found = subject.machine.environment.find("CUDA_AUTO_BOOST");
  if (found == subject.machine.environment.end()) return;
  reporter
      .problem(path_of("CUDA_AUTO_BOOST"),
               {"CUDA_AUTO_BOOST exists, but only Kepler-era GPUs listen to it",
                "CUDA_AUTO_BOOST 确实存在，但只对 Kepler 时代的 GPU 有效"},
               {"nvidia-smi -lgc fixes clocks on current ones", "当前的 GPU 用 nvidia-smi -lgc 锁频"})
      .current = found->second;
}

void allocator(const Subject& subject, Reporter& reporter) {
  const auto found = subject.machine.environment.find("PYTORCH_CUDA_ALLOC_CONF");
  if (found == subject.machine.environment.end()) return;
  const bool splits = found->second.find("max_split_size_mb") != std::string::npos;
  if (!splits || found->second.find("expandable_segments:True") != std::string::npos) return;
  reporter
      .problem(
          path_of("PYTORCH_CUDA_ALLOC_CONF"),
          {"max_split_size_mb limits fragments by refusing to split large blocks: buckets and gathered layers then "
           "come from cudaMalloc again and again",
           "max_split_size_mb 通过不拆分大块来限制碎片：桶和聚合的层会反复走 cudaMalloc"},
          {"expandable_segments:True ends fragmentation without that price", "expandable_segments:True 没有这个代价"})
      .current = found->second;
}

void threads(const Subject& subject, Reporter& reporter) {
  const auto found = subject.machine.environment.find("OMP_NUM_THREADS");
  const bool on_cpu = subject.zero().stage > 0 && subject.zero().offload_optimizer.device != OffloadDevice::kNone;
  if (found == subject.machine.environment.end() || found->second != "1" || !on_cpu) return;
  reporter
      .problem(path_of("OMP_NUM_THREADS"),
               {"OMP_NUM_THREADS=1 (torchrun's default) and the optimizer on the CPU: one core updates the whole shard",
                "OMP_NUM_THREADS=1（torchrun 的默认值）而优化器在 CPU 上：只有一个核在更新整个分片"},
               {"cores of the host / ranks on it", "设为 主机核数 / 本机卡数"})
      .current = found->second;
}

constexpr Rule kEnvironmentRules[] = {
    {{"environment/unread", Severity::kWarning, "a DS_ or DEEPSPEED_ variable that nothing reads",
      "没有代码读取的 DS_/DEEPSPEED_ 变量", "It comes from a page that made it up; what it promises does not happen.",
      "它来自凭空编造的文档；承诺的效果并不存在。"},
     unread},
    {{"environment/harmful", Severity::kWarning, "a variable that slows training down", "拖慢训练的环境变量",
      "Meant for debugging or for another kind of parallelism.", "用于调试或其他并行方式。"},
     harmful},
    {{"environment/no-effect", Severity::kAdvice, "a variable without effect on current GPUs", "对当前 GPU 无效的变量",
      "It does no harm and no good.", "没有害处也没有好处。"},
     no_effect},
    {{"environment/allocator", Severity::kAdvice, "an allocator setting with a better successor",
      "分配器设置有更好的替代", "expandable_segments came with torch 2.1.", "torch 2.1 起有 expandable_segments。"},
     allocator},
    {{"environment/threads", Severity::kWarning, "one thread for an optimizer on the CPU", "CPU 优化器只用一个线程",
      "The CPU update is then the longest part of a step.", "CPU 更新会成为每步最慢的部分。"},
     threads},
};

}  // namespace

std::span<const Rule> environment_rules() { return kEnvironmentRules; }

}  // namespace weft::doctor
