#include <algorithm>
#include <cmath>

#include "weft/base/text.h"
#include "weft/base/units.h"
#include "weft/monitor/html.h"
#include "weft/monitor/json_text.h"
#include "weft/monitor/numbers.h"
#include "weft/monitor/report_assets_impl.h"
#include "weft/monitor/report_html_impl.h"

namespace weft::detail {
namespace {

std::string key_entry(const ChartSeries& series) {
  constexpr const char* kDot = "<circle cx=\"11\" cy=\"5\" r=\"3.5\" stroke=\"currentColor\"/>";
  return cat("<li><svg class=\"", class_of(series.look), "\" viewBox=\"0 0 22 10\" aria-hidden=\"true\">",
             "<path d=\"M0 5H22\" stroke=\"currentColor\"/>", series.look == SeriesLook::kDots ? kDot : "", "</svg>",
             escape_html(series.name), "</li>\n");
}

std::string json_number(double value) { return is_drawable(value) ? significant_text(value, 6) : "null"; }

// Every n-th value, so that a long run's page stays small; the read-out needs no more than the screen has columns.
template <typename Text>
std::string json_list(size_t count, Text text) {
  const size_t stride = std::max<size_t>(1, (count + kMaxDrawnPoints - 1) / kMaxDrawnPoints);
  std::string out = "[";
  for (size_t i = 0; i < count; i += stride) out += cat(i == 0 ? "" : ",", text(i));
  return out + "]";
}

}  // namespace

std::string bilingual(const Words& words) {
  return cat("<span lang=\"en\">", escape_html(words.en), "</span><span lang=\"zh\">", escape_html(words.zh),
             "</span>");
}

std::string card(const Words& heading, std::string_view body, std::string_view classes) {
  return cat("<section class=\"card ", classes, "\"><h2>", bilingual(heading), "</h2>\n", body, "</section>\n");
}

std::string ms_text(double ms) {
  if (!is_drawable(ms)) return "";
  return cat(fixed_text(ms, std::fabs(ms) < 10 ? 2 : 1), " ms");
}

std::string bytes_text(double bytes) {
  return bytes >= 0 && bytes < 1e18 ? format_bytes(static_cast<uint64_t>(bytes)) : "";
}

std::string change_text(double a, double b) {
  if (!is_drawable(a) || !is_drawable(b) || a == 0) return "";
  const double change = (b - a) / std::fabs(a) * 100;
  return cat(change > 0 ? "+" : "", fixed_text(change, 1), " %");
}

void ReadOut::add(const std::string& kind, const std::vector<Series>& series) {
  if (series.empty()) return;
  const auto& points = series.front().points;
  const auto x = [&](size_t i) { return cat(static_cast<int64_t>(points[i].x)); };
  xs_.push_back(json_list(points.size(), x));
  if (charts_.empty() || charts_.back().kind != kind) charts_.push_back({kind, ""});
  for (const Series& it : series) {
    std::string name;
    append_json_string(name, it.name);
    for (size_t at = name.find('<'); at != std::string::npos; at = name.find('<', at)) name.replace(at, 1, "\\u003c");
    const auto y = [&](size_t i) { return json_number(it.points[i].y); };
    charts_.back().series +=
        cat(charts_.back().series.empty() ? "" : ",\n", "{\"name\":", name, ",\"digits\":", it.digits,
            ",\"dot\":", it.has_dot, ",\"x\":", xs_.size() - 1, ",\"y\":", json_list(it.points.size(), y), "}");
  }
}

// Nothing in it can end the script element: numbers, and names without '<'.
std::string ReadOut::html() const {
  std::string out =
      cat("<script type=\"application/json\" id=\"points\">{\"xs\":[", join(xs_, ",\n"), "],\n\"charts\":{");
  for (size_t i = 0; i < charts_.size(); ++i)
    out += cat(i == 0 ? "" : ",\n", "\"", charts_[i].kind, "\":[", charts_[i].series, "]");
  return out + "}}</script>\n";
}

std::string figure_html(const Chart& chart, const Figure& figure) {
  std::string out = cat("<figure class=\"card\" data-kind=\"", figure.kind, "\">\n<div class=\"head\"><h2>",
                        bilingual(figure.heading), "</h2>\n<ul class=\"key\">\n");
  for (const auto& series : chart.series) out += key_entry(series);
  Chart narrow = chart;
  narrow.id += "-narrow";
  out += cat("</ul></div>\n<div class=\"wide\">\n", render_svg(chart, figure.wide), "</div>\n<div class=\"narrow\">\n",
             render_svg(narrow, figure.narrow), "</div>\n<output></output>\n");
  if (!figure.notes.empty()) out += cat("<p class=\"notes\">", escape_html(figure.notes), "</p>\n");
  return out + "</figure>\n";
}

std::string page(std::string_view title, const Words& brand, std::string_view subtitle, std::string_view sections,
                 std::string_view data) {
  return cat(
      "<!DOCTYPE html>\n<html lang=\"en\" data-lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      // The browser itself then refuses any request this page could make.
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
      "script-src 'unsafe-inline'\">\n<meta name=\"generator\" content=\"weft\">\n<title>",
      escape_html(title), "</title>\n<style>", kReportStyle, kReportPartsStyle, "</style>\n</head>\n<body>\n<main>\n",
      "<header>\n<div class=\"top\"><p class=\"brand\">", bilingual(brand),
      "</p>\n<p class=\"switch\" role=\"group\" aria-label=\"Language\" hidden>"
      "<button type=\"button\" data-to=\"en\" aria-pressed=\"true\">English</button>"
      "<button type=\"button\" data-to=\"zh\" aria-pressed=\"false\" lang=\"zh-Hans\">中文</button></p></div>\n<h1>",
      escape_html(title), "</h1>\n", subtitle, "</header>\n", sections, "<footer>",
      bilingual("Written by weft. This file stands alone: it loads nothing and sends nothing.",
                "由 weft 生成。本文件独立完整：不加载也不发送任何内容。"),
      "</footer>\n</main>\n", data, "<script>", kReportScript, kTimelineScript, "</script>\n</body>\n</html>\n");
}

}  // namespace weft::detail
