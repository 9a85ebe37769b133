// Memory that every rank of a fabric has a share of: equal sizes, one mapping, each share readable by all. Of common memory
// the shares are one and the same (a stride of 0).
//
// A rank writes its own share only, except inside a collective that says so. Ownership: a Region owns this rank's mapping of all shares; the pages go when the last
// rank lets go. Threads and ordering: the collectives of Fabric order what they touch; whoever reads a peer's share by
// hand puts a barrier between the peer's write and the read, and another before the peer writes again.
#pragma once

#include <cstddef>

#include "weft/base/check.h"
#include "weft/comm/fabric/segment.h"

namespace weft::fabric {

class Region;

// A place in a region, the same in every rank's share.
struct RegionPlace {
  const Region* region = nullptr;
  size_t offset = 0;

  inline std::byte* mine() const;
  inline std::byte* of(int rank) const;
};

class Region {
 public:
  Region() = default;
  Region(Segment segment, size_t bytes, size_t stride, int rank, uint32_t number)
      : segment_(std::move(segment)), bytes_(bytes), stride_(stride), rank_(rank), number_(number) {}

  std::byte* mine() const { return of(rank_); }
  std::byte* of(int rank) const { return segment_.data() + stride_ * static_cast<size_t>(rank); }
  // Of one share.
  size_t bytes() const { return bytes_; }
  // Which one of its fabric, from 1; the same in every rank.
  uint32_t number() const { return number_; }

  RegionPlace at(size_t offset) const {
    WEFT_CHECK_LE(offset, bytes_);
    return {this, offset};
  }

 private:
  Segment segment_;
  size_t bytes_ = 0, stride_ = 0;
  int rank_ = 0;
  uint32_t number_ = 0;
};

std::byte* RegionPlace::mine() const { return region->mine() + offset; }
std::byte* RegionPlace::of(int rank) const { return region->of(rank) + offset; }

}  // namespace weft::fabric
