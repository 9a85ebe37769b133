// What there is to say about a run right now: the value that the page, the endpoint for Prometheus and `weft top` show.
// RunView makes it from the run folder; state_json.h carries it over HTTP.
//
// Plain values and pure functions, any thread, no failure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weft {

// Numbers by their names in the file, in the file's order. NaN where the file says null.
class NamedNumbers {
 public:
  void set(std::string_view name, double value);
  std::optional<double> get(std::string_view name) const;
  const std::vector<std::pair<std::string, double>>& all() const { return all_; }
  void clear() { all_.clear(); }

 private:
  std::vector<std::pair<std::string, double>> all_;
};

enum class RankHealth {
  kGood,
  kWaiting,  // spends much of the step waiting for others
  kSlow,     // others wait for it
  kSilent,   // has not been heard of for long, or is missing
};

struct RankState {
  int64_t rank = 0;
  std::string host;  // may be empty
  RankHealth health = RankHealth::kGood;
  std::string why;       // for all but kGood
  NamedNumbers numbers;  // as in ranks.json
};

struct SlowNote {
  int64_t rank = 0;
  std::string phase, where;  // may be empty
  std::optional<double> percent, ms;
  std::optional<int64_t> since_step;
};

enum class Judgement { kUnknown, kGood, kBad };

// A figure beside its target.
struct Verdict {
  std::string id;     // utilisation, communication, memory
  std::string label;  // what was measured
  std::optional<double> share;
  double target = 0;
  bool wants_more = false;  // the share is to be above the target; else below
  std::string note;         // how it was found, or why it is not known

  Judgement judgement() const;
};

struct LiveState {
  std::string name;
  std::string folder;          // as the reader was given it
  std::string status;          // of result.json; "waiting" before anything is there, "unknown" without result.json
  bool stalled = false;        // should be running and stands still
  std::string status_note;     // a sentence where there is something to say
  double now_unix_s = 0;       // when this was put together
  double progress_unix_s = 0;  // when the last step was seen to end, by the same clock; 0: none yet
  std::optional<int64_t> step;
  int64_t num_rows = 0, num_bad_losses = 0;
  NamedNumbers latest;                                     // the last row of metrics.jsonl
  NamedNumbers facts;                                      // numbers of result.json
  std::vector<std::pair<std::string, std::string>> words;  // texts of result.json: device, data
  std::vector<double> recent_losses;                       // oldest first; NaN where the loss was not finite
  std::vector<Verdict> verdicts;
  int64_t world = 0;       // 0: not known
  int64_t ranks_step = 0;  // the step that `ranks` are about
  std::vector<RankState> ranks;
  std::vector<SlowNote> slow;
  std::vector<std::string> log;    // oldest first
  std::vector<std::string> notes;  // what could not be read, and why
  bool has_report = false;
  // Another one whenever curves held by a reader are void: rows were taken back, or another reader of a folder answers.
  int64_t epoch = 0;
  int64_t version = 0;  // grows whenever anything here changed

  bool is_running() const { return status == "running" || status == "unknown"; }
};

const char* health_name(RankHealth health);
const char* judgement_name(Judgement judgement);
enum class LogTone { kPlain, kWarning, kError };
// By the words that our log and Python's put there.
LogTone log_tone(std::string_view line);

}  // namespace weft
