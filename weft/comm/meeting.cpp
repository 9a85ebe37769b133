#include "weft/comm/meeting.h"

#include <chrono>
#include <thread>

#include "weft/base/text.h"
#include "weft/comm/peer_lost.h"

namespace weft::comm {
namespace {

constexpr std::chrono::milliseconds kLook{20};
// How long the server of the store stays after it gave up, so that the others read why: several of their looks.
constexpr std::chrono::milliseconds kLinger{500};
constexpr const char* kMissing = "meeting/missing";

PeerLost missing(int rank, const Store& store) {
  return PeerLost({.kind = LossKind::kSilent,
                   .rank = rank,
                   .host = "",
                   .last_collective = "",
                   .waiting_in = cat("the meeting at ", to_text(store.endpoint())),
                   .group = "",
                   .detail = "it never came: was it started, and does it know the same MASTER_ADDR and MASTER_PORT?"});
}

std::string hear(const Store& store, int rank, Deadline deadline) {
  for (;;) {
    if (auto said = store.find(cat("meeting/", rank))) return *said;
    // The first to give up decides whom all name.
    if (const auto verdict = store.find(kMissing)) throw missing(std::stoi(*verdict), store);
    if (deadline.expired()) {
      const std::string verdict = store.compare_set(kMissing, "", cat(rank));
      if (store.is_server()) std::this_thread::sleep_for(kLinger);
      throw missing(std::stoi(verdict), store);
    }
    std::this_thread::sleep_for(kLook);
  }
}

}  // namespace

std::vector<std::string> meet(const Store& store, int rank, int world, const std::string& text, Deadline deadline) {
  try {
    store.set(cat("meeting/", rank), text);
    std::vector<std::string> said;
    for (int peer = 0; peer < world; ++peer) said.push_back(hear(store, peer, deadline));
    return said;
  } catch (const StoreLost& lost) {
    if (rank == 0) throw;
    throw PeerLost({.kind = LossKind::kDied,
                    .rank = 0,
                    .host = store.endpoint().host,
                    .last_collective = "",
                    .waiting_in = "the meeting",
                    .group = "",
                    .detail = lost.text().title});
  }
}

}  // namespace weft::comm
