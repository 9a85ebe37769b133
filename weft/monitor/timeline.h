// timeline.json: what all ranks did in a few late steps, for the picture in the report (docs/formats/run_folder.md).
//
//   LateSteps late;                                   // of each rank
//   late.add(batch.events);                           // after each step
//   exchange late.text() ...                          // at the end, rank 0 gets all
//   publish(timeline_json(texts, offsets_ns));
//
// Memory: the spans of the last kSteps steps. Value with one owner; no failure: a rank whose text is torn is left out.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <vector>

#include "weft/monitor/span.h"

namespace weft {

class LateSteps {
 public:
  static constexpr size_t kSteps = 2;
  static constexpr size_t kMaxSpans = 4096;  // of a step; later ones are left out

  void add(std::span<const SpanEvent> events);
  // A line a span, with absolute times of this host's clock.
  std::string text() const;

 private:
  struct Step {
    int64_t number = 0, start_ns = 0, end_ns = 0;
    std::vector<SpanEvent> spans;
  };
  std::vector<SpanEvent> pending_;
  std::deque<Step> steps_;
};

// By rank: what text() gave, and what to add to that rank's times to have rank 0's. Empty where no rank has a step.
std::string timeline_json(const std::vector<std::string>& texts, const std::vector<int64_t>& offsets_ns);

}  // namespace weft
