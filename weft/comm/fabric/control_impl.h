// The control block as it lies in shared memory. Every rank maps it; all that more than one rank touches is atomic, or
// (the loss) handed over through an atomic. Changing anything here means another kProtocol in rendezvous.cpp.
#pragma once

#include <atomic>
#include <cstdint>

#include "weft/comm/fabric/loss.h"

namespace weft::fabric {

inline constexpr size_t kCacheLine = 64;

static_assert(std::atomic<uint64_t>::is_always_lock_free && std::atomic<uint32_t>::is_always_lock_free,
              "atomics with a hidden lock would not work across processes");

struct PublishedCall {
  std::atomic<uint32_t> operation, variant;
  std::atomic<uint64_t> bytes, place;
};

// Written by its rank alone.
struct alignas(kCacheLine) RankSlot {
  std::atomic<uint64_t> arrived;   // barriers it has entered
  std::atomic<uint64_t> sequence;  // number of its current call
  std::atomic<uint32_t> operation;
  std::atomic<int32_t> code;       // errno of its part of a common step, for all to see
  std::atomic<int32_t> pid;        // 0: has not come yet
  std::atomic<uint32_t> departed;  // 1: has closed its fabric
  std::atomic<uint64_t> start_time;
  // By parity of the sequence: a peer can be one call ahead while we still compare the last one, never two.
  alignas(kCacheLine) PublishedCall calls[2];
};

enum LossState : uint32_t { kNoLoss, kLossInWriting, kLossWritten };

struct alignas(kCacheLine) ControlBlock {
  std::atomic<uint32_t> bell;  // the futex: rung when a barrier is complete, and when something was lost
  std::atomic<uint32_t>
      sleepers;  // who may need waking; a rank killed in its sleep leaves it too high, which only costs
  std::atomic<uint32_t> loss_state;
  alignas(kCacheLine) Loss loss;
};

}  // namespace weft::fabric
