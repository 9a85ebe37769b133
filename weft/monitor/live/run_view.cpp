#include "weft/monitor/live/run_view.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "weft/base/error.h"
#include "weft/base/text.h"
#include "weft/base/units.h"
#include "weft/monitor/live/run_files_impl.h"
#include "weft/monitor/numbers.h"

namespace weft {
namespace {

constexpr uint64_t kMaxFileBytes = 64 << 20;
constexpr uint64_t kLogTailBytes = 256 << 10;
constexpr size_t kRecentLosses = 120, kRecentSteps = 64;
// A step may be late because of a save, a held-out pass or a busy machine; past both of these it is news.
constexpr double kStalledAfterS = 20, kStalledAfterSteps = 10;

double system_unix_s() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string last_part(const std::string& folder) {
  std::string trimmed = folder;
  while (trimmed.size() > 1 && trimmed.back() == '/') trimmed.pop_back();
  const size_t slash = trimmed.rfind('/');
  return slash == std::string::npos || trimmed.size() == 1 ? trimmed : trimmed.substr(slash + 1);
}

std::string step_text(double seconds) { return format_duration(std::chrono::nanoseconds(std::llround(seconds * 1e9))); }

}  // namespace

RunView::RunView(Env& env, const std::string& folder, RunViewOptions options)
    : env_(env),
      folder_(folder),
      options_(std::move(options)),
      metrics_(env, path("metrics.jsonl")),
      log_(env, path("log.txt"), kLogTailBytes),
      series_(options_.max_bins) {
  state_.name = last_part(folder);
  state_.folder = folder;
  state_.status = "waiting";
  // A page that stays open may find another server at its address; what it holds is of that one then, not of us.
  state_.epoch = static_cast<int64_t>(system_unix_s() * 1e3);
}

bool RunView::refresh() {
  const LiveState before = state_;
  file_notes_.clear();
  state_.now_unix_s = options_.now_unix_s ? options_.now_unix_s() : system_unix_s();
  const bool more_rows = read_metrics(), more_log = read_log();
  read_result();
  read_ranks();
  state_.has_report = env_.stat(path("report.html")).has_value();
  judge_progress();
  detail::judge_ranks(state_, ranks_text_.empty() ? 0 : ranks_seen_.at_unix_s());
  state_.verdicts = detail::judge(state_, options_.host);
  if (num_bad_rows_ > 0) file_notes_.push_back(cat("metrics.jsonl: lines that are no rows, left out: ", num_bad_rows_));
  for (const std::string* note : {&result_note_, &ranks_note_})
    if (!note->empty()) file_notes_.push_back(*note);
  state_.notes = file_notes_;
  if (detail::differs(before, state_)) ++state_.version;
  return more_rows || more_log;
}

void RunView::forget_rows() {
  series_.clear();
  recent_step_s_.clear();
  num_bad_rows_ = 0;
  state_.step.reset();
  state_.latest.clear();
  state_.recent_losses.clear();
  state_.num_rows = state_.num_bad_losses = 0;
  ++state_.epoch;
}

bool RunView::read_metrics() {
  const TailLines news = metrics_.read(options_.bytes_a_refresh);
  if (news.restarted) forget_rows();
  for (const auto& line : news.lines) add_row(line);
  // Rows of a long file that are read bit by bit are not new.
  const bool is_behind = std::exchange(is_behind_, news.more);
  if (metrics_.exists())
    rows_seen_.look(metrics_.modified_unix_s(), !news.lines.empty() && !is_behind, state_.now_unix_s);
  if (!metrics_.trouble().empty()) file_notes_.push_back(cat("metrics.jsonl: ", metrics_.trouble()));
  return news.more;
}

void RunView::add_row(const std::string& line) {
  if (line.empty()) return;
  const auto row = detail::parse_row(line);
  if (!row) {
    ++num_bad_rows_;
    return;
  }
  if (state_.step && row->step <= *state_.step) ++state_.epoch;  // the run went back without cutting the file
  state_.step = row->step;
  state_.latest = row->numbers;
  ++state_.num_rows;
  SeriesRow values;
  for (size_t i = 0; i < values.size(); ++i) values[i] = row->numbers.get(kSeriesColumns[i]).value_or(std::nan(""));
  series_.add(row->step, values);
  if (const auto loss = row->numbers.get("loss")) {
    state_.num_bad_losses += std::isfinite(*loss) ? 0 : 1;
    auto& losses = state_.recent_losses;
    losses.push_back(*loss);
    if (losses.size() > kRecentLosses) losses.erase(losses.begin());
  }
  const double step_ms = row->numbers.get("step_ms").value_or(std::nan(""));
  if (!std::isfinite(step_ms)) return;
  recent_step_s_.push_back(step_ms * 1e-3);
  if (recent_step_s_.size() > kRecentSteps) recent_step_s_.pop_front();
}

bool RunView::read_log() {
  const TailLines news = log_.read(options_.bytes_a_refresh);
  auto& log = state_.log;
  if (news.restarted) log.clear();
  // A line without an end would make every state as long as itself.
  constexpr size_t kLongest = 2000;
  for (const auto& line : news.lines) {
    log.push_back(line.substr(0, kLongest));
    if (line.size() > kLongest) log.back() += " ...";
  }
  if (log.size() > options_.max_log_lines)
    log.erase(log.begin(), log.end() - static_cast<ptrdiff_t>(options_.max_log_lines));
  if (!log_.trouble().empty()) file_notes_.push_back(cat("log.txt: ", log_.trouble()));
  return news.more;
}

bool RunView::read_changed(const std::string& name, std::string& known) {
  std::string text;
  try {
    if (!env_.stat(path(name))) {
      const bool changed = !known.empty();
      known.clear();
      return changed;
    }
    text = read_file(env_, path(name), kMaxFileBytes);
  } catch (const Error& error) {
    file_notes_.push_back(cat(name, ": ", error.text().title));
    return false;
  }
  if (text == known) return false;
  known = std::move(text);
  return true;
}

void RunView::read_result() {
  if (read_changed("result.json", result_text_)) result_note_ = detail::take_result(result_text_, state_);
  if (result_text_.empty()) state_.status = state_.step || !state_.log.empty() ? "unknown" : "waiting";
}

void RunView::read_ranks() {
  const bool changed = read_changed("ranks.json", ranks_text_);
  if (changed) ranks_note_ = detail::take_ranks(ranks_text_, state_);
  if (!ranks_text_.empty()) ranks_seen_.look(modified_unix_s(env_, path("ranks.json")), changed, state_.now_unix_s);
}

void RunView::judge_progress() {
  state_.stalled = false;
  state_.status_note.clear();
  // By the clock of this machine: that of the run may be hours off.
  state_.progress_unix_s = state_.step ? rows_seen_.at_unix_s() : 0;
  if (state_.status == "waiting") state_.status_note = "nothing has been written yet";
  if (state_.status == "running" && !state_.step) state_.status_note = "no step has ended yet";
  if (!state_.is_running() || !state_.step || state_.progress_unix_s <= 0) return;
  const double age_s = state_.now_unix_s - state_.progress_unix_s;
  const double longest_s = recent_step_s_.empty() ? 0 : *std::ranges::max_element(recent_step_s_);
  if (age_s <= std::max(kStalledAfterS, kStalledAfterSteps * longest_s)) return;
  state_.stalled = true;
  // Since when, not for how long: that would be old as soon as it is read.
  state_.status_note =
      cat("has stood still since ", detail::clock_text(state_.progress_unix_s), ", after step ",
          grouped_text(*state_.step), longest_s > 0 ? cat("; its steps took up to ", step_text(longest_s)) : "");
}

}  // namespace weft
