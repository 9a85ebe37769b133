// What ranks must agree on before they train together, as a text to compare and as hashes to compare first.
//
//   const Description mine = describe(plan);
//   hashes_of(mine).all;                    // 16 bytes to exchange; equal almost always
//   to_text(mine);                          // exchanged only if they differ
//   first_difference(mine, read_description(theirs).value(), 0, 3);
//     // "parameter 17 'h.3.weight' has shape [512, 128] on rank 0 and [512, 64] on rank 3"
//
// The text has a version and may come from anyone: reading it ends with a description or an Error(kInput), whatever
// the bytes. docs/plan.md has its grammar.
//
// Values and pure functions: any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/base/hash.h"
#include "weft/plan/plan.h"

namespace weft::plan {

inline constexpr int kDescriptionVersion = 1;

// A setting that ranks share, by the name messages give it.
struct SharedSetting {
  std::string name;   // without spaces
  std::string value;  // one line
  bool operator==(const SharedSetting&) const = default;
};

struct BucketExtent {
  Dtype dtype = Dtype::kFp32;
  bool frozen = false;
  int64_t num_parameters = 0;
  int64_t num_elements = 0;
  bool operator==(const BucketExtent&) const = default;
};

struct Description {
  std::vector<SharedSetting> settings = {};
  std::vector<Parameter> parameters = {};
  std::vector<int> ready_order = {};
  std::vector<BucketExtent> buckets = {};
  bool operator==(const Description&) const = default;
};

// The plan's own settings, then `more`: what else must be equal, such as the optimizer's arguments.
// Requires: names without spaces, names and values of one line.
Description describe(const Plan& plan, const std::vector<SharedSetting>& more = {});

std::string to_text(const Description& description);
Result<Description> read_description(std::string_view text);

// Each part by itself, so that a mismatch can be narrowed down before any text is sent.
struct AgreementHashes {
  Hash128 settings, parameters, ready_order, buckets;
  Hash128 all;
  bool operator==(const AgreementHashes&) const = default;
};
AgreementHashes hashes_of(const Description& description);

// The first thing in which two ranks differ, as a sentence without a full stop; nothing if they agree.
std::optional<std::string> first_difference(const Description& a, const Description& b, int rank_a, int rank_b);

}  // namespace weft::plan
