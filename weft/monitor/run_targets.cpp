#include <algorithm>
#include <cmath>
#include <map>

#include "weft/base/text.h"
#include "weft/base/units.h"
#include "weft/monitor/chart_data.h"
#include "weft/monitor/numbers.h"
#include "weft/monitor/run_summary.h"

namespace weft::detail {
namespace {

const Words kNotKnown = {"not known", "未知"};

std::string percent(double share) { return cat(fixed_text(share * 100, 1), " %"); }
Words same(const std::string& text) { return {text, text}; }

void set_value(TargetRow& row, double share, bool is_met, Words how) {
  row.value = share;
  row.shown = same(percent(share));
  row.mark = is_met ? TargetMark::kMet : TargetMark::kMissed;
  row.how = std::move(how);
}

double part(const PartTimes& parts, StepPart which) { return parts[static_cast<size_t>(which)]; }

double compute_ms(const PartTimes& parts) {
  return part(parts, StepPart::kForward) + part(parts, StepPart::kBackward) + part(parts, StepPart::kOptimizer);
}

TargetRow utilisation(const RunFiles& run, const RunSummary& summary) {
  TargetRow row{.key = "utilisation",
                .name = {"Utilisation", "利用率"},
                .target = {"above 85 %", "高于 85 %"},
                .shown = kNotKnown,
                .how = {"no counter was read", "没有计数器"}};
  const auto set = [&](double share, Words how) { set_value(row, share, share > kTargetUtilisation, std::move(how)); };
  const double gpu = mean_of(timed_values(run, &RunRow::gpu_percent));
  const double cpu = mean_of(timed_values(run, &RunRow::cpu_percent));
  const int64_t threads = run.result ? run.result->threads : 0;
  const bool on_gpu = run.result ? run.result->device == "cuda" : is_drawable(gpu);
  if (on_gpu && is_drawable(gpu)) {
    set(gpu / 100, {"busy time of the GPU, mean over the steps", "GPU 忙碌时间，各步平均"});
  } else if (!on_gpu && is_drawable(cpu) && threads > 0) {
    set(std::min(1.0, cpu / 100 / static_cast<double>(threads)),
        {cat("processor time of rank 0 over its ", threads, threads == 1 ? " thread" : " threads"),
         cat("rank 0 的处理器时间（", threads, " 个线程）")});
  } else if (!on_gpu && summary.parts_ms) {
    double total = 0;
    for (const double ms : *summary.parts_ms) total += ms;
    if (total > 0)
      set(compute_ms(*summary.parts_ms) / total,
          {"forward, backward and optimizer in the step's time", "前向、反向与优化器占一步的比例"});
  }
  return row;
}

TargetRow communication(const RunSummary& summary) {
  TargetRow row{.key = "communication",
                .name = {"Communication", "通信"},
                .target = {"below 20 % of computing", "低于计算的 20 %"},
                .shown = kNotKnown,
                .how = {"the parts of the steps were not recorded", "没有记录各步的组成"}};
  if (!summary.parts_ms || compute_ms(*summary.parts_ms) <= 0) return row;
  const double share = part(*summary.parts_ms, StepPart::kExposedComm) / compute_ms(*summary.parts_ms);
  set_value(row, share, share < kTargetCommunication,
            {"waits that no computation hides, to computing, means over the steps",
             "未被计算掩盖的等待与计算之比，各步平均"});
  return row;
}

// Its part of its host's memory; of older runs the most that was resident, or what is now.
double held_bytes(const RankRow& rank) {
  for (const double bytes : {rank.host_bytes, rank.peak_rss_bytes, rank.rss_bytes})
    if (is_drawable(bytes)) return bytes;
  return 0;
}

// What the ranks of the fullest host held together, as if all peaks were at one time: they do the same work side by side. Of rank 0
// more may be known, as result.json comes last.
double host_bytes(const RunFiles& run, const RunSummary& summary) {
  std::map<std::string, double> by_host;
  if (run.ranks) {
    for (const RankRow& rank : run.ranks->ranks) by_host[rank.host] += held_bytes(rank);
  }
  double most = is_drawable(summary.peak_bytes) ? summary.peak_bytes : 0;
  for (const auto& [host, bytes] : by_host) most = std::max(most, bytes);
  return most;
}

// What is held from the driver, as the live page judges it: memory that no tensor uses is not there for others. Of the
// fullest that is known.
double device_bytes(const RunFiles& run, const RunSummary& summary) {
  double most = summary.peak_bytes;
  const auto grow = [&](double bytes) { most = bytes > 0 && !(bytes <= most) ? bytes : most; };
  for (const RunRow& row : run.rows) grow(row.device_reserved_bytes), grow(row.peak_device_reserved_bytes);
  if (!run.ranks) return most;
  for (const RankRow& rank : run.ranks->ranks) grow(rank.device_reserved_bytes), grow(rank.peak_device_reserved_bytes);
  return most;
}

TargetRow memory(const RunFiles& run, const RunSummary& summary) {
  TargetRow row{.key = "memory",
                .name = {"Memory", "内存"},
                .target = {"below 80 %", "低于 80 %"},
                .shown = kNotKnown,
                .how = {"no peak was recorded", "没有记录峰值"}};
  const bool on_device = summary.peak_is_on_device;
  const double used = on_device ? device_bytes(run, summary) : host_bytes(run, summary);
  if (!is_drawable(used) || used <= 0) return row;
  const std::string bytes = format_bytes(static_cast<uint64_t>(std::min(used, 1e18)));
  const double size = !run.result ? kUnknown
                      : on_device ? run.result->device_memory_bytes
                                  : run.result->host_memory_bytes;
  if (!(size > 0)) {
    row.how = {cat(bytes, " at the peak; how much there is was not recorded"), cat("峰值 ", bytes, "；总量没有记录")};
    return row;
  }
  const std::string whole = format_bytes(static_cast<uint64_t>(std::min(size, 1e18)));
  set_value(row, used / size, used / size < kTargetMemory,
            {cat(bytes, " of ", whole, on_device ? " on the device" : " of the host"),
             cat(whole, on_device ? " 显存中的 " : " 主机内存中的 ", bytes)});
  return row;
}

// There is no number that a throughput should have; that it does not fall away can be asked of every run.
TargetRow throughput(const RunFiles& run, const RunSummary& summary) {
  TargetRow row{.key = "throughput",
                .name = {"Throughput", "吞吐量"},
                .target = {"does not fall by 10 %", "不下降 10 %"},
                .shown = kNotKnown,
                .how = {"no rate was recorded", "没有记录速率"}};
  const bool has_tokens = is_drawable(summary.tokens_per_s);
  const double median = has_tokens ? summary.tokens_per_s : summary.samples_per_s;
  if (!is_drawable(median) || median <= 0 || median > 1e18) return row;
  const auto values = timed_values(run, has_tokens ? &RunRow::tokens_per_s : &RunRow::samples_per_s);
  const size_t tenth = std::max<size_t>(1, values.size() / 10);
  const double last = median_of({values.end() - static_cast<std::ptrdiff_t>(tenth), values.end()});
  row.value = median;
  row.shown = {cat(format_count(std::llround(median)), has_tokens ? " tokens/s" : " samples/s"),
               cat(format_count(std::llround(median)), has_tokens ? " 词元/秒" : " 样本/秒")};
  row.mark = values.size() < 20 ? TargetMark::kNone : last >= 0.9 * median ? TargetMark::kMet : TargetMark::kMissed;
  row.how = {cat("median; the last tenth of the steps reached ", percent(last / median), " of it"),
             cat("中位数；最后十分之一的步达到其 ", percent(last / median))};
  return row;
}

TargetRow flops(const RunSummary& summary) {
  return {.key = "mfu",
          .name = {"Model FLOPs utilisation", "模型算力利用率"},
          .target = {"no target", "无目标"},
          .value = summary.mfu,
          .shown = same(percent(summary.mfu)),
          .how = {"median over the steps", "各步中位数"},
          .mark = TargetMark::kNone};
}

TargetRow fragmentation(double share) {
  return {.key = "fragmentation",
          .name = {"Fragmentation", "显存碎片"},
          .target = {"no target", "无目标"},
          .value = share,
          .shown = same(percent(share)),
          .how = {"of the device memory that is held, the part that no tensor uses; mean over the steps",
                  "已占用显存中未被张量使用的部分，各步平均"},
          .mark = TargetMark::kNone};
}

}  // namespace

std::vector<TargetRow> targets_of(const RunFiles& run, const RunSummary& summary) {
  std::vector<TargetRow> out = {utilisation(run, summary), communication(summary), memory(run, summary),
                                throughput(run, summary)};
  if (is_drawable(summary.mfu)) out.push_back(flops(summary));
  const double unused = mean_of(timed_values(run, &RunRow::device_fragmentation));
  if (is_drawable(unused)) out.push_back(fragmentation(unused));
  return out;
}

}  // namespace weft::detail
