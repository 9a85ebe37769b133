#include "weft/engine/flops_table.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "weft/base/text.h"
#include "weft/monitor/numbers.h"

namespace weft::engine {
namespace {

std::string giga(double value) { return cat(significant_text(value * 1e-9, 4), " G"); }
std::string giga(int64_t value) { return giga(static_cast<double>(value)); }

std::string share_text(int64_t part, int64_t whole) {
  return cat(fixed_text(whole > 0 ? 100.0 * static_cast<double>(part) / static_cast<double>(whole) : 0, 1), " %");
}

// Cells in columns, the first `num_left` of them flush left, each line after two spaces.
std::string columns(const std::vector<std::vector<std::string>>& rows, size_t num_left) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()), 0);
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string out;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string space(widths[i] - row[i].size(), ' ');
      line += "  " + (i < num_left ? row[i] + space : space + row[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += "\n" + line;
  }
  return out;
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

FlopParts sum_of(const FlopCount& count) {
  FlopParts out = count.elsewhere;
  if (!count.modules.empty()) out += count.modules.front().flops;
  return out;
}

// The estimate is what those get who count forward alone: backward as two of it, and what they say is computed again.
std::string parts_lines(const FlopCount& count, const FlopsOf& of) {
  const FlopParts sum = sum_of(count);
  std::string out = cat("\nforward ", giga(sum.forward), "FLOP, backward ", giga(sum.backward), "FLOP, computed again ",
                        giga(sum.recomputed), "FLOP");
  if (of.recompute_fwd_factor != 0) {
    const double times = 3 + of.recompute_fwd_factor;
    out += cat("\nrecompute_fwd_factor ", significant_text(of.recompute_fwd_factor, 4), ": forward times ",
               significant_text(times, 4), " is ", giga(static_cast<double>(sum.forward) * times),
               "FLOP, an estimate; counted were ", giga(count.total), "FLOP");
  }
  return out;
}

bool is_deep(const ModuleRow& row, const FlopsOf& of) { return of.module_depth >= 0 && row.depth > of.module_depth; }

// Modules of one type, of one depth.
struct ModuleKind {
  std::string name;
  int64_t num = 0, num_parameters = 0, flops = 0;
};

std::vector<ModuleKind> kinds_at(const FlopCount& count, int depth) {
  std::map<std::string, ModuleKind> by_name;
  for (const ModuleRow& row : count.modules) {
    if (row.depth != depth) continue;
    const std::string name = !row.type.empty() ? row.type : row.name.empty() ? "the model" : row.name;
    ModuleKind& kind = by_name.try_emplace(name, ModuleKind{.name = name}).first->second;
    ++kind.num;
    kind.num_parameters += row.num_parameters;
    kind.flops += row.flops.total();
  }
  std::vector<ModuleKind> out;
  for (auto& [name, kind] : by_name) out.push_back(std::move(kind));
  std::ranges::stable_sort(out, std::greater(), &ModuleKind::flops);
  return out;
}

std::string largest(const FlopCount& count, const FlopsOf& of) {
  std::vector<std::vector<std::string>> rows = {{"depth", "largest", "modules", "parameters", "FLOP", "share"}};
  for (int depth = 0; of.module_depth < 0 || depth <= of.module_depth; ++depth) {
    const std::vector<ModuleKind> kinds = kinds_at(count, depth);
    if (kinds.empty()) break;
    const auto num_shown = static_cast<size_t>(std::max<int64_t>(0, of.top_modules));
    for (size_t i = 0; i < std::min(num_shown, kinds.size()); ++i)
      rows.push_back({cat(depth), kinds[i].name, cat(kinds[i].num), grouped_text(kinds[i].num_parameters),
                      giga(kinds[i].flops), share_text(kinds[i].flops, count.total)});
  }
  return rows.size() > 1 ? columns(rows, 2) : "";
}

std::vector<std::string> cells_of(std::string name, const std::string& type, const std::string& parameters,
                                  const FlopParts& flops, const FlopCount& count, const FlopsOf& of) {
  std::vector<std::string> out = {std::move(name),
                                  type,
                                  parameters,
                                  giga(flops.forward),
                                  giga(flops.backward),
                                  giga(flops.recomputed),
                                  share_text(flops.total(), count.total)};
  if (of.has_times) out.push_back(cat(fixed_text(static_cast<double>(flops.elapsed_ns) * 1e-6, 2), " ms"));
  return out;
}

std::string tree(const FlopCount& count, const FlopsOf& of) {
  std::vector<std::vector<std::string>> rows = {
      {"module", "type", "parameters", "forward", "backward", "again", "share"}};
  if (of.has_times) rows[0].emplace_back("time");
  for (const ModuleRow& row : count.modules) {
    if (is_deep(row, of)) continue;
    const std::string name = row.name.empty() ? "(model)" : row.name.substr(row.name.rfind('.') + 1);
    rows.push_back(cells_of(std::string(static_cast<size_t>(2 * row.depth), ' ') + name, row.type,
                            grouped_text(row.num_parameters), row.flops, count, of));
  }
  if (count.elsewhere.total() > 0) rows.push_back(cells_of("(elsewhere)", "", "", count.elsewhere, count, of));
  return columns(rows, 2);
}

std::string operators(const FlopCount& count) {
  std::vector<std::pair<int64_t, std::string>> sorted;
  for (const auto& [name, flops] : count.by_operator) sorted.emplace_back(flops, name);
  std::ranges::sort(sorted, std::greater());
  std::vector<std::vector<std::string>> rows = {{"operator", "calls", "FLOP", "share"}};
  for (const auto& [flops, name] : sorted)
    rows.push_back({name, cat(count.calls.at(name)), giga(flops), share_text(flops, count.total)});
  return columns(rows, 1);
}

}  // namespace

std::string flops_table(const FlopCount& count, const FlopsOf& of) {
  std::string out = total_line(count, of);
  if (!count.modules.empty()) out += parts_lines(count, of) + largest(count, of);
  if (!of.detailed) return out;
  if (!count.modules.empty()) out += tree(count, of);
  return out + operators(count);
}

}  // namespace weft::engine
