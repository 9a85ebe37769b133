// The pieces of a report's page, a function each, and what they share. Pure functions, any thread, no failure; all text
// from files is escaped.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "weft/monitor/report_data_impl.h"
#include "weft/monitor/run_files.h"
#include "weft/monitor/run_summary.h"

namespace weft::detail {

// Both languages; the style sheet shows one of them.
std::string bilingual(const Words& words);
inline std::string bilingual(std::string_view en, std::string_view zh) {
  return bilingual(Words{std::string(en), std::string(zh)});
}
std::string card(const Words& heading, std::string_view body, std::string_view classes = "");
// "" for what is not known.
std::string ms_text(double ms);
std::string bytes_text(double bytes);
// "+12.5 %" from `a` to `b`; "" where either is not known or a is 0.
std::string change_text(double a, double b);

// What the script reads out under the pointer, by chart: numbers and names in one JSON block.
class ReadOut {
 public:
  struct Series {
    std::string name;
    std::vector<ChartPoint> points = {};
    int digits = 3;
    bool has_dot = false;
  };
  // Series of one call share their x. `kind` is the data-kind of the figure.
  void add(const std::string& kind, const std::vector<Series>& series);
  std::string html() const;

 private:
  struct Chart {
    std::string kind, series;
  };
  std::vector<std::string> xs_;
  std::vector<Chart> charts_;
};

struct Figure {
  Words heading;
  std::string kind;
  std::string notes = {};
  ChartSize wide{.width = 984, .height = 440}, narrow{.width = 330, .height = 310};
};
// Text scales with the picture, so a phone gets a picture of its own; the style sheet shows one of the two.
std::string figure_html(const Chart& chart, const Figure& figure);

inline constexpr ChartSize kWideSmall{.width = 984, .height = 230}, kNarrowSmall{.width = 330, .height = 210};

// The sections; "" where there is nothing to show.
std::string loss_section(const ReportData& data);
std::string rate_section(const ReportData& data);
std::string targets_section(const RunSummary& summary);
std::string end_section(const RunFiles& run, const RunSummary& summary);
std::string parts_section(const RunFiles& run, const RunSummary& summary, ReadOut& read_out);
std::string timeline_section(const RunFiles& run);
std::string overlap_section(const RunFiles& run, const RunSummary& summary);
std::string memory_section(const RunFiles& run, const RunSummary& summary);
std::string ranks_section(const RunFiles& run);
std::string flops_section(const RunFiles& run);
std::string advice_section(const RunFiles& run);
std::string settings_section(const RunFiles& run);
std::string facts_section(const RunFiles& run, const RunSummary& summary, const ReportData& data);
std::string numbers_section(const ReportData& data);

// A bar of the parts of a step, `scale_ms` wide; and the key to its colours.
std::string parts_bar(const PartTimes& parts, double scale_ms);
std::string parts_key(const PartTimes& parts);

// The whole page around the sections.
std::string page(std::string_view title, const Words& brand, std::string_view subtitle, std::string_view sections,
                 std::string_view data);

}  // namespace weft::detail
