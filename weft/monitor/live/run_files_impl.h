// The files of a run folder, one function each, and what follows from them. For run_view.cpp. Pure functions.
#pragma once

#include <cmath>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/monitor/live/run_state.h"
#include "weft/monitor/live/run_view.h"
#include "weft/monitor/run_summary.h"

namespace weft::detail {

struct MetricsRow {
  int64_t step = 0;
  NamedNumbers numbers;
};
// Nothing for a line that is no row.
std::optional<MetricsRow> parse_row(const std::string& line);

// Put what the text says into `state`; the answer is empty, or what is wrong with the text. Text that cannot be read
// leaves what was known before.
std::string take_result(const std::string& text, LiveState& state);
std::string take_ranks(const std::string& text, LiveState& state);

// The value of a field; nothing where it is unknown or not finite.
inline std::optional<double> finite_in(const NamedNumbers& numbers, std::string_view name) {
  const auto value = numbers.get(name);
  return value && std::isfinite(*value) ? value : std::nullopt;
}

// The parts of a step by the report's arithmetic; value_of gives what is known of a field of metrics.jsonl.
std::optional<PartTimes> parts_from(const std::function<std::optional<double>(std::string_view)>& value_of);

// Sets each rank's health; ranks_unix_s: when ranks.json was written, by the reader's clock, 0 when not known.
void judge_ranks(LiveState& state, double ranks_unix_s);
std::vector<Verdict> judge(const LiveState& state, const HostFacts& host);

// "2026-11-15T01:45:00Z".
std::string clock_text(double unix_s);

// Whether a reader who has seen `before` has to be told, the passing of time apart.
bool differs(const LiveState& before, const LiveState& after);

}  // namespace weft::detail
