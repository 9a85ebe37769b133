// What the ranks of a group write into the store for each other, and how it reads as text: one field a line. Internal
// to roll_call.cpp. Threads: values. Failure: Error(kEnvironment) for a record that is none.
#pragma once

#include <cstdint>
#include <string>

#include "weft/comm/fabric/call.h"
#include "weft/comm/peer_lost.h"

namespace weft::comm {

// Who a rank is. Written once.
struct Member {
  std::string host;
  int pid = 0;
  uint64_t start_time = 0;
  std::string host_identity;  // host_identity.h
  int world = 0;
  bool serves = false;  // the store is in its process
  std::string nonce;    // two threads of one process are two members

  static Member self(int world, bool serves);
  std::string who() const;  // "process 12 on host a"
};

enum class Presence : uint8_t { kHere, kTold, kGone };  // told: it has read the verdict, or that the server left

// What a rank is doing. Written at every beat.
struct Beat {
  uint64_t count = 0;
  Presence presence = Presence::kHere;
  uint64_t num_begun = 0;  // collectives; send and recv do not count
  uint64_t sequence = 0;   // of its current or last call
  fabric::Operation operation = fabric::Operation::kNone;
  bool is_inside = false;    // that collective is under way
  uint64_t fingerprint = 0;  // equal in every rank of one collective
  std::string call;          // the same in words
};

// Why the group came to an end. The first to find out writes it.
struct Verdict {
  enum class Kind { kLost, kRefused, kDiffer };
  Kind kind = Kind::kLost;
  Loss loss;         // of kLost
  std::string text;  // of the others: the values that prove it
};

std::string to_text(const Member& member);
std::string to_text(const Beat& beat);
std::string to_text(const Verdict& verdict);
Member member_from(const std::string& text);
Beat beat_from(const std::string& text);
Verdict verdict_from(const std::string& text);

}  // namespace weft::comm
