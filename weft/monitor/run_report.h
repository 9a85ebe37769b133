// The report of one training run: a single HTML file that opens from disk, on a phone, in the dark and on paper.
//
// The caller fills a RunReport and writes the text where it likes. Everything is inside: no network, no font, no
// library; the few lines of script only add a read-out under the pointer. Pure function, any thread. Failure: none;
// empty runs, single points and losses that are not numbers give a page that says so. All text is escaped.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weft {

struct StepPoint {
  int64_t step = 0;
  double loss = 0;          // NaN and infinity are kept, shown as gaps and counted
  double tokens_per_s = 0;  // 0: not measured
};

struct HeldOutPoint {
  int64_t step = 0;
  double loss = 0;
};

// A loss worth knowing while reading the curve, such as the entropy of single tokens.
struct ReferenceLine {
  std::string name;
  double value = 0;
};

struct Fact {
  std::string group;  // facts of one group share a card; groups appear in the order of their first fact
  std::string label;
  std::string value;
};

struct RunReport {
  std::string title;
  std::string subtitle = {};          // may be empty
  std::vector<StepPoint> steps = {};  // any order; where a step was run twice (after a resume) the later entry counts
  std::vector<HeldOutPoint> held_out = {};  // may be empty
  std::vector<ReferenceLine> references = {};
  std::vector<Fact> facts = {};
};

std::string render_report_html(const RunReport& report);

}  // namespace weft
