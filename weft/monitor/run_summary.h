// What the files of a run say, worked out: how it ended, where its time went, and which targets it met. The one place for
// these numbers, so that the report, its JSON form and a comparison cannot disagree.
//
// Pure functions over values, any thread, no failure: what was not measured is NaN, or has no entry.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/monitor/run_files.h"

namespace weft {

enum class StepPart { kData, kForward, kBackward, kExposedComm, kOptimizer, kCheckpoint, kOther };
inline constexpr size_t kNumStepParts = 7;
using PartTimes = std::array<double, kNumStepParts>;  // ms, by StepPart

// "exposed communication"; and in Chinese.
struct Words {
  std::string en = {}, zh = {};
};
const Words& words_of(StepPart part);

// Forward, backward and optimizer of a row contain the waits inside them; these do not. They add up to the step, and a save
// after it. Nothing where no part is known.
std::optional<PartTimes> parts_of(const RunRow& row);

enum class RunEnd {
  kFinished,
  kStopped,  // by a signal
  kFailed,
  kRunning,      // or lost: no clock tells
  kLost,         // says that it runs, and has stood still far longer than its steps take
  kNotRecorded,  // no result.json
};
Words words_of(RunEnd state);

enum class TargetMark { kMet, kMissed, kNotKnown, kNone };

// A target of training on several devices, and what the run reached.
struct TargetRow {
  std::string key;  // "utilisation"
  Words name = {}, target = {};
  double value = kUnknown;     // in the unit of `shown`
  Words shown = {}, how = {};  // "91.2 %"; how it was measured
  TargetMark mark = TargetMark::kNotKnown;
};

// Means over the steps and ranks of the timeline.
struct Overlap {
  double compute_ms = 0, comm_ms = 0;
  double exposed_ms = 0;         // waits while communication was on its way
  double wait_for_ranks_ms = 0;  // the other waits: for a late rank, for its loss; no overlap could hide them

  double bound_ms() const { return compute_ms > comm_ms ? compute_ms : comm_ms; }
  double serial_ms() const { return compute_ms + comm_ms; }
  double achieved_ms() const { return compute_ms + exposed_ms; }
  // Of the communication that computation could hide, the share that it did: 0 to 1.
  double hidden_share() const;
};

struct RunSummary {
  RunEnd state = RunEnd::kNotRecorded;
  std::optional<int64_t> last_step = {};
  double stood_still_s = kUnknown;  // since the last step, where it was asked at which time it is
  double step_ms = kUnknown, tokens_per_s = kUnknown, samples_per_s = kUnknown,
         mfu = kUnknown;         // medians, warm-up left out
  double final_loss = kUnknown;  // mean of the last tenth
  double peak_bytes = kUnknown;  // on the device where one is used, else resident
  bool peak_is_on_device = false;
  std::optional<PartTimes> parts_ms = {};  // means, warm-up left out
  std::optional<Overlap> overlap = {};
  std::vector<TargetRow> targets = {};
};

// `now_unix_s` tells a run that was lost from one that goes on.
RunSummary summarize(const RunFiles& run, std::optional<double> now_unix_s = std::nullopt);

// The three targets with a number, for texts.
inline constexpr double kTargetUtilisation = 0.85, kTargetCommunication = 0.20, kTargetMemory = 0.80;

namespace detail {
std::optional<Overlap> overlap_of(const RunFiles& run);
std::vector<TargetRow> targets_of(const RunFiles& run, const RunSummary& summary);
// Drawable values of one column, warm-up left out.
std::vector<double> timed_values(const RunFiles& run, double RunRow::* column);
double mean_of(const std::vector<double>& values);
double median_of(std::vector<double> values);
}  // namespace detail

}  // namespace weft
