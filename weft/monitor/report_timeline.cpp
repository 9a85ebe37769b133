#include <algorithm>
#include <cmath>
#include <map>

#include "weft/base/text.h"
#include "weft/monitor/json_text.h"
#include "weft/monitor/report_html_impl.h"

namespace weft::detail {
namespace {

// Texts by number: a name that stands on ten thousand spans is written once.
class Names {
 public:
  size_t number_of(const std::string& name) {
    const auto [at, is_new] = numbers_.try_emplace(name, list_.size());
    if (is_new) list_.push_back(name);
    return at->second;
  }
  std::string json() const {
    std::string out = "[";
    for (const std::string& name : list_) {
      if (out.size() > 1) out += ',';
      append_json_string(out, name);
    }
    return out + "]";
  }

 private:
  std::map<std::string, size_t> numbers_;
  std::vector<std::string> list_;
};

std::string whole(double ns) { return cat(static_cast<int64_t>(std::llround(ns))); }

std::string spans_json(const RunTimeline& timeline, Names& names) {
  std::string out = "[";
  for (const TimelineSpan& span : timeline.spans) {
    out += cat(out.size() > 1 ? ",\n[" : "[", span.row, ",", whole(span.start_ns), ",", whole(span.end_ns), ",",
               names.number_of(span.name), ",", names.number_of(span.category));
    if (span.bucket >= 0 || span.bytes >= 0) out += cat(",", span.bucket, ",", span.bytes);
    out += ']';
  }
  return out + "]";
}

std::string rows_json(const RunTimeline& timeline, Names& names) {
  std::string out = "[";
  for (const TimelineRow& row : timeline.rows)
    out += cat(out.size() > 1 ? ",[" : "[", row.rank, ",", names.number_of(row.track), "]");
  return out + "]";
}

std::string steps_json(const RunTimeline& timeline) {
  std::string out = "[";
  for (const TimelineStep& step : timeline.steps)
    out += cat(out.size() > 1 ? ",[" : "[", step.step, ",", whole(step.start_ns), ",", whole(step.end_ns), "]");
  return out + "]";
}

// '<' could end the script element.
std::string without_tags(std::string json) {
  for (size_t at = json.find('<'); at != std::string::npos; at = json.find('<', at)) json.replace(at, 1, "\\u003c");
  return json;
}

}  // namespace

std::string timeline_section(const RunFiles& run) {
  if (!run.timeline || run.timeline->spans.empty()) return "";
  Names names;
  const std::string rows = rows_json(*run.timeline, names), spans = spans_json(*run.timeline, names);
  return cat("<section class=\"card timeline\" id=\"timeline\"><div class=\"head\"><h2>",
             bilingual("Timeline of a step", "单步时间线"), "</h2>\n<div class=\"tools\"><label>",
             bilingual("step", "步"), " <select class=\"steps\"></select></label><label>", bilingual("ranks", "进程"),
             " <select class=\"which\"></select></label>"
             "<button type=\"button\" class=\"in\" aria-label=\"zoom in\">+</button>"
             "<button type=\"button\" class=\"out\" aria-label=\"zoom out\">−</button>"
             "<button type=\"button\" class=\"reset\">",
             bilingual("reset", "复位"),
             "</button></div></div>\n<ul class=\"partkey spans\"></ul>\n<canvas class=\"ruler\"></canvas>"
             "<div class=\"lanes\"><canvas class=\"spans\" tabindex=\"0\" role=\"img\" aria-label=\"spans of the ranks "
             "over time\">"
             "</canvas></div>\n<output>&#160;</output>\n<p class=\"notes\">",
             bilingual("Wheel or + and − zoom, drag selects, arrows move, 0 resets. Ranks share one clock.",
                       "滚轮或 + − 缩放，拖动选择，方向键移动，0 复位。各进程共用一个时钟。"),
             "</p><noscript><p>", bilingual("The timeline needs scripts.", "时间线需要脚本。"),
             "</p></noscript>\n<script type=\"application/json\" class=\"data\">",
             without_tags(cat("{\"steps\":", steps_json(*run.timeline), ",\"rows\":", rows, ",\"names\":", names.json(),
                              ",\n\"spans\":", spans, "}")),
             "</script></section>\n");
}

}  // namespace weft::detail
