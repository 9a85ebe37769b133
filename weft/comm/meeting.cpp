#include "weft/comm/meeting.h"

#include <chrono>
#include <thread>

#include "weft/base/text.h"
#include "weft/comm/peer_lost.h"

namespace weft::comm {
namespace {

constexpr std::chrono::milliseconds kLook{20};
// How long the server of the store stays after the meeting failed, at most, for the others to read why.
constexpr std::chrono::seconds kLinger{3};
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

// The store ends with its server: who came and has not read the verdict would find it gone, and blame the server.
void linger(const Store& store, int world) {
  const Deadline end = Deadline::after(kLinger);
  for (int rank = 0; rank < world; ++rank) {
    if (!store.find(cat("meeting/", rank))) continue;
    while (!store.find(cat("meeting/told/", rank)) && !end.expired()) std::this_thread::sleep_for(kLook);
  }
}

struct Visitor {
  const Store& store;
  int rank, world;

  [[noreturn]] void give_up(const std::string& verdict) const {
    store.set(cat("meeting/told/", rank), "1");
    if (store.is_server()) linger(store, world);
    throw missing(std::stoi(verdict), store);
  }

  std::string hear(int peer, Deadline deadline) const {
    for (;;) {
      if (auto said = store.find(cat("meeting/", peer))) return *said;
      // The first to give up decides whom all name.
      if (const auto verdict = store.find(kMissing)) give_up(*verdict);
      if (deadline.expired()) give_up(store.compare_set(kMissing, "", cat(peer)));
      std::this_thread::sleep_for(kLook);
    }
  }
};

}  // namespace

std::vector<std::string> meet(const Store& store, int rank, int world, const std::string& text, Deadline deadline) {
  try {
    store.set(cat("meeting/", rank), text);
    std::vector<std::string> said;
    const Visitor self{store, rank, world};
    for (int peer = 0; peer < world; ++peer) said.push_back(self.hear(peer, deadline));
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
