#include "weft/comm/fabric/loss.h"

#include <algorithm>
#include <cstring>

#include "weft/base/text.h"

namespace weft::fabric {
namespace {

std::string title_of(const Loss& loss) {
  std::string who = cat("rank ", loss.rank, " of ", loss.world);
  switch (loss.kind) {
    case LossKind::kDied: return cat(who, " died");
    case LossKind::kLeft: return cat(who, " left while others waited for it");
    case LossKind::kSilent: return loss.pid == 0 ? cat(who, " never came") : cat(who, " did not arrive in time");
    case LossKind::kDisagree: return cat(who, " made another call than the others");
    case LossKind::kRefused: return cat(who, " does not belong to this run");
  }
  return who;
}

std::string fix_of(const Loss& loss) {
  switch (loss.kind) {
    case LossKind::kDied: return "look for the cause in that rank's own output; dmesg tells if the kernel ended it";
    case LossKind::kLeft: return "look for an error in that rank's own output";
    case LossKind::kSilent:
      return loss.pid == 0 ? "start every rank of the run, all with the same run id and world size"
                           : cat("see where it hangs: eu-stack -p ", loss.pid, "; if it is only slow, allow more time");
    case LossKind::kDisagree: return "make every rank call the same operations in the same order with the same sizes";
    case LossKind::kRefused: return "give each rank a number of its own, and all of them the same world size and weft";
  }
  return "";
}

ErrorText text_of(const Loss& loss) {
  std::string what;
  if (loss.pid != 0) what = cat("process ", loss.pid, "; its last call: ", describe(loss.operation, loss.sequence));
  if (loss.detail[0] != '\0') what += cat(what.empty() ? "" : "\n", std::string_view(loss.detail));
  return {.title = title_of(loss),
          .what = what,
          .where = cat("found by rank ", loss.found_by, " in ", describe(loss.during, loss.during_sequence)),
          .fix = fix_of(loss)};
}

}  // namespace

void Loss::set_detail(const std::string& text) {
  const size_t length = std::min(text.size(), sizeof detail - 1);
  std::memcpy(detail, text.data(), length);
  detail[length] = '\0';
}

PeerLost::PeerLost(const Loss& loss) : Error(ErrorKind::kEnvironment, text_of(loss)), loss_(loss) {}

void throw_loss(const Loss& loss) {
  if (loss.kind == LossKind::kDisagree) throw Error(ErrorKind::kBug, text_of(loss));
  if (loss.kind == LossKind::kRefused) throw Error(ErrorKind::kInput, text_of(loss));
  throw PeerLost(loss);
}

}  // namespace weft::fabric
