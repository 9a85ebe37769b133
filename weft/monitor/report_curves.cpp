#include <algorithm>
#include <cmath>

#include "weft/base/quantile.h"
#include "weft/base/text.h"
#include "weft/base/units.h"
#include "weft/monitor/html.h"
#include "weft/monitor/numbers.h"
#include "weft/monitor/report_html_impl.h"

namespace weft::detail {
namespace {

std::string count_text(size_t count) { return grouped_text(static_cast<int64_t>(count)); }
std::string step_text(double step) { return grouped_text(static_cast<int64_t>(step)); }

std::string bad_losses_note(const ReportData& data) {
  if (data.num_bad_losses == 0) return "";
  return cat("Steps whose loss was not a finite number: ", count_text(data.num_bad_losses), " of ",
             count_text(data.loss.size()), ", marked red on the base line. ");
}

std::string spikes_note(const ReportData& data, const Chart& chart) {
  if (!chart.y_range) return "";
  const double edge = drawn_y_range(chart).high;
  size_t num_above = 0;
  ChartPoint top{0, -1e300};
  for (const auto& point : data.loss) {
    if (!is_drawable(point.y) || point.y <= edge) continue;
    ++num_above;
    if (point.y > top.y) top = point;
  }
  return cat("Steps whose loss lies above the picture: ", count_text(num_above), ", the highest ", loss_text(top.y),
             " at step ", step_text(top.x), ".");
}

std::string distance_text(const ReportData& data, double reference) {
  if (!data.final_smooth_loss || !is_drawable(reference)) return "";
  const double below = reference - *data.final_smooth_loss;
  return cat(loss_text(std::fabs(below)), below < 0 ? " above" : " below");
}

std::string reference_card(const ReportData& data) {
  if (data.references.empty()) return "";
  std::string out =
      "<div class=\"scroll\"><table>\n<thead><tr><th scope=\"col\">Loss of</th><th scope=\"col\">Value</th>"
      "<th scope=\"col\">Run ends</th></tr></thead>\n<tbody>\n";
  for (const auto& reference : data.references) {
    out += cat("<tr><th scope=\"row\">", escape_html(reference.name), "</th><td>", loss_text(reference.value),
               "</td><td>", distance_text(data, reference.value), "</td></tr>\n");
  }
  return card({"Reference values", "参考值"}, out + "</tbody></table></div>");
}

// A card of labels and values; what is not known has no line.
class FactCard {
 public:
  void add(const Words& label, std::string_view value, std::string_view note = "") {
    if (value.empty()) return;
    body_ += cat("<div><dt>", bilingual(label), "</dt><dd>", escape_html(value), note.empty() ? "" : " (",
                 escape_html(note), note.empty() ? "" : ")", "</dd></div>\n");
  }
  std::string html(const Words& heading) const {
    return body_.empty() ? "" : card(heading, cat("<dl>\n", body_, "</dl>"));
  }

 private:
  std::string body_;
};

std::string whole_text(int64_t value) { return value > 0 ? grouped_text(value) : ""; }

std::string run_card(const RunResult& result) {
  FactCard facts;
  facts.add({"data", "数据"}, result.data);
  facts.add({"parameters", "参数量"}, result.params > 0 ? format_count(result.params) : "");
  facts.add({"ranks", "进程数"}, whole_text(result.world));
  facts.add({"ZeRO stage", "ZeRO 阶段"}, result.stage >= 0 ? cat(result.stage) : "");
  facts.add({"device", "设备"}, result.device,
            result.device == "cpu" && result.threads > 0 ? cat(result.threads, " threads") : "");
  facts.add({"tokens a step", "每步词元"}, whole_text(result.tokens_per_step));
  facts.add({"first step", "起始步"}, result.first_step > 0 ? grouped_text(result.first_step + 1) : "", "resumed");
  facts.add({"seed", "随机种子"}, cat(result.seed));
  return facts.html({"Run", "运行"});
}

std::string speed_card(const RunFiles& run, const RunSummary& summary) {
  FactCard facts;
  const Spread times = spread_of(timed_values(run, &RunRow::step_ms));
  if (is_drawable(summary.step_ms))
    facts.add({"step", "每步"}, ms_text(times.median),
              cat("median; fastest ", ms_text(times.min), ", p90 ", ms_text(times.p90)));
  double total_ms = 0;
  for (const RunRow& row : run.rows) total_ms += is_drawable(row.step_ms) ? row.step_ms : 0;
  if (total_ms > 0) facts.add({"time of all steps", "各步总时间"}, short_duration_text(total_ms * 1e-3));
  if (is_drawable(summary.tokens_per_s))
    facts.add({"tokens per second", "词元/秒"}, format_count(std::llround(summary.tokens_per_s)), "median");
  if (is_drawable(summary.samples_per_s))
    facts.add({"samples per second", "样本/秒"}, significant_text(summary.samples_per_s, 4), "median");
  if (run.result && run.result->bytes_sent > 0)
    facts.add({"sent by rank 0", "rank 0 发送"}, bytes_text(run.result->bytes_sent));
  const auto sent = [&](const Words& what, double RunRow::* column) {
    const double bytes = mean_of(timed_values(run, column));
    if (bytes > 0) facts.add(what, bytes_text(bytes));
  };
  sent({"of gradients, a step", "其中梯度，每步"}, &RunRow::sent_reduce_bytes);
  sent({"of parameters, a step", "其中参数，每步"}, &RunRow::sent_gather_bytes);
  sent({"of losses and times, a step", "其中损失与计时，每步"}, &RunRow::sent_loss_bytes);
  return facts.html({"Speed", "速度"});
}

std::string table_row(const ReportData& data, size_t i) {
  const std::string rate = is_drawable(data.rate[i].y) ? format_count(std::llround(data.rate[i].y)) : "";
  return cat("<tr><th scope=\"row\">", step_text(data.loss[i].x), "</th><td>", loss_text(data.loss[i].y), "</td><td>",
             loss_text(data.smooth_loss[i].y), "</td><td>", rate, "</td></tr>\n");
}

}  // namespace

std::string loss_section(const ReportData& data) {
  const Chart chart = make_loss_chart(data);
  return figure_html(chart, {{"Loss", "损失"}, "loss", bad_losses_note(data) + spikes_note(data, chart)});
}

std::string rate_section(const ReportData& data) {
  if (!data.median_rate) return "";
  return figure_html(make_rate_chart(data), {{"Throughput", "吞吐量"}, "rate", "", kWideSmall, kNarrowSmall});
}

std::string facts_section(const RunFiles& run, const RunSummary& summary, const ReportData& data) {
  std::string out = reference_card(data);
  if (run.result) out += run_card(*run.result);
  out += speed_card(run, summary);
  return out.empty() ? out : cat("<div class=\"facts\">\n", out, "</div>\n");
}

// For those who cannot see the picture, or want a figure to copy.
std::string numbers_section(const ReportData& data) {
  if (data.loss.empty()) return "";
  constexpr size_t kMaxRows = 24;
  std::string out =
      cat("<details class=\"card\"><summary>", bilingual("The curve in numbers", "曲线数据"),
          "</summary>\n<div class=\"scroll\"><table>\n"
          "<thead><tr><th scope=\"col\">Step</th><th scope=\"col\">Loss</th><th scope=\"col\">Smoothed</th>"
          "<th scope=\"col\">",
          data.rate_is_samples ? "Samples/s" : "Tokens/s", "</th></tr></thead>\n<tbody>\n");
  const size_t rows = std::min(kMaxRows, data.loss.size()), last = data.loss.size() - 1;
  for (size_t row = 0; row < rows; ++row) out += table_row(data, rows == 1 ? 0 : row * last / (rows - 1));
  return out + "</tbody></table></div></details>\n";
}

}  // namespace weft::detail
