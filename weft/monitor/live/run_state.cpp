#include "weft/monitor/live/run_state.h"

#include <algorithm>

namespace weft {

void NamedNumbers::set(std::string_view name, double value) {
  const auto found = std::ranges::find(all_, name, [](const auto& entry) -> std::string_view { return entry.first; });
  if (found == all_.end())
    all_.emplace_back(name, value);
  else
    found->second = value;
}

std::optional<double> NamedNumbers::get(std::string_view name) const {
  for (const auto& [known, value] : all_) {
    if (known == name) return value;
  }
  return std::nullopt;
}

Judgement Verdict::judgement() const {
  if (!share) return Judgement::kUnknown;
  return (wants_more ? *share > target : *share < target) ? Judgement::kGood : Judgement::kBad;
}

const char* health_name(RankHealth health) {
  switch (health) {
    case RankHealth::kGood: return "good";
    case RankHealth::kWaiting: return "waiting";
    case RankHealth::kSlow: return "slow";
    case RankHealth::kSilent: return "silent";
  }
  return "good";
}

const char* judgement_name(Judgement judgement) {
  switch (judgement) {
    case Judgement::kUnknown: return "unknown";
    case Judgement::kGood: return "good";
    case Judgement::kBad: return "bad";
  }
  return "unknown";
}

LogTone log_tone(std::string_view line) {
  const auto has = [line](std::string_view word) { return line.find(word) != std::string_view::npos; };
  if (has("[ERROR]") || has("error: ") || has("ERROR:") || has("Traceback")) return LogTone::kError;
  if (has("[WARN]") || has("warning: ") || has("WARNING")) return LogTone::kWarning;
  return LogTone::kPlain;
}

}  // namespace weft
