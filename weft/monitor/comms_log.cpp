#include "weft/monitor/comms_log.h"

#include <algorithm>

#include "weft/base/log.h"
#include "weft/base/text.h"
#include "weft/base/units.h"
#include "weft/monitor/numbers.h"
#include "weft/monitor/terminal.h"

namespace weft {
namespace {

// "all_gather" for all_gather_into_tensor, "send" for isend: the names of torch.distributed, which DeepSpeed's configs use.
std::string_view our_name(std::string_view name) {
  constexpr std::string_view kEndings[] = {"_into_tensor", "_tensor", "_single", "_base", "_coalesced", "_fn"};
  for (const std::string_view ending : kEndings) {
    if (name.ends_with(ending)) name.remove_suffix(ending.size());
  }
  if (name == "inference_all_reduce") return "all_reduce";
  return name == "isend" || name == "irecv" ? name.substr(1) : name;
}

std::string ms_text(int64_t ns) { return fixed_text(static_cast<double>(ns) * 1e-6, 2); }

std::string line_of(const CommsCall& call) {
  const CommsBandwidth rate = bandwidth_of(call);
  return cat("comm op: ", call.operation, " | time (ms): ", ms_text(call.ns), " | msg size: ", format_bytes(call.bytes),
             " | algbw (Gbps): ", fixed_text(rate.algorithm_gbps, 2),
             " | busbw (Gbps): ", fixed_text(rate.bus_gbps, 2));
}

std::string padded(std::initializer_list<std::string> cells) {
  constexpr int kColumns = 20;
  std::string out;
  for (const std::string& cell : cells) out += pad_columns(cell, kColumns);
  out.erase(out.find_last_not_of(' ') + 1);
  return out;
}

}  // namespace

CommsBandwidth bandwidth_of(const CommsCall& call) {
  if (call.ns <= 0) return {};
  const double gbps =
      static_cast<double>(call.bytes) * 8 / static_cast<double>(call.ns);  // bits a ns are Gbit a second
  const double others = static_cast<double>(call.ranks - 1) / static_cast<double>(std::max(1, call.ranks));
  if (call.operation == "all_reduce") return {.algorithm_gbps = 2 * gbps, .bus_gbps = 2 * gbps * others};
  const bool passes_parts =
      call.operation == "all_gather" || call.operation == "reduce_scatter" || call.operation == "all_to_all";
  return {.algorithm_gbps = gbps, .bus_gbps = passes_parts ? gbps * others : gbps};
}

void CommsLog::start(CommsLogOptions options) {
  const std::scoped_lock lock(mutex_);
  options_ = std::move(options);
  totals_.clear();
  is_on_.store(true, std::memory_order_relaxed);
}

bool CommsLog::wants(std::string_view operation) const {
  const auto is_it = [&](const std::string& name) { return our_name(name) == operation; };
  return options_.all || std::ranges::any_of(options_.operations, is_it);
}

void CommsLog::add(const CommsCall& call) {
  bool says_it = false;
  {
    const std::scoped_lock lock(mutex_);
    if (!wants(call.operation)) return;
    Total& total = totals_[{std::string(call.operation), call.bytes, call.ranks}];
    ++total.count;
    total.ns += call.ns;
    says_it = options_.verbose;
  }
  if (says_it) log_info(line_of(call));
}

std::vector<CommsRow> CommsLog::rows() const {
  const std::scoped_lock lock(mutex_);
  std::vector<CommsRow> out;
  for (const auto& [key, total] : totals_) {
    const auto& [operation, bytes, ranks] = key;
    out.push_back({.operation = operation, .bytes = bytes, .ranks = ranks, .count = total.count, .total_ns = total.ns});
  }
  return out;
}

CommsLog& comms_log() {
  static CommsLog log;
  return log;
}

std::vector<std::string> comms_table(std::span<const CommsRow> rows) {
  std::vector<std::string> out = {padded({"Comm. Op", "Message Size", "Count", "Total Latency(ms)", "Avg Latency(ms)",
                                          "tput_avg (Gbps)", "busbw_avg (Gbps)"})};
  std::string_view operation;
  for (const CommsRow& row : rows) {
    if (row.operation != operation) out.push_back(row.operation);
    operation = row.operation;
    const CommsBandwidth rate =
        bandwidth_of({.operation = row.operation, .bytes = row.bytes, .ranks = row.ranks, .ns = row.mean_ns()});
    out.push_back(padded({"", format_bytes(row.bytes), cat(row.count), ms_text(row.total_ns), ms_text(row.mean_ns()),
                          fixed_text(rate.algorithm_gbps, 2), fixed_text(rate.bus_gbps, 2)}));
  }
  return out;
}

}  // namespace weft
