// What a rank keeps in memory between and during steps, by kind, for each stage.
//
//   make_ledger(plan, 0).total() - make_ledger(plan, 3).total();   // what sharding everything would save
//
// Padding included; activations and the libraries' own memory are not in it. Every rank holds as much as any other, since
// slices are equal, so there is one ledger for all of them.
//
//                      stage 0   stage 1   stage 2   stage 3
//   parameters         whole     whole     whole     slices
//   gradients          whole     whole     slices    slices
//   optimizer state    whole     slices    slices    slices
//
// With shard_update stage 0 is as stage 1. Parameters that ranks have in common count in each of them; in stage 3 each counts its
// slices, and nothing is gathered; of a copy that the ranks of a host have in common, each counts its share. Elsewhere stage 3
// also has what is gathered, and small parameters that stay whole.
//
// Pure functions: any thread. Requires: a stage from 0 to 3.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "weft/plan/plan.h"

namespace weft::plan {

enum class MemoryKind { kParameters, kGradients, kOptimizer, kCommunication };
inline constexpr MemoryKind kAllMemoryKinds[] = {MemoryKind::kParameters, MemoryKind::kGradients,
                                                 MemoryKind::kOptimizer, MemoryKind::kCommunication};
std::string_view name_of(MemoryKind kind);  // "parameters"

struct LedgerLine {
  MemoryKind kind = MemoryKind::kParameters;
  std::string what;   // "fp32 copy of the parameters"
  int64_t bytes = 0;  // above 0: what is not needed has no line
};

struct Ledger {
  int stage = 0;
  std::vector<LedgerLine> lines = {};

  int64_t bytes(MemoryKind kind) const;
  int64_t total() const;
};

Ledger make_ledger(const Plan& plan, int stage);

}  // namespace weft::plan
