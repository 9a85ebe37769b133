// What each rank tells the others about a step: a few numbers, sent along with the loss.
//
//   RankNumbers mine = ...;
//   mine.pack(values);                        // kNumRankNumbers doubles, one collective
//   RankNumbers::unpack(values_of_rank_3);
//
// Plain value; no failure: numbers from a peer are taken as they are.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "weft/monitor/step_times.h"

namespace weft {

inline constexpr size_t kNumReadyTimes = 32;  // places; where there are more buckets, neighbours share one
inline constexpr size_t kNumRankFields = 20;
inline constexpr size_t kNumRankNumbers = kNumRankFields + kNumReadyTimes;

struct RankNumbers {
  double step_ms = 0, busy_ms = 0;                                        // busy: without waits for communication
  double data_ms = 0, forward_ms = 0, backward_ms = 0, optimizer_ms = 0;  // without the waits inside
  double exposed_comm_ms = 0, checkpoint_ms = 0, reduce_ms = 0;
  double rss_bytes = 0, device_bytes = 0, device_reserved_bytes = 0;
  double peak_rss_bytes = 0, peak_device_bytes = 0, peak_device_reserved_bytes = 0;  // so far
  double host_bytes =
      0;  // the rank's part of what the ranks of its host hold at the most, in which shared memory stands once
  double cpu_percent = 0, gpu_percent = -1;  // -1: not known
  double num_buckets = 0;
  double pace_us = 0;  // what a small product, the same on every rank, took its processor; 0: not measured
  // By place, since backward began: when the last bucket of that place was full.
  std::array<double, kNumReadyTimes> ready_ms = {};

  void pack(std::span<double, kNumRankNumbers> out) const;
  static RankNumbers unpack(std::span<const double, kNumRankNumbers> values);
};

// The buckets of a place: from `first` to `last`, both in it. Requires: place < min(num_buckets, kNumReadyTimes).
struct BucketRange {
  size_t first = 0, last = 0;
};
BucketRange buckets_of_place(size_t place, size_t num_buckets);

// The times; memory and the use of the machine are the caller's to fill in.
RankNumbers numbers_of(const StepTimes& times);

}  // namespace weft
