#include <algorithm>
#include <cmath>
#include <numeric>

#include "weft/base/text.h"
#include "weft/monitor/html.h"
#include "weft/monitor/numbers.h"
#include "weft/monitor/report_html_impl.h"
#include "weft/monitor/svg_stack.h"

namespace weft::detail {
namespace {

constexpr size_t kMaxColumns = 200;

double sum_of(const PartTimes& parts) { return std::accumulate(parts.begin(), parts.end(), 0.0); }

// Rows with parts, put together so that there are at most kMaxColumns of them.
std::vector<StackColumn> columns_of(const RunFiles& run) {
  std::vector<StackColumn> out;
  const size_t width = std::max<size_t>(1, (run.rows.size() + kMaxColumns - 1) / kMaxColumns);
  for (size_t first = 0; first < run.rows.size(); first += width) {
    StackColumn column{.x = static_cast<double>(run.rows[first].step)};
    double count = 0;
    for (size_t i = first; i < std::min(first + width, run.rows.size()); ++i) {
      const auto parts = parts_of(run.rows[i]);
      if (!parts) continue;
      ++count;
      for (size_t p = 0; p < kNumStepParts; ++p) column.means[p] += (*parts)[p];
      column.largest_total = std::max(column.largest_total, sum_of(*parts));
    }
    for (double& mean : column.means) mean /= std::max(1.0, count);
    if (count > 0) out.push_back(column);
  }
  return out;
}

void add_read_out(const std::vector<StackColumn>& columns, ReadOut& read_out) {
  std::vector<ReadOut::Series> series;
  for (size_t p = 0; p < kNumStepParts; ++p) {
    ReadOut::Series it{.name = cat(words_of(static_cast<StepPart>(p)).en, " ms"), .digits = 2};
    for (const auto& column : columns) it.points.push_back({column.x, column.means[p]});
    series.push_back(std::move(it));
  }
  ReadOut::Series largest{.name = "slowest ms", .digits = 2};
  for (const auto& column : columns) largest.points.push_back({column.x, column.largest_total});
  series.push_back(std::move(largest));
  read_out.add("parts", series);
}

std::string stack_html(std::vector<StackColumn> columns, size_t num_rows) {
  StackChart chart{.id = "parts",
                   .title = "Parts of a step, by step",
                   .description = "Milliseconds of each part of the steps, stacked; the line is the slowest step.",
                   .x_label = "step",
                   .y_label = num_rows > columns.size() ? "ms a step, means; the line is the slowest" : "ms a step",
                   .num_layers = kNumStepParts,
                   .columns = std::move(columns)};
  std::string out = cat("<div class=\"wide\">\n", render_stack_svg(chart, {.width = 984, .height = 320}), "</div>\n");
  chart.id += "-narrow";
  return out + cat("<div class=\"narrow\">\n", render_stack_svg(chart, {.width = 330, .height = 260}), "</div>\n");
}

struct Bar {
  Words name;
  double value;
  std::string_view classes, text;
};

// Bars beside their names on one scale.
std::string bars_html(const std::vector<Bar>& bars) {
  double most = 0;
  for (const Bar& bar : bars) most = std::max(most, bar.value);
  std::string out = "<dl class=\"bars\">\n";
  for (const Bar& bar : bars)
    out += cat("<div><dt>", bilingual(bar.name), "</dt><dd><i class=\"", bar.classes,
               "\" style=\"width:", fixed_text(most > 0 ? bar.value / most * 100 : 0, 2), "%\"></i><b>",
               escape_html(bar.text), "</b></dd></div>\n");
  return out + "</dl>\n";
}

// Less would be shown as nothing.
bool waits_for_ranks(const Overlap& overlap) { return overlap.wait_for_ranks_ms >= 0.005; }

std::string overlap_bars(const Overlap& overlap) {
  const std::string serial = ms_text(overlap.serial_ms()), achieved = ms_text(overlap.achieved_ms()),
                    bound = ms_text(overlap.bound_ms());
  std::vector<Bar> bars = {
      {{"one after the other", "先后进行"}, overlap.serial_ms(), "weak", serial},
      {{"achieved", "实际"}, overlap.achieved_ms(), "main", achieved},
      {{"bound, max(computing, communication)", "下界 max(计算, 通信)"}, overlap.bound_ms(), "good", bound}};
  const std::string ranks = ms_text(overlap.wait_for_ranks_ms);
  if (waits_for_ranks(overlap))
    bars.push_back({{"waiting for other ranks", "等待其他进程"}, overlap.wait_for_ranks_ms, "weak", ranks});
  return bars_html(bars);
}

Words rank_wait_words(const Overlap& overlap) {
  if (!waits_for_ranks(overlap)) return {};
  const std::string ms = ms_text(overlap.wait_for_ranks_ms);
  return {cat(" Ranks also waited ", ms, " for each other while nothing was on its way; no overlap hides that."),
          cat("此外，在没有通信进行时等待其他进程 ", ms, "，重叠无法掩盖。")};
}

std::string overlap_words(const Overlap& overlap) {
  const std::string hidden = fixed_text(overlap.hidden_share() * 100, 0);
  const std::string more = change_text(overlap.bound_ms(), overlap.achieved_ms());
  const Words ranks = rank_wait_words(overlap);
  return cat("<p class=\"notes\">",
             bilingual({cat("Computing ", ms_text(overlap.compute_ms), ", communication ", ms_text(overlap.comm_ms),
                            ", of which ", ms_text(overlap.exposed_ms), " was waited for: ", hidden,
                            " % of what could be hidden was. Achieved against the bound: ", more, ".", ranks.en),
                        cat("计算 ", ms_text(overlap.compute_ms), "，通信 ", ms_text(overlap.comm_ms), "，其中等待 ",
                            ms_text(overlap.exposed_ms), "：可掩盖部分的 ", hidden, " % 已被掩盖。实际相对下界：", more,
                            "。", ranks.zh)}),
             "</p>\n");
}

std::string memory_row(const Words& kind, double planned, double measured, double most) {
  const auto bar = [&](double bytes, const char* classes) {
    return cat("<i class=\"", classes,
               "\" style=\"width:", fixed_text(bytes > 0 && most > 0 ? bytes / most * 100 : 0, 2), "%\"></i>");
  };
  return cat("<tr><th scope=\"row\">", bilingual(kind), "</th><td class=\"pair\">", bar(planned, "weak"),
             bar(measured, "main"), "</td><td>", bytes_text(planned), "</td><td>", bytes_text(measured), "</td><td>",
             change_text(planned, measured), "</td></tr>\n");
}

struct MemoryKindNames {
  const char *planned, *measured;
  Words words;
};
const MemoryKindNames kMemoryKinds[] = {{"parameters", "params", {"parameters", "参数"}},
                                        {"gradients", "grads", {"gradients", "梯度"}},
                                        {"optimizer", "optimizer", {"optimizer", "优化器"}},
                                        {"communication", "", {"communication", "通信缓冲"}}};

double value_of(const std::map<std::string, double>& values, const std::string& key) {
  const auto found = values.find(key);
  return found == values.end() ? kUnknown : found->second;
}

bool is_known_kind(const std::string& kind) {
  return std::ranges::any_of(kMemoryKinds, [&](const auto& it) { return kind == it.planned; });
}

}  // namespace

std::string parts_bar(const PartTimes& parts, double scale_ms) {
  std::string out = "<div class=\"stackbar\" role=\"img\" aria-label=\"parts of a step\">";
  for (size_t p = 0; p < kNumStepParts; ++p) {
    if (parts[p] <= 0 || scale_ms <= 0) continue;
    out += cat("<i class=\"fill-", p, "\" style=\"width:", fixed_text(parts[p] / scale_ms * 100, 3), "%\" title=\"",
               words_of(static_cast<StepPart>(p)).en, " ", ms_text(parts[p]), "\"></i>");
  }
  return out + "</div>\n";
}

std::string parts_key(const PartTimes& parts) {
  const double total = sum_of(parts);
  std::string out = "<ul class=\"partkey\">\n";
  for (size_t p = 0; p < kNumStepParts; ++p)
    out += cat("<li><i class=\"fill-", p, "\"></i>", bilingual(words_of(static_cast<StepPart>(p))), " <b>",
               ms_text(parts[p]), "</b> ", total > 0 ? fixed_text(parts[p] / total * 100, 1) : "0", " %</li>\n");
  return out + "</ul>\n";
}

std::string parts_section(const RunFiles& run, const RunSummary& summary, ReadOut& read_out) {
  auto columns = columns_of(run);
  if (columns.empty() || !summary.parts_ms) return "";
  add_read_out(columns, read_out);
  const size_t num_rows = run.rows.size();
  return cat(
      "<figure class=\"card\" data-kind=\"parts\">\n<div class=\"head\"><h2>",
      bilingual("Where the time goes", "时间去向"), "</h2></div>\n",
      parts_bar(*summary.parts_ms, sum_of(*summary.parts_ms)), parts_key(*summary.parts_ms),
      stack_html(std::move(columns), num_rows), "<output></output>\n<p class=\"notes\">",
      bilingual(
          "Of rank 0; the bar shows means without the warm-up. Waits for communication are taken out of the parts they "
          "lie in.",
          "rank 0；横条为去除预热后的平均值。通信等待已从所在部分中扣除。"),
      "</p></figure>\n");
}

std::string overlap_section(const RunFiles& run, const RunSummary& summary) {
  const Words heading = {"Overlap of computing and communication", "计算与通信的重叠"};
  if (summary.overlap && summary.overlap->comm_ms > 0)
    return card(heading, overlap_bars(*summary.overlap) + overlap_words(*summary.overlap));
  if (!run.result || !is_drawable(run.result->achieved_exposed_ms)) return "";
  const std::string achieved = ms_text(run.result->achieved_exposed_ms), bound = ms_text(run.result->bound_exposed_ms);
  return card(
      heading,
      bars_html({{{"exposed, achieved", "未掩盖，实际"}, run.result->achieved_exposed_ms, "main", achieved},
                 {{"exposed, least of any cut", "未掩盖，最小"}, run.result->bound_exposed_ms, "good", bound}}));
}

std::string memory_section(const RunFiles& run, const RunSummary& summary) {
  if (!run.result || (run.result->ledger.empty() && run.result->state_bytes.empty())) return "";
  const auto &planned = run.result->ledger, &measured = run.result->state_bytes;
  double most = 0, planned_total = 0;
  for (const auto& [kind, bytes] : planned) most = std::max(most, bytes), planned_total += bytes;
  for (const auto& [kind, bytes] : measured) most = std::max(most, bytes);
  std::string rows;
  for (const auto& kind : kMemoryKinds) {
    const double plan = value_of(planned, kind.planned), real = value_of(measured, kind.measured);
    if (is_drawable(plan) || is_drawable(real)) rows += memory_row(kind.words, plan, real, most);
  }
  for (const auto& [kind, bytes] : planned) {
    if (!is_known_kind(kind)) rows += memory_row({kind, kind}, bytes, kUnknown, most);
  }
  rows += cat("<tr class=\"total\"><th scope=\"row\">", bilingual("in all, and the peak", "合计与峰值"),
              "</th><td class=\"pair\"></td><td>", planned_total > 0 ? bytes_text(planned_total) : "", "</td><td>",
              bytes_text(summary.peak_bytes), "</td><td></td></tr>\n");
  const Words note = summary.peak_is_on_device
                         ? Words{"The peak is what was allocated on the device: activations and the rest as well.",
                                 "峰值为设备上分配的全部内存，含激活等。"}
                         : Words{"The peak is the resident memory of rank 0: activations, libraries and data as well.",
                                 "峰值为 rank 0 的常驻内存，含激活、库与数据。"};
  return card({"Memory of a rank", "单个进程的内存"},
              cat("<div class=\"scroll\"><table class=\"memory compared\">\n<thead><tr><th scope=\"col\">",
                  bilingual("kind", "种类"), "</th><th></th><th scope=\"col\">", bilingual("planned", "计划"),
                  "</th><th scope=\"col\">", bilingual("measured", "实测"), "</th><th scope=\"col\">",
                  bilingual("difference", "差别"), "</th></tr></thead>\n<tbody>\n", rows,
                  "</tbody></table></div>\n<p class=\"notes\">", bilingual(note), "</p>"));
}

}  // namespace weft::detail
