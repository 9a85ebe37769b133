// Copies of a training in memory that outlives its ranks, for the next attempt of the run (docs/buddy.md).
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "weft/base/error.h"
#include "weft/base/log.h"
#include "weft/base/text.h"
#include "weft/base/units.h"
#include "weft/comm/peer_lost.h"
#include "weft/engine/agree.h"
#include "weft/engine/training.h"

namespace weft::engine {
namespace {

// /dev/shm is everybody's: the folder is not.
void make_private(const std::string& folder) {
  struct stat info{};
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) throw IoError("make the folder of copies", folder, errno);
  if (::lstat(folder.c_str(), &info) != 0) throw IoError("look at the folder of copies", folder, errno);
  if (S_ISDIR(info.st_mode) && info.st_uid == ::getuid()) return;
  throw Error(ErrorKind::kInput, {.title = "the folder of copies belongs to somebody else",
                                  .what = cat("its owner is user ", info.st_uid),
                                  .where = folder,
                                  .fix = "have it removed"});
}

}  // namespace

const std::string& Training::copies_folder() {
  if (copies_folder_) return *copies_folder_;
  const char* const given = std::getenv("WEFT_BUDDY_DIR");
  copies_folder_ = given == nullptr ? "" : given;
  bool all_have = true;
  for (const std::string& text : exchange_texts(*world_.group, *copies_folder_, device_))
    all_have = all_have && !text.empty();
  if (!all_have) copies_folder_->clear();
  if (all_have) make_private(*copies_folder_);
  if (!all_have && world_.rank == 0)
    log_warn("\"buddy\": no copies are kept, for nobody would start the ranks again: weft run --restarts K --resume");
  return *copies_folder_;
}

void Training::keep_copy(const SaveOptions& options) {
  const bool is_due = in_step_ == 0 && global_steps_ > 0 && global_steps_ % config_.weft.buddy_every_steps == 0;
  if (!config_.weft.buddy || !is_due || copies_folder().empty()) return;
  const SaveOptions own{.tag = options.tag,
                        .client_state = options.client_state,
                        .metrics = options.metrics,
                        .data = options.data,
                        .keep = checkpoint::PrunePolicy{.keep_last = 1}};
  const bool is_first = copies_.totals().bytes == 0;
  try {
    const SaveReport report = copies_.save(copies_folder(), own);
    if (!is_first || world_.rank != 0) return;
    log_info("a copy of ", format_bytes(report.bytes), " is kept in memory every ", config_.weft.buddy_every_steps,
             " steps, in ", copies_folder());
  } catch (const Error& error) {
    const bool is_lasting =
        error.kind() != ErrorKind::kEnvironment || dynamic_cast<const comm::PeerLost*>(&error) != nullptr;
    if (is_first || is_lasting) throw;
    if (world_.rank == 0) log_error("there is no copy of step ", global_steps_, ", training goes on\n", error.what());
  }
}

std::optional<LoadedCheckpoint> Training::load(const std::string& folder, const LoadCheckpointOptions& options) {
  Checkpoints::Copies copies;
  if (config_.weft.buddy && !copies_folder().empty()) copies = {.store = &copies_, .folder = copies_folder()};
  return checkpoints_.load(folder, options, copies);
}

void Training::wait_for_saves() {
  copies_.finish_previous();  // what went wrong with it is in the log
  checkpoints_.wait();
}

CheckpointTotals Training::save_totals() const {
  CheckpointTotals out = checkpoints_.totals();
  out.num_copies = copies_.totals().num_saves;
  out.copy_bytes = copies_.totals().bytes;
  out.copy_stopped_s = copies_.totals().stopped_s;
  return out;
}

}  // namespace weft::engine
