// Settings that cost time and change nothing else. Where only DeepSpeed's time depends on one, the words say so.
#include "weft/base/text.h"
#include "weft/config/lower.h"
#include "weft/doctor/rules/rule.h"

namespace weft::doctor {
namespace {

using config::OffloadDevice;
using config::Severity;
using config::Words;

constexpr int64_t kRareSteps = 500;  // beyond this a person watching sees nothing happen

bool sharded(const Subject& subject) { return subject.zero().stage > 0; }
bool several_ranks(const Subject& subject) {
  return subject.reading.world > 1 || subject.reading.world_origin.kind == config::Origin::Kind::kDefault;
}

void overlap(const Subject& subject, Reporter& reporter) {
  if (!sharded(subject) || !several_ranks(subject)) return;
  const std::string_view path = "zero_optimization.overlap_comm";
  if (subject.zero().overlap_comm) return reporter.good(path, {"reduction runs behind backward", "通信与反向计算重叠"});
  config::Problem& problem = reporter.problem(
      path,
      {"gradients wait for the end of backward before they travel; overlapped, the reduction hides behind "
       "it (10-30 % of a step where links are slow)",
       "梯度要等反向结束才开始通信；重叠后通信被计算隐藏（慢链路上可省 10-30% 的步时）"},
      {"switch it on", "开启它"}, "true");
  // Said, it is a decision to question; unsaid, it is DeepSpeed's default, which Accelerate's YAML cannot even change.
  if (!subject.reading.given(path)) problem.severity = Severity::kAdvice;
}

void contiguous(const Subject& subject, Reporter& reporter) {
  if (!sharded(subject)) return;
  const std::string_view path = "zero_optimization.contiguous_gradients";
  if (subject.zero().contiguous_gradients)
    return reporter.good(path, {"one flat buffer: no fragments, no copies", "梯度在连续内存中，无碎片"});
  const bool keeps_none = subject.zero().stage >= 2;
  reporter.problem(path,
                   {cat("gradients scattered over memory must be gathered before every reduction, and fragment it",
                        keeps_none ? "; so in DeepSpeed: weft keeps no whole gradients in this stage" : ""),
                    cat("梯度分散在显存各处，每次归约都要先拼接，还会产生碎片",
                        keeps_none ? "；这是 DeepSpeed 的情况，weft 在这一 stage 不保存完整梯度" : "")},
                   {"switch it on", "开启它"}, "true");
}

void reduce_scatter(const Subject& subject, Reporter& reporter) {
  if (!sharded(subject)) return;
  const std::string_view path = "zero_optimization.reduce_scatter";
  if (subject.reading.value(path).boolean)
    return reporter.good(path, {"each rank receives only its slice", "每卡只接收自己的一片"});
  // In stages 1 and 2 DeepSpeed all-reduces either way.
  if (subject.zero().stage < 3) return;
  reporter.problem(path,
                   {"DeepSpeed then all-reduces: twice the bytes of a reduce-scatter, most of them thrown away; weft "
                    "reduce-scatters in any case",
                    "DeepSpeed 会改用 all-reduce：通信量是 reduce-scatter 的两倍，多数结果被丢弃；weft 总是用 "
                    "reduce-scatter"},
                   {"switch it on", "开启它"}, "true");
}

void printing(const Subject& subject, Reporter& reporter) {
  const std::string_view path = "steps_per_print";
  const auto steps = subject.resolved().steps_per_print;
  if (!steps || !subject.reading.given(path)) return;
  if (*steps <= kRareSteps) return reporter.good(path, {"often enough to see trouble", "日志频率合适"});
  reporter.problem(path,
                   {cat("a line every ", *steps, " steps shows trouble too late"),
                    cat("每 ", *steps, " 步才打印一次，监控频率太低")},
                   {"print every 50 steps", "改为每 50 步"}, "50");
}

void fused_adam(const Subject& subject, Reporter& reporter) {
  const auto& optimizer = subject.resolved().optimizer;
  const std::string type = config::lower(optimizer.type.value_or(""));
  if (type != "adam" && type != "adamw") return;
  const config::Value* plain = optimizer.params ? optimizer.params->find("torch_adam") : nullptr;
  if (plain == nullptr || plain->kind != config::Kind::kBool || !plain->boolean) {
    return reporter.good("optimizer.type", {"the fused kernel: one pass over memory", "使用融合的 Adam 内核"});
  }
  config::Problem& problem = reporter.problem(
      "optimizer.params.torch_adam",
      {"with torch_adam DeepSpeed takes torch's optimizer instead of the fused one: several passes over memory instead "
       "of one; weft has one kernel for both",
       "torch_adam 会让 DeepSpeed 使用 torch 的优化器而不是融合版本：要多次读写显存；weft 两者用同一个内核"},
      {"remove it", "删除它"});
  problem.edits = {{config::Edit::Kind::kRemove, "optimizer.params.torch_adam"}};
}

void round_robin(const Subject& subject, Reporter& reporter) {
  const auto& zero = subject.zero();
  const std::string_view path = "zero_optimization.round_robin_gradients";
  if (zero.stage != 1 && zero.stage != 2) return;
  if (subject.reading.value(path).boolean)
    return reporter.good(path, {"DeepSpeed's ranks take turns, copies spread evenly; weft's slices are even without it",
                                "DeepSpeed 轮询分配，负载均匀；weft 的分片本来就是均匀的"});
  if (zero.offload_optimizer.device == OffloadDevice::kNone || !several_ranks(subject)) return;
  reporter.problem(
      path,
      {"with the optimizer on the CPU, DeepSpeed's gradients end up with one rank at a time, and the others "
       "wait for its copies; weft spreads them in any case",
       "优化器在 CPU 上时，DeepSpeed 的梯度依次落在同一卡，其他卡要等它拷贝；weft 本来就会分散"},
      {"switch it on (it changes the checkpoint's layout: decide before the first save)",
       "开启它（会改变检查点布局，请在首次保存前决定）"},
      "true");
}

void pinned(const Subject& subject, Reporter& reporter, std::string_view section, OffloadDevice device, bool pin) {
  if (device == OffloadDevice::kNone) return;
  const std::string path = cat(section, ".pin_memory");
  if (pin)
    return reporter.good(
        path, {"page-locked: copies run at full speed beside computation", "锁页内存：拷贝全速且可与计算重叠"});
  const bool old_default = !subject.reading.given(path);
  reporter.problem(
      path,
      {old_default ? cat("DeepSpeed ", config::format_version(subject.reading.version),
                         " does not pin host memory unless told to: copies are slow and cannot overlap")
                   : std::string("host memory that is not page-locked: copies are slow and cannot overlap computation"),
       old_default ? "这个版本默认不锁页：拷贝慢且无法重叠" : "主机内存未锁页：拷贝慢，且无法与计算重叠"},
      {"switch it on, unless the memlock limit or the host's memory is tight", "开启它，除非 memlock 限制或内存紧张"},
      "true");
}

void pin_memory(const Subject& subject, Reporter& reporter) {
  const auto& zero = subject.zero();
  if (sharded(subject))
    pinned(subject, reporter, "zero_optimization.offload_optimizer", zero.offload_optimizer.device,
           zero.offload_optimizer.pin_memory);
  if (zero.stage == 3)
    pinned(subject, reporter, "zero_optimization.offload_param", zero.offload_param.device,
           zero.offload_param.pin_memory);
}

struct Probe {
  std::string_view path;
  bool on;
};

void instruments(const Subject& subject, Reporter& reporter) {
  const auto& r = subject.resolved();
  const Probe probes[] = {
      {"wall_clock_breakdown", r.wall_clock_breakdown && subject.reading.given("wall_clock_breakdown")},
      {"flops_profiler.enabled", r.flops_profiler.enabled},
      {"comms_logger.enabled", r.comms_logger.enabled}};
  for (const Probe& probe : probes) {
    if (!probe.on) continue;
    reporter.problem(probe.path,
                     {"measures by waiting for the device: good for a look, slow for a run",
                      "测量时要等待设备：适合查看，不适合正式训练"},
                     {"switch it off for long runs", "正式训练时关闭"}, "false");
  }
}

constexpr Rule kPerformanceRules[] = {
    {{"performance/overlap", Severity::kWarning, "communication does not overlap computation", "通信没有与计算重叠",
      "Every rank idles while gradients travel.", "梯度传输时每张卡都在空等。"},
     overlap},
    {{"performance/contiguous", Severity::kWarning, "contiguous_gradients is off", "contiguous_gradients 关闭",
      "Copies before each reduction, and fragmented memory.", "每次归约前要拷贝，且显存碎片化。"},
     contiguous},
    {{"performance/reduce-scatter", Severity::kWarning, "reduce_scatter is off in stage 3",
      "stage 3 下 reduce_scatter 关闭",
      "DeepSpeed then sends twice the bytes. In stages 1 and 2 it all-reduces either way; weft never does.",
      "DeepSpeed 的通信量会翻倍。stage 1、2 下它总是用 all-reduce；weft 从不使用。"},
     reduce_scatter},
    {{"performance/printing", Severity::kWarning, "steps_per_print is so large that nobody sees trouble",
      "steps_per_print 太大", "A diverging run should be seen within minutes.", "发散应当在几分钟内被看到。"},
     printing},
    {{"performance/fused-adam", Severity::kAdvice, "torch's Adam instead of the fused one", "没有使用融合的 Adam",
      "DeepSpeed then makes more passes over memory for the same result; weft does not.",
      "DeepSpeed 为同样的结果多次读写显存；weft 不会。"},
     fused_adam},
    {{"performance/round-robin", Severity::kAdvice, "offloaded gradients without round_robin_gradients",
      "卸载时未开启 round_robin_gradients", "DeepSpeed's copies to the CPU do not spread over ranks.",
      "DeepSpeed 到 CPU 的拷贝没有分散到各卡。"},
     round_robin},
    {{"performance/pin-memory", Severity::kWarning, "offload through memory that is not page-locked",
      "卸载使用未锁页内存", "Pageable copies run at a fraction of the link and block the stream.",
      "非锁页拷贝只有链路速度的一小部分，还会阻塞流。"},
     pin_memory},
    {{"performance/instruments", Severity::kAdvice, "a profiler is on", "性能分析处于开启状态",
      "It waits for the device again and again.", "会反复等待设备。"},
     instruments},
};

}  // namespace

std::span<const Rule> performance_rules() { return kPerformanceRules; }

}  // namespace weft::doctor
