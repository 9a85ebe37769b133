#include "weft/engine/flops_table.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "weft/base/text.h"
#include "weft/monitor/numbers.h"

namespace weft::engine {
namespace {

std::string giga(double value) { return cat(significant_text(value * 1e-9, 4), " G"); }

std::string padded(std::string text, size_t width) {
  text.resize(std::max(width, text.size()), ' ');
  return text;
}

std::string total_line(const FlopCount& count, const FlopsOf& of) {
  const auto total = static_cast<double>(count.total);
  std::string out = cat("FLOPs of step ", of.step, " on this rank: ", giga(total), "FLOP");
  if (of.step_ms <= 0) return out;
  const double rate = total / (of.step_ms * 1e-3);
  out += cat(" in ", fixed_text(of.step_ms, 1), " ms: ", giga(rate), "FLOP/s");
  if (of.peak_flops_per_s > 0) out += cat(", ", fixed_text(100 * rate / of.peak_flops_per_s, 1), " % of the peak");
  return out;
}

}  // namespace

std::string flops_table(const FlopCount& count, const FlopsOf& of) {
  std::string out = total_line(count, of);
  if (of.only_total) return out;
  std::vector<std::pair<int64_t, std::string>> rows;
  for (const auto& [name, flops] : count.by_operator) rows.emplace_back(flops, name);
  std::ranges::sort(rows, std::greater());
  size_t width = 0;
  for (const auto& [flops, name] : rows) width = std::max(width, name.size());
  for (const auto& [flops, name] : rows) {
    const double share = count.total > 0 ? 100.0 * static_cast<double>(flops) / static_cast<double>(count.total) : 0;
    out += cat("\n  ", padded(name, width), "  ", padded(cat(count.calls.at(name), " calls"), 11), "  ",
               padded(cat(giga(static_cast<double>(flops)), "FLOP"), 14), "  ", fixed_text(share, 1), " %");
  }
  return out;
}

}  // namespace weft::engine
