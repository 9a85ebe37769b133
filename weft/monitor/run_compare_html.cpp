#include <algorithm>
#include <cmath>
#include <numeric>

#include "weft/base/text.h"
#include "weft/monitor/html.h"
#include "weft/monitor/numbers.h"
#include "weft/monitor/report_html_impl.h"
#include "weft/monitor/run_compare.h"

namespace weft {
namespace {

using detail::bilingual, detail::card, detail::ReportData;

// Below this nobody would call it a difference; above, colour says which is better.
constexpr double kNoisePercent = 1;

std::string name_of(const RunComparison& it, bool is_a) { return cat(is_a ? "A " : "B ", (is_a ? it.a : it.b).name()); }

std::string head_row(const RunComparison& it, const Words& what, bool with_difference) {
  return cat("<thead><tr><th scope=\"col\">", bilingual(what), "</th><th scope=\"col\" class=\"dot-a\">",
             escape_html(name_of(it, true)), "</th><th scope=\"col\" class=\"dot-b\">", escape_html(name_of(it, false)),
             "</th>", with_difference ? cat("<th scope=\"col\">", bilingual("difference", "差别"), "</th>") : "",
             "</tr></thead>\n");
}

const char* class_of(const ComparedNumber& number) {
  const double percent = number.percent();
  if (!(std::fabs(percent) >= kNoisePercent) || number.better == BetterIs::kNeither) return "";
  return (percent < 0) == (number.better == BetterIs::kLower) ? "better" : "worse";
}

std::string number_rows(const std::vector<ComparedNumber>& numbers) {
  std::string out;
  for (const ComparedNumber& it : numbers)
    out += cat("<tr><th scope=\"row\">", bilingual(it.name), "</th><td>", escape_html(it.a_text), "</td><td>",
               escape_html(it.b_text), "</td><td class=\"", class_of(it), "\">", detail::change_text(it.a, it.b),
               "</td></tr>\n");
  return out;
}

std::string table(std::string_view head, std::string_view rows) {
  return cat("<div class=\"scroll\"><table class=\"compared\">\n", head, "<tbody>\n", rows, "</tbody></table></div>");
}

std::string numbers_card(const RunComparison& it) {
  return card({"What came of it", "结果"}, table(head_row(it, {"what", "项目"}, true), number_rows(it.numbers)));
}

std::string settings_card(const RunComparison& it) {
  if (it.settings.empty())
    return card(
        {"Settings that differ", "不同的配置"},
        cat("<p class=\"notes\">", bilingual("No setting that was recorded differs.", "记录的配置没有不同。"), "</p>"));
  std::string rows;
  for (const ComparedSetting& row : it.settings)
    rows += cat("<tr><th scope=\"row\"><code>", escape_html(row.path), "</code></th><td><code>",
                escape_html(row.a.empty() ? "-" : row.a), "</code></td><td><code>",
                escape_html(row.b.empty() ? "-" : row.b), "</code></td></tr>\n");
  return card({"Settings that differ", "不同的配置"}, table(head_row(it, {"setting", "配置项"}, false), rows));
}

std::string parts_card(const RunComparison& it) {
  if (it.parts.empty()) return "";
  const auto total = [](const std::optional<PartTimes>& parts) {
    return parts ? std::accumulate(parts->begin(), parts->end(), 0.0) : 0.0;
  };
  const double most = std::max(total(it.a_summary.parts_ms), total(it.b_summary.parts_ms));
  std::string bars = "<div class=\"sides\">";
  if (it.a_summary.parts_ms) bars += cat("<b class=\"dot-a\">A</b>", detail::parts_bar(*it.a_summary.parts_ms, most));
  if (it.b_summary.parts_ms) bars += cat("<b class=\"dot-b\">B</b>", detail::parts_bar(*it.b_summary.parts_ms, most));
  bars += "</div>\n";
  std::string rows;
  for (size_t p = 0; p < it.parts.size(); ++p) {
    const ComparedNumber& number = it.parts[p];
    rows += cat("<tr><th scope=\"row\" class=\"part\"><i class=\"swatch fill-", p, "\"></i>", bilingual(number.name),
                "</th><td>", number.a_text, "</td><td>", number.b_text, "</td><td class=\"", class_of(number), "\">",
                detail::change_text(number.a, number.b), "</td></tr>\n");
  }
  return card({"Where the time goes", "时间去向"},
              bars + table(head_row(it, {"part of a step, mean", "一步的组成（平均）"}, true), rows));
}

const TargetRow* target_of(const RunSummary& summary, const std::string& key) {
  const auto found = std::ranges::find(summary.targets, key, &TargetRow::key);
  return found == summary.targets.end() ? nullptr : &*found;
}

std::string target_cell(const TargetRow* row) {
  if (row == nullptr) return "<td></td>";
  const char* const classes = row->mark == TargetMark::kMet      ? "better"
                              : row->mark == TargetMark::kMissed ? "worse"
                                                                 : "";
  return cat("<td class=\"", classes, "\">", bilingual(row->shown), "</td>");
}

std::string targets_card(const RunComparison& it) {
  const auto state_cell = [](RunEnd state) { return cat("<td>", bilingual(words_of(state)), "</td>"); };
  std::string rows = cat("<tr><th scope=\"row\">", bilingual("the run", "运行"), "</th>",
                         state_cell(it.a_summary.state), state_cell(it.b_summary.state), "</tr>\n");
  for (const char* key : {"utilisation", "communication", "memory", "throughput", "mfu"}) {
    const TargetRow *a = target_of(it.a_summary, key), *b = target_of(it.b_summary, key);
    if (a == nullptr && b == nullptr) continue;
    const TargetRow& either = a != nullptr ? *a : *b;
    const Words what = {cat(either.name.en, ", ", either.target.en), cat(either.name.zh, "，", either.target.zh)};
    rows += cat("<tr><th scope=\"row\">", bilingual(what), "</th>", target_cell(a), target_cell(b), "</tr>\n");
  }
  return card({"Verdicts", "结论"}, table(head_row(it, {"target", "目标"}, false), rows));
}

Chart overlaid(const RunComparison& it, Chart chart, const std::vector<ChartPoint>& a,
               const std::vector<ChartPoint>& b) {
  chart.description = "Two smoothed lines, one of each run.";
  chart.series = {{.name = name_of(it, true), .look = SeriesLook::kLine, .points = a},
                  {.name = name_of(it, false), .look = SeriesLook::kOther, .points = b}};
  return chart;
}

std::string curves(const RunComparison& it, detail::ReadOut& read_out) {
  const ReportData a = detail::prepare_report(it.a), b = detail::prepare_report(it.b);
  const auto add = [&](const char* kind, const auto& of_a, const auto& of_b, int digits) {
    read_out.add(kind, {{.name = name_of(it, true), .points = of_a, .digits = digits, .has_dot = true}});
    read_out.add(kind, {{.name = name_of(it, false), .points = of_b, .digits = digits, .has_dot = true}});
  };
  add("loss", a.smooth_loss, b.smooth_loss, 4);
  Chart loss = detail::make_loss_chart(a.loss.empty() ? b : a);
  loss.y_range.reset();
  loss.mark_gaps = false;
  std::string out = detail::figure_html(overlaid(it, loss, a.smooth_loss, b.smooth_loss),
                                        {{"Loss, smoothed", "损失（平滑）"}, "loss"});
  if (!a.median_rate && !b.median_rate) return out;
  add("rate", a.smooth_rate, b.smooth_rate, 0);
  const Chart rate = overlaid(it, detail::make_rate_chart(a.median_rate ? a : b), a.smooth_rate, b.smooth_rate);
  return out +
         detail::figure_html(
             rate, {{"Throughput, smoothed", "吞吐量（平滑）"}, "rate", "", detail::kWideSmall, detail::kNarrowSmall});
}

}  // namespace

std::string render_comparison_html(const RunComparison& it) {
  detail::ReadOut read_out;
  std::string sections =
      numbers_card(it) + settings_card(it) + curves(it, read_out) + parts_card(it) + targets_card(it);
  const std::string title = cat(it.a.name(), " and ", it.b.name());
  const std::string subtitle =
      cat("<p class=\"subtitle\">",
          bilingual("Differences are those of B, in percent of A.", "差别为 B 相对 A 的百分比。"), "</p>\n");
  return detail::page(title, {"weft run comparison", "weft 运行对比"}, subtitle, sections, read_out.html());
}

}  // namespace weft
