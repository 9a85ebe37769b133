// Random numbers addressed by counter: number i of the stream (seed, step, micro-batch) is computed, never stepped to. So any
// rank can draw exactly its own part of a global batch, and a resumed run draws what the interrupted one would have drawn.
// tests/reference/tokens.py defines the same stream. Changing it changes every run's losses: do not.
#pragma once

#include <cstdint>

namespace weft::data {

class CounterRng {
 public:
  CounterRng(uint64_t seed, uint64_t step, uint64_t micro_batch)
      : key_(mix(mix(seed + kGolden + step) + kGolden + micro_batch)) {}

  uint64_t at(uint64_t i) const { return mix(key_ + kGolden * (i + 1)); }

  // Number i scaled to [0, limit): the high half of the product, whose bias is below limit / 2^64.
  uint64_t below(uint64_t i, uint64_t limit) const {
    __extension__ using Wide = unsigned __int128;
    return static_cast<uint64_t>((static_cast<Wide>(at(i)) * limit) >> 64);
  }

 private:
  static constexpr uint64_t kGolden = 0x9E3779B97F4A7C15;

  // SplitMix64's finaliser.
  static constexpr uint64_t mix(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
    return x ^ (x >> 31);
  }

  uint64_t key_;
};

}  // namespace weft::data
