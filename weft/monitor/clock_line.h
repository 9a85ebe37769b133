// How far one host's clock is from another's, as it was read a few times. Clocks drift, some by milliseconds an hour: between two
// readings the distance is taken to change evenly, before the first and after the last to stay as it is.
//
//   ClockLine line;
//   line.add({.at_ns = 1'000, .offset_ns = 50});
//   line.add({.at_ns = 2'000, .offset_ns = 70});
//   line.to_common(1'500);                          // 1'560
//
// Value with one owner; no failure.
#pragma once

#include <cstdint>
#include <vector>

namespace weft {

struct ClockReading {
  int64_t at_ns = 0;          // on this clock
  int64_t offset_ns = 0;      // to be added, to have the common one
  int64_t round_trip_ns = 0;  // of the question and its answer; 0: nobody had to ask, it is the common clock
  int64_t asked_rank = -1;    // whose answer it is, for all of its host

  // The offset is wrong by this at most.
  int64_t error_ns() const { return (round_trip_ns + 1) / 2; }
};

class ClockLine {
 public:
  // Readings come in the order of their times; one that does not is left out.
  void add(const ClockReading& reading);
  bool empty() const { return readings_.empty(); }
  // 0 where nothing was read.
  int64_t offset_at(int64_t ns) const;
  int64_t to_common(int64_t ns) const { return ns + offset_at(ns); }

 private:
  std::vector<ClockReading> readings_;
};

}  // namespace weft
