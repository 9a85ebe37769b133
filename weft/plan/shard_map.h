// Who owns what: the two directions of one map between parameters and the slices of ranks.
//
//   owners_of(layout, parameter)           which ranks own which of its elements
//   ranges_in_slice(layout, bucket, rank)  which parameters' elements lie in that rank's slice
//
// A slice ends where it ends: parameters are cut wherever a border falls. Padding belongs to no parameter.
//
// Pure functions: any thread. Requires: numbers of a parameter, bucket and rank that the layout has.
#pragma once

#include <cstdint>
#include <vector>

#include "weft/plan/layout.h"

namespace weft::plan {

struct OwnedRange {
  int rank = 0;
  int64_t begin = 0, end = 0;  // elements of the parameter

  bool operator==(const OwnedRange&) const = default;
};

struct SliceRange {
  int parameter = 0;
  int64_t parameter_begin = 0;  // in the parameter
  int64_t slice_begin = 0;      // in the slice
  int64_t num_elements = 0;     // never none

  bool operator==(const SliceRange&) const = default;
};

// By rank; together every element once. Nothing for a parameter without elements.
std::vector<OwnedRange> owners_of(const Layout& layout, int parameter);

// By place in the slice. Nothing for a slice of padding.
std::vector<SliceRange> ranges_in_slice(const Layout& layout, int bucket, int rank);

}  // namespace weft::plan
