#include "weft/monitor/run_report.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "weft/base/text.h"
#include "weft/base/units.h"
#include "weft/monitor/html.h"
#include "weft/monitor/numbers.h"
#include "weft/monitor/report_assets_impl.h"
#include "weft/monitor/report_data_impl.h"

namespace weft {
namespace {

using detail::ReportData;

constexpr ChartSize kWideLoss{.width = 984, .height = 440}, kNarrowLoss{.width = 330, .height = 310};
constexpr ChartSize kWideRate{.width = 984, .height = 230}, kNarrowRate{.width = 330, .height = 210};

std::string count_text(size_t count) { return grouped_text(static_cast<int64_t>(count)); }
std::string step_text(double step) { return grouped_text(static_cast<int64_t>(step)); }

// Text scales with the picture, so a phone gets a picture of its own; the style sheet shows one of the two.
std::string both_sizes(Chart chart, ChartSize wide, ChartSize narrow) {
  std::string out = cat("<div class=\"wide\">\n", render_svg(chart, wide), "</div>\n");
  chart.id += "-narrow";
  return out + cat("<div class=\"narrow\">\n", render_svg(chart, narrow), "</div>\n");
}

std::string key_entry(const ChartSeries& series) {
  constexpr const char* kDot = "<circle cx=\"11\" cy=\"5\" r=\"3.5\" stroke=\"currentColor\"/>";
  const bool dots = series.look == SeriesLook::kDots;
  const char* const look = dots ? "dots" : series.look == SeriesLook::kLine ? "line" : "faint";
  return cat("<li><svg class=\"", look, "\" viewBox=\"0 0 22 10\" aria-hidden=\"true\">",
             "<path d=\"M0 5H22\" stroke=\"currentColor\"/>", dots ? kDot : "", "</svg>", escape_html(series.name),
             "</li>\n");
}

struct Figure {
  std::string_view heading;
  std::string_view kind;  // what the script reads out: "loss" or "rate"
  std::string notes;
  ChartSize wide, narrow;
};

std::string figure_html(const Chart& chart, const Figure& figure) {
  std::string out = cat("<figure class=\"card\" data-kind=\"", figure.kind, "\">\n<div class=\"head\"><h2>",
                        figure.heading, "</h2>\n<ul class=\"key\">\n");
  for (const auto& series : chart.series) out += key_entry(series);
  out += cat("</ul></div>\n", both_sizes(chart, figure.wide, figure.narrow), "<output></output>\n");
  if (!figure.notes.empty()) out += cat("<p class=\"notes\">", escape_html(figure.notes), "</p>\n");
  return out + "</figure>\n";
}

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

std::string loss_figure(const ReportData& data, const RunReport& report) {
  const Chart chart = detail::make_loss_chart(data, report);
  const std::string notes = bad_losses_note(data) + spikes_note(data, chart);
  return figure_html(chart, {"Loss", "loss", notes, kWideLoss, kNarrowLoss});
}

std::string rate_figure(const ReportData& data) {
  if (!data.median_rate) return "";
  return figure_html(detail::make_rate_chart(data), {"Throughput", "rate", "", kWideRate, kNarrowRate});
}

std::string big_number(std::string_view label, std::string_view value, std::string_view note) {
  return cat("<div><dt>", label, "</dt><dd>", value, "<div class=\"note\">", note, "</div></dd></div>\n");
}

std::string held_out_note(const ReportData& data) {
  const auto value = [](const ChartPoint& p) { return is_drawable(p.y) ? p.y : 1e300; };
  const auto best = std::ranges::min_element(data.held_out, {}, value);
  return cat("lowest ", loss_text(best->y), " at step ", step_text(best->x));
}

std::string headline(const ReportData& data) {
  if (data.steps.empty()) return "";
  std::string out = "<dl class=\"figures\">\n";
  if (data.final_loss) {
    const std::string note = cat("last step ", loss_text(*data.final_loss));
    out += big_number("Final loss, smoothed", loss_text(*data.final_smooth_loss), note);
  }
  if (data.final_held_out) out += big_number("Held-out loss", loss_text(*data.final_held_out), held_out_note(data));
  if (data.median_rate) {
    out += big_number("Tokens per second", format_count(std::llround(*data.median_rate)), "median over the steps");
  }
  const std::string range =
      cat("from ", grouped_text(data.steps.front().step), " to ", grouped_text(data.steps.back().step));
  return out + big_number("Steps", count_text(data.steps.size()), range) + "</dl>\n";
}

std::string distance_text(const ReportData& data, double reference) {
  if (!data.final_smooth_loss || !is_drawable(reference)) return "";
  const double below = reference - *data.final_smooth_loss;
  return cat(loss_text(std::fabs(below)), below < 0 ? " above" : " below");
}

std::string reference_card(const ReportData& data, const RunReport& report) {
  if (report.references.empty()) return "";
  std::string out =
      "<section class=\"card\"><h2>Reference values</h2>\n<div class=\"scroll\"><table>\n<thead><tr>"
      "<th scope=\"col\">Loss of</th><th scope=\"col\">Value</th><th scope=\"col\">Run "
      "ends</th></tr></thead>\n<tbody>\n";
  for (const auto& reference : report.references) {
    out += cat("<tr><th scope=\"row\">", escape_html(reference.name), "</th><td>", loss_text(reference.value),
               "</td><td>", distance_text(data, reference.value), "</td></tr>\n");
  }
  return out + "</tbody></table></div></section>\n";
}

std::string fact_card(const RunReport& report, const std::string& group) {
  std::string out = cat("<section class=\"card\"><h2>", escape_html(group), "</h2>\n<dl>\n");
  for (const auto& fact : report.facts) {
    if (fact.group != group) continue;
    out += cat("<div><dt>", escape_html(fact.label), "</dt><dd>", escape_html(fact.value), "</dd></div>\n");
  }
  return out + "</dl></section>\n";
}

std::string cards(const ReportData& data, const RunReport& report) {
  std::vector<std::string> groups;
  for (const auto& fact : report.facts) {
    if (std::ranges::find(groups, fact.group) == groups.end()) groups.push_back(fact.group);
  }
  std::string out = reference_card(data, report);
  for (const auto& group : groups) out += fact_card(report, group);
  return out.empty() ? out : cat("<div class=\"facts\">\n", out, "</div>\n");
}

std::string table_row(const ReportData& data, size_t i) {
  const std::string rate = is_drawable(data.rate[i].y) ? format_count(std::llround(data.rate[i].y)) : "";
  return cat("<tr><th scope=\"row\">", grouped_text(data.steps[i].step), "</th><td>", loss_text(data.loss[i].y),
             "</td><td>", loss_text(data.smooth_loss[i].y), "</td><td>", rate, "</td></tr>\n");
}

// For those who cannot see the picture, or want a figure to copy.
std::string number_table(const ReportData& data) {
  if (data.steps.empty()) return "";
  constexpr size_t kMaxRows = 24;
  std::string out =
      "<details class=\"card\"><summary>The curve in numbers</summary>\n<div class=\"scroll\"><table>\n"
      "<thead><tr><th scope=\"col\">Step</th><th scope=\"col\">Loss</th><th scope=\"col\">Smoothed</th>"
      "<th scope=\"col\">Tokens/s</th></tr></thead>\n<tbody>\n";
  const size_t rows = std::min(kMaxRows, data.steps.size()), last = data.steps.size() - 1;
  for (size_t row = 0; row < rows; ++row) out += table_row(data, rows == 1 ? 0 : row * last / (rows - 1));
  return out + "</tbody></table></div></details>\n";
}

std::string json_number(double value) { return is_drawable(value) ? significant_text(value, 6) : "null"; }

// Every n-th value, so that a long run's page stays small; the read-out needs no more than the screen has columns.
template <typename Text>
std::string json_list(std::string_view name, size_t count, Text text) {
  const size_t stride = std::max<size_t>(1, (count + kMaxDrawnPoints - 1) / kMaxDrawnPoints);
  std::string out = cat("\"", name, "\":[");
  for (size_t i = 0; i < count; i += stride) out += cat(i == 0 ? "" : ",", text(i));
  return out + "]";
}

std::string json_values(std::string_view name, const std::vector<ChartPoint>& points) {
  return json_list(name, points.size(), [&](size_t i) { return json_number(points[i].y); });
}

// Numbers only, so nothing in it can end the script element.
std::string data_block(const ReportData& data) {
  const auto step = [&](size_t i) { return cat(data.steps[i].step); };
  return cat("<script type=\"application/json\" id=\"points\">{", json_list("step", data.steps.size(), step), ",\n",
             json_values("loss", data.loss), ",\n", json_values("smooth", data.smooth_loss), ",\n",
             json_values("rate", data.smooth_rate), "}</script>\n");
}

std::string head(const RunReport& report) {
  return cat(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      // The browser itself then refuses any request this page could make.
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
      "script-src 'unsafe-inline'\">\n<meta name=\"generator\" content=\"weft\">\n<title>",
      escape_html(report.title), "</title>\n<style>", detail::kReportStyle, "</style>\n</head>\n");
}

std::string page_header(const RunReport& report) {
  std::string out = cat("<header>\n<p class=\"brand\">weft run report</p>\n<h1>", escape_html(report.title), "</h1>\n");
  if (!report.subtitle.empty()) out += cat("<p class=\"subtitle\">", escape_html(report.subtitle), "</p>\n");
  return out + "</header>\n";
}

}  // namespace

std::string render_report_html(const RunReport& report) {
  const ReportData data = detail::prepare_report(report);
  std::string out = head(report) + "<body>\n<main>\n" + page_header(report) + headline(data);
  out += loss_figure(data, report) + rate_figure(data) + cards(data, report) + number_table(data);
  out += "<footer>Written by weft. This file stands alone: it loads nothing and sends nothing.</footer>\n</main>\n";
  return out + data_block(data) + cat("<script>", detail::kReportScript, "</script>\n</body>\n</html>\n");
}

}  // namespace weft
