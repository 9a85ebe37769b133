// What a rank is about to call, in a few whole numbers that ranks can exchange and compare.
//
// Values and pure functions: any thread. Failure: require_agreement() throws Error(kBug).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "weft/comm/collective.h"

namespace weft::comm {

struct Fingerprint {
  // Equal in all ranks of a right call; what an operation does not use is 0 (no root: -1).
  Operation operation = Operation::kNone;
  at::ScalarType dtype = at::kByte;
  ReduceOp reduce_op = ReduceOp::kSum;
  int root = -1;
  int64_t bytes = 0, counts_hash = 0, number = 0;
  // Of this rank alone.
  int64_t input_bytes = 0, output_bytes = 0;

  bool agrees_with(const Fingerprint& other) const;
};

inline constexpr int64_t kFingerprintWords = 9;
using FingerprintWords = std::array<int64_t, kFingerprintWords>;
FingerprintWords to_words(const Fingerprint& print);
Fingerprint from_words(std::span<const int64_t> words);

// `number` is the same in all ranks when they have made as many calls.
Fingerprint fingerprint_of(const Collective& call, int64_t number);

// "broadcast of 64 bytes (Float, root 0)".
std::string describe(const Fingerprint& print);

// One from each rank, in order. The text is the same in every rank, and names who called what.
void require_agreement(std::span<const Fingerprint> prints, const std::string& group);

}  // namespace weft::comm
