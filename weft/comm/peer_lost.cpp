#include "weft/comm/peer_lost.h"

#include "weft/base/text.h"

namespace weft::comm {
namespace {

std::string_view verb_of(LossKind kind) {
  switch (kind) {
    case LossKind::kDied: return "died";
    case LossKind::kLeft: return "left";
    case LossKind::kSilent: return "did not come by the deadline";
  }
  return "is lost";
}

ErrorText text_of(const Loss& loss) {
  std::string who = loss.host.empty() ? "" : cat("host ", loss.host);
  if (loss.pid != 0) who += cat(who.empty() ? "" : ", ", "process ", loss.pid);
  std::string what = cat("last seen in: ", loss.last_collective.empty() ? "nothing yet" : loss.last_collective);
  if (!loss.waiting_in.empty()) what += cat("; waited for in: ", loss.waiting_in);
  if (!loss.detail.empty()) what += cat("; ", loss.detail);
  return {.title = cat("rank ", loss.rank, " ", verb_of(loss.kind), who.empty() ? "" : cat(" (", who, ")")),
          .what = what,
          .where = loss.group.empty() ? "" : cat("group ", loss.group),
          .fix = loss.kind == LossKind::kSilent
                     ? "look at what that rank was doing; if it is merely slow, raise \"weft\": {\"deadline_s\": ...}"
                     : "look at the end of that rank's output for the reason; this group cannot be used any more"};
}

}  // namespace

Loss renumbered(Loss loss, const std::vector<int>& ranks) {
  loss.rank = ranks.at(static_cast<size_t>(loss.rank));
  return loss;
}

PeerLost::PeerLost(Loss loss) : Error(ErrorKind::kEnvironment, text_of(loss)), loss_(std::move(loss)) {}

}  // namespace weft::comm
