#include "weft/monitor/live/top_view.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "weft/base/text.h"
#include "weft/base/units.h"
#include "weft/monitor/live/run_files_impl.h"
#include "weft/monitor/numbers.h"

namespace weft {
namespace {

using detail::finite_in;

constexpr int kLabelColumns = 8;

// A line put together piece by piece: widths are counted before styles are added, as escapes have none. Whatever is
// added is made printable here, in one place: most of it comes from a run's files or from a server.
class Line {
 public:
  explicit Line(const Terminal& terminal) : terminal_(terminal) {}

  Line& add(std::string_view text, Style how = Style::kPlain) {
    const std::string shown = truncate_columns(printable(text, terminal_), room(), terminal_.unicode ? "…" : ".");
    columns_ += display_columns(shown);
    text_ += style(shown, how, terminal_);
    return *this;
  }
  Line& label(std::string_view text) { return add(pad_columns(text, kLabelColumns), Style::kDim); }
  // Only whole: half a figure misleads.
  Line& add_if_fits(std::string_view text, Style how = Style::kPlain) {
    return display_columns(printable(text, terminal_)) <= room() ? add(text, how) : *this;
  }
  int room() const {
    return std::max(0, terminal_.columns - 1 - columns_);
  }  // the last column stays free, some terminals wrap there
  std::string text() const { return text_; }

 private:
  const Terminal& terminal_;
  std::string text_;
  int columns_ = 0;
};

std::string ms_text(double ms) {
  return ms >= 10000 ? cat(fixed_text(ms / 1000, 1), " s") : cat(fixed_text(ms, ms < 100 ? 1 : 0), " ms");
}
// A file may hold any number; past this one there is no integer to cut it down to.
constexpr double kMostCounted = 1e18;
std::string bytes_text(double bytes) {
  return bytes < kMostCounted ? format_bytes(static_cast<uint64_t>(std::max(0.0, bytes)))
                              : cat(significant_text(bytes, 3), " B");
}
std::string rate_text(double rate) {
  return std::fabs(rate) < kMostCounted ? format_count(std::llround(rate)) : significant_text(rate, 3);
}
std::string percent_text(double share) { return cat(fixed_text(100 * share, 1), " %"); }

Style status_style(const LiveState& state) {
  if (state.stalled || state.status == "failed") return Style::kRed;
  return state.status == "running" ? Style::kGreen : Style::kBold;
}

std::string shown_status(const LiveState& state) { return state.stalled ? "stands still" : state.status; }

std::string age_text(const LiveState& state) {
  if (state.progress_unix_s <= 0) return "";
  return cat(short_duration_text(std::max(0.0, state.now_unix_s - state.progress_unix_s)), " ago");
}

void add_head(std::vector<std::string>& out, const LiveState& state, const Terminal& terminal) {
  Line head(terminal);
  head.add(state.name, Style::kBold).add("  ").add(shown_status(state), status_style(state));
  if (state.world > 0) head.add_if_fits(cat("  ", state.world, state.world == 1 ? " rank" : " ranks"));
  for (const auto& [name, text] : state.words)
    if (name == "device") head.add_if_fits(cat("  ", text));
  out.push_back(head.text());
  if (!state.status_note.empty())
    out.push_back(Line(terminal).add(state.status_note, state.stalled ? Style::kRed : Style::kDim).text());
}

void add_step(std::vector<std::string>& out, const LiveState& state, const Terminal& terminal) {
  if (!state.step) return;
  Line line(terminal);
  line.label("step").add(grouped_text(*state.step), Style::kBold);
  if (const auto step_ms = finite_in(state.latest, "step_ms")) line.add_if_fits(cat("  ", ms_text(*step_ms)));
  if (state.is_running()) line.add_if_fits(cat("  ", age_text(state)), Style::kDim);
  out.push_back(line.text());
}

void add_loss(std::vector<std::string>& out, const LiveState& state, const Terminal& terminal) {
  const auto loss = state.latest.get("loss");
  if (!loss) return;
  Line line(terminal);
  line.label("loss").add(loss_text(*loss), std::isfinite(*loss) ? Style::kBold : Style::kRed).add("  ");
  line.add(sparkline(state.recent_losses, std::min(60, line.room()), terminal), Style::kGreen);
  out.push_back(line.text());
}

void add_rates(std::vector<std::string>& out, const LiveState& state, const Terminal& terminal) {
  Line line(terminal);
  bool any = false;
  const auto add = [&](const char* field, auto text) {
    if (const auto value = finite_in(state.latest, field)) {
      line.add_if_fits(cat(any ? "  " : "", text(*value)));
      any = true;
    }
  };
  line.label("rate");
  add("tokens_per_s", [](double v) { return cat(rate_text(v), " tokens/s"); });
  add("samples_per_s", [](double v) { return cat(rate_text(v), " samples/s"); });
  add("mfu", [](double v) { return cat(percent_text(v), " of peak"); });
  add("lr", [](double v) { return cat("lr ", significant_text(v, 3)); });
  add("grad_norm", [](double v) { return cat("norm ", loss_text(v)); });
  if (any) out.push_back(line.text());
}

struct Part {
  StepPart part;
  const char* name;
  const char* letter;
};
constexpr Part kDrawnParts[] = {{StepPart::kData, "data", "d"},           {StepPart::kForward, "forward", "f"},
                                {StepPart::kBackward, "backward", "b"},   {StepPart::kExposedComm, "waiting", "w"},
                                {StepPart::kOptimizer, "optimizer", "o"}, {StepPart::kCheckpoint, "saving", "s"},
                                {StepPart::kOther, "other", "."}};

// Each part as its letter, as often as its share of the step: ffffffbbbbbbbbbbbbooo.
void add_parts(std::vector<std::string>& out, const LiveState& state, const Terminal& terminal) {
  const auto parts = detail::parts_from([&](std::string_view name) { return finite_in(state.latest, name); });
  const double total_ms = parts ? std::accumulate(parts->begin(), parts->end(), 0.0) : 0;
  if (total_ms <= 0 || !std::isfinite(total_ms)) return;
  Line bar(terminal), words(terminal);
  bar.label("parts");
  words.label("");
  const int width = std::min(60, bar.room());
  double sum_ms = 0;
  int drawn = 0;
  for (const auto& [part, name, letter] : kDrawnParts) {
    const double ms = (*parts)[static_cast<size_t>(part)];
    if (ms <= 0) continue;
    sum_ms += ms;
    const int end = static_cast<int>(std::lround(width * (sum_ms / total_ms)));
    std::string run;
    for (; drawn < end; ++drawn) run += letter;
    bar.add(run, part == StepPart::kExposedComm ? Style::kRed : Style::kGreen);
    words.add_if_fits(cat(name, " ", ms_text(ms), "  "), Style::kDim);
  }
  out.push_back(bar.text());
  out.push_back(words.text());
}

void add_verdicts(std::vector<std::string>& out, const LiveState& state, const Terminal& terminal) {
  for (const auto& verdict : state.verdicts) {
    if (!verdict.share) continue;
    const bool good = verdict.judgement() == Judgement::kGood;
    Line line(terminal);
    line.add(pad_columns(verdict.label, 15), Style::kDim)
        .add(percent_text(*verdict.share), good ? Style::kGreen : Style::kRed);
    line.add_if_fits(
        cat("  (", verdict.wants_more ? "above " : "below ", fixed_text(100 * verdict.target, 0), " % wanted)"),
        Style::kDim);
    out.push_back(line.text());
  }
}

void add_memory(std::vector<std::string>& out, const LiveState& state, const Terminal& terminal) {
  Line line(terminal);
  line.label("memory");
  const auto rss = finite_in(state.latest, "rss_bytes"), device = finite_in(state.latest, "device_bytes"),
             reserved = finite_in(state.latest, "device_reserved_bytes");
  if (!rss && !device) return;
  if (rss) line.add_if_fits(cat(bytes_text(*rss), " resident"));
  if (device && *device > 0) line.add_if_fits(cat("  ", bytes_text(*device), " device"));
  if (reserved && *reserved > 0) line.add_if_fits(cat("  ", bytes_text(*reserved), " reserved"));
  out.push_back(line.text());
}

std::string rank_line(const RankState& rank, const Terminal& terminal) {
  const auto cell = [&](const char* field, auto text, int columns) {
    const auto value = finite_in(rank.numbers, field);
    const std::string shown = value ? text(*value) : "-";
    return cat(std::string(static_cast<size_t>(std::max(0, columns - display_columns(shown))), ' '), shown);
  };
  const bool trouble = rank.health == RankHealth::kSlow || rank.health == RankHealth::kSilent;
  const Style how = trouble ? Style::kRed : Style::kPlain;
  Line line(terminal);
  line.add(cat(trouble ? "> " : "  ", pad_columns(cat(rank.rank), 5)), how);
  line.add(cell("step_ms", ms_text, 10), how).add(cell("exposed_comm_ms", ms_text, 10), how);
  if (terminal.columns >= 60) line.add(cell("rss_bytes", bytes_text, 11), how);
  if (terminal.columns >= 90) line.add(cell("device_bytes", bytes_text, 11), how);
  if (!rank.host.empty() && terminal.columns >= 60)
    line.add(cat("  ", pad_columns(truncate_columns(printable(rank.host, terminal), 16), 8)), how);
  line.add(cat("  ", rank.why), how);
  return line.text();
}

std::string rank_head(const Terminal& terminal) {
  Line line(terminal);
  line.add("  rank       step     waits", Style::kDim);
  if (terminal.columns >= 60) line.add("   resident", Style::kDim);
  if (terminal.columns >= 90) line.add("     device", Style::kDim);
  if (terminal.columns >= 60) line.add("  host", Style::kDim);
  return line.text();
}

// What was found slow and is no rank: these stand in no line of the ranks.
std::vector<std::string> link_notes(const LiveState& state) {
  std::vector<std::string> out;
  for (const auto& slow : state.slow) {
    if (slow.rank >= 0) continue;
    const bool has_percent = slow.percent && std::isfinite(*slow.percent);
    out.push_back(cat("the link between ranks is ", has_percent ? cat(fixed_text(*slow.percent, 1), " % ") : "",
                      "slower than it was", slow.where.empty() ? "" : cat(" at ", slow.where),
                      slow.since_step ? cat(", since step ", grouped_text(*slow.since_step)) : ""));
  }
  return out;
}

// Those in trouble first, then by number.
std::vector<std::string> rank_lines(const LiveState& state, const Terminal& terminal, int rows) {
  if (state.ranks.empty() || rows < 2) return {};
  std::vector<const RankState*> order;
  for (const auto& rank : state.ranks) order.push_back(&rank);
  std::ranges::stable_sort(order, {}, [](const RankState* rank) {
    return rank->health == RankHealth::kSlow      ? 0
           : rank->health == RankHealth::kSilent  ? 1
           : rank->health == RankHealth::kWaiting ? 2
                                                  : 3;
  });
  std::vector<std::string> out = {rank_head(terminal)};
  const bool fits = static_cast<int>(order.size()) + 1 <= rows;
  const size_t num_shown = fits ? order.size() : static_cast<size_t>(std::max(0, rows - 2));
  for (size_t i = 0; i < num_shown; ++i) out.push_back(rank_line(*order[i], terminal));
  if (!fits)
    out.push_back(Line(terminal).add(cat("  and ", order.size() - num_shown, " more ranks"), Style::kDim).text());
  return out;
}

// "2026-11-16T18:08:21Z text": the day is known, and in a narrow window the words matter more than the time.
std::string without_stamp(const std::string& line, const Terminal& terminal) {
  constexpr size_t kStampSize = 21;
  if (line.size() <= kStampSize || line[10] != 'T' || line[19] != 'Z') return line;
  return terminal.columns < 60 ? line.substr(kStampSize) : line.substr(11, 8) + line.substr(kStampSize - 1);
}

std::vector<std::string> log_lines(const LiveState& state, const Terminal& terminal, int rows) {
  std::vector<std::string> out;
  const size_t num_shown = std::min(state.log.size(), static_cast<size_t>(std::max(0, rows)));
  for (size_t i = state.log.size() - num_shown; i < state.log.size(); ++i) {
    const LogTone tone = log_tone(state.log[i]);
    const Style how = tone == LogTone::kError ? Style::kRed : tone == LogTone::kWarning ? Style::kBold : Style::kDim;
    out.push_back(Line(terminal).add(without_stamp(state.log[i], terminal), how).text());
  }
  return out;
}

}  // namespace

std::string sparkline(const std::vector<double>& values, int columns, const Terminal& terminal) {
  static constexpr std::array<const char*, 8> kBlocks = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  static constexpr std::array<const char*, 8> kAscii = {"_", ".", ",", "-", "=", "+", "*", "#"};
  const auto& levels = terminal.unicode ? kBlocks : kAscii;
  const size_t num_shown = std::min(values.size(), static_cast<size_t>(std::max(0, columns)));
  const std::vector<double> shown(values.end() - static_cast<ptrdiff_t>(num_shown), values.end());
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (const double value : shown) {
    if (!std::isfinite(value)) continue;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  std::string out;
  for (const double value : shown) {
    const double share = high > low ? (value - low) / (high - low) : 0;
    out += std::isfinite(value) ? levels[static_cast<size_t>(std::clamp(std::lround(share * 7), 0L, 7L))] : "!";
  }
  return out;
}

std::vector<std::string> top_lines(const LiveState& state, const Terminal& terminal, int rows) {
  std::vector<std::string> out;
  add_head(out, state, terminal);
  add_step(out, state, terminal);
  add_loss(out, state, terminal);
  add_rates(out, state, terminal);
  add_parts(out, state, terminal);
  add_memory(out, state, terminal);
  add_verdicts(out, state, terminal);
  for (const auto& words : link_notes(state)) out.push_back(Line(terminal).add(words, Style::kRed).text());
  for (const auto& note : state.notes) out.push_back(Line(terminal).add(note, Style::kRed).text());
  const auto room = [&] { return rows - static_cast<int>(out.size()); };
  const auto append = [&](std::vector<std::string> lines) {
    if (lines.empty()) return;
    out.emplace_back();
    out.insert(out.end(), std::make_move_iterator(lines.begin()), std::make_move_iterator(lines.end()));
  };
  append(rank_lines(state, terminal, room() - 1));
  append(log_lines(state, terminal, std::min(8, room() - 1)));
  if (static_cast<int>(out.size()) > rows) out.resize(static_cast<size_t>(std::max(0, rows)));
  return out;
}

std::string top_sentence(const LiveState& state) {
  std::string out = cat(state.name, ": ", shown_status(state));
  if (state.step) out += cat(", step ", grouped_text(*state.step));
  if (const auto loss = state.latest.get("loss")) out += cat(", loss ", loss_text(*loss));
  if (const auto rate = finite_in(state.latest, "tokens_per_s")) out += cat(", ", rate_text(*rate), " tokens/s");
  if (const auto ms = finite_in(state.latest, "step_ms")) out += cat(", ", ms_text(*ms), " a step");
  for (const auto& verdict : state.verdicts)
    if (verdict.judgement() == Judgement::kBad)
      out += cat(", ", verdict.id, " ", percent_text(*verdict.share), " (", verdict.wants_more ? "above " : "below ",
                 fixed_text(100 * verdict.target, 0), " % wanted)");
  for (const auto& rank : state.ranks)
    if (rank.health == RankHealth::kSlow) out += cat(", rank ", rank.rank, " is ", rank.why);
  for (const auto& words : link_notes(state)) out += cat(", ", words);
  if (!state.status_note.empty()) out += cat("; ", state.status_note);
  return printable(out, {});
}

}  // namespace weft
