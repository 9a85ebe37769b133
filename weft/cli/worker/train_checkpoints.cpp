#include "weft/cli/worker/train_checkpoints.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "weft/base/error.h"
#include "weft/base/log.h"
#include "weft/base/text.h"
#include "weft/base/units.h"
#include "weft/checkpoint/import_step.h"
#include "weft/comm/peer_lost.h"

namespace weft::cli {
namespace {

constexpr const char* kLossMetric = "loss";

std::vector<std::string> differences(const std::map<std::string, std::string>& wanted, const ClientState& found) {
  std::vector<std::string> out;
  for (const auto& [key, value] : wanted) {
    const auto entry = found.find(key);
    const std::string there = entry == found.end() ? "nothing" : entry->second;
    if (there != value) out.push_back(cat("--", key, " is ", value, " now, the saved run had ", there));
  }
  return out;
}

bool is_imported(const LoadedCheckpoint& found) {
  return found.client_state.contains(std::string(checkpoint::kImportedFrom));
}

std::string text_of(double seconds) { return cat(std::llround(seconds * 1e3), " ms"); }

}  // namespace

TrainCheckpoints::TrainCheckpoints(Engine& engine, TrainCheckpointOptions options)
    : engine_(engine), o_(std::move(options)) {}

void TrainCheckpoints::check_origin(const LoadedCheckpoint& found) const {
  if (is_imported(found)) return;  // nobody's flags were saved with it
  const auto others = differences(o_.identity, found.client_state);
  if (!others.empty()) {
    throw Error(ErrorKind::kInput, {.title = "the saved run is another one",
                                    .what = join(others, "\n"),
                                    .where = found.folder,
                                    .fix = "resume with the flags of the saved run, or give --save another folder"});
  }
}

std::optional<LoadedCheckpoint> TrainCheckpoints::restore() {
  auto loaded =
      engine_.load_checkpoint(o_.folder, {.accept = [this](const LoadedCheckpoint& found) { check_origin(found); }});
  if (!loaded) return std::nullopt;
  const auto moved = is_imported(*loaded) ? std::vector<std::string>() : differences(o_.machine, loaded->client_state);
  if (!moved.empty())
    log_warn("the losses may differ in their last bits from a run without interruption: ", join(moved, "; "));
  if (!loaded->is_copy) last_step_ = loaded->step;
  return loaded;
}

SaveOptions TrainCheckpoints::options_for(double loss) const {
  SaveOptions out{.client_state = o_.identity, .metrics = {{kLossMetric, loss}}};
  out.client_state.insert(o_.machine.begin(), o_.machine.end());
  if (o_.keep_last == 0) return out;
  out.keep = checkpoint::PrunePolicy{.keep_last = static_cast<int>(o_.keep_last),
                                     .keep_every = o_.keep_every,
                                     .metric = o_.keep_best > 0 ? kLossMetric : "",
                                     .keep_best = static_cast<int>(o_.keep_best)};
  return out;
}

void TrainCheckpoints::begin(int64_t step, double loss) {
  const SaveReport report = engine_.save_checkpoint(o_.folder, options_for(loss));
  const bool first = engine_.checkpoint_totals().num_saves == 0;
  if (engine_.world().rank == 0 && first && last_step_ != step)
    log_info("saving step ", step, " in ", o_.folder, " behind the training: ", format_bytes(report.bytes),
             ", which stopped it for ", text_of(report.stopped_s));
  last_step_ = step;
  // A moment is nothing to talk about.
  constexpr double kMuchS = 0.1;
  if (engine_.world().rank != 0 || report.waited_s < kMuchS || std::exchange(has_told_waiting_, true)) return;
  log_warn("training waited ", text_of(report.waited_s),
           " for the save before this one: save less often, or to a faster disk");
}

void TrainCheckpoints::save(int64_t step, double loss) {
  if (last_step_ == step) return;
  try {
    begin(step, loss);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kEnvironment || dynamic_cast<const comm::PeerLost*>(&error) != nullptr) throw;
    if (engine_.world().rank == 0) log_error("step ", step, " is not saved, training goes on\n", error.what());
  }
}

void TrainCheckpoints::save_and_wait(int64_t step, double loss) {
  if (last_step_ != step) begin(step, loss);
  engine_.wait_for_checkpoint();
}

}  // namespace weft::cli
