// Where every parameter lies: buckets, their padding, and the slice of each bucket that a rank owns.
//
//   bucket   a flat run of parameters of one type, reduced or gathered with one collective
//   place    where a parameter begins in its bucket; always aligned
//   slice    rank r's part of a bucket: elements [r * slice_elements, (r + 1) * slice_elements)
//
// Buckets are filled in the order in which backward makes gradients ready, each type into buckets of its own, and are
// numbered in the order in which they become complete. Each is padded so that it divides by the world: slices are equal and
// aligned. Frozen parameters lie in frozen buckets, behind the others: those are never reduced, and only stage 3 slices them.
// Parameters that stage 3 keeps whole on every rank, because they are small, lie in persistent buckets of their own.
//
// Offsets count elements, not bytes, so that one layout serves a bucket's parameters, gradients, fp32 copy and wire form.
// docs/plan.md has a picture and an example.
//
// Values and pure functions: any thread, and the same result on every rank. Failure: Error(kInput).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "weft/plan/parameter_table.h"

namespace weft::plan {

// A cache line, and what vector loads like best. In elements, that of the narrowest type: aligned in the wider ones too.
inline constexpr int64_t kAlignBytes = 64;
inline constexpr int64_t kAlignElements = kAlignBytes / 2;

// The first bucket is small, so that the wire is busy early in backward. torch's DDP chose the same size.
inline constexpr int64_t kFirstBucketBytes = 1'048'576;
inline constexpr int kMaxWorld = 65'536;

struct LayoutOptions {
  int world = 1;
  // A bucket is closed before it would exceed this many elements; a larger parameter has a bucket of its own.
  int64_t bucket_elements = 500'000'000;
  // For the first bucket of each type, where that is less; 0: no smaller first bucket.
  int64_t first_bucket_bytes = kFirstBucketBytes;
  // Slices are a multiple of this, itself a multiple of kAlignElements: 2048 makes them whole pages in every type.
  int64_t slice_multiple = kAlignElements;
  // The numbers of all trainable parameters as backward completes them; empty: the reverse of their registration.
  std::vector<int> ready_order = {};
  // Positions in the ready order at which a new bucket begins, ascending, none for a single bucket; they alone decide
  // then. Absent: by size.
  std::optional<std::vector<int>> boundaries = {};
  // Parameters of fewer elements are persistent, in the order of their registration, while they have no more than
  // max_persistent_elements together; 0: none.
  int64_t persistent_below = 0;
  int64_t max_persistent_elements = INT64_MAX;
  // Parameters that are gathered together, whichever of them is touched: each group is a bucket of its own. Numbers of
  // owners, of one type, none twice, all trainable or all frozen.
  std::vector<std::vector<int>> together = {};

  bool operator==(const LayoutOptions&) const = default;
};

struct Place {
  int parameter = 0;
  int64_t begin = 0;         // in the bucket
  int64_t num_elements = 0;  // may be none
  int64_t end() const { return begin + num_elements; }

  bool operator==(const Place&) const = default;
};

struct Bucket {
  Dtype dtype = Dtype::kFp32;
  bool frozen = false;
  bool persistent = false;
  std::vector<Place> places = {};  // ascending, disjoint
  int64_t num_elements = 0;        // with padding; world * slice_elements
  int64_t slice_elements = 0;

  int64_t used_elements() const;  // without padding
  bool operator==(const Bucket&) const = default;
};

// Where to find a parameter: layout.buckets[bucket].places[place].
struct Home {
  int bucket = 0;
  int place = 0;
  bool operator==(const Home&) const = default;
};

struct Layout {
  int world = 1;
  std::vector<Bucket> buckets = {};  // those with gradients first
  int num_gradient_buckets = 0;
  std::vector<int> ready_order = {};  // as used
  std::vector<Home> homes = {};       // by number of parameter; a tied one shares its owner's

  std::span<const Bucket> gradient_buckets() const;
  std::span<const Bucket> frozen_buckets() const;
  const Bucket& bucket(int number) const { return buckets[static_cast<size_t>(number)]; }
  const Home& home(int parameter) const { return homes[static_cast<size_t>(parameter)]; }
  const Place& place(int parameter) const;

  bool operator==(const Layout&) const = default;
};

Layout make_layout(const ParameterTable& table, const LayoutOptions& options);

}  // namespace weft::plan
