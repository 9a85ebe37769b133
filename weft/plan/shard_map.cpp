#include "weft/plan/shard_map.h"

#include <algorithm>

#include "weft/base/check.h"

namespace weft::plan {

std::vector<OwnedRange> owners_of(const Layout& layout, int parameter) {
  WEFT_CHECK(parameter >= 0 && static_cast<size_t>(parameter) < layout.homes.size());
  const Place& place = layout.place(parameter);
  const int64_t slice = layout.bucket(layout.home(parameter).bucket).slice_elements;
  std::vector<OwnedRange> out;
  for (int64_t at = place.begin; at < place.end();) {
    const int64_t rank = at / slice;
    const int64_t end = std::min(place.end(), (rank + 1) * slice);
    out.push_back({static_cast<int>(rank), at - place.begin, end - place.begin});
    at = end;
  }
  return out;
}

std::vector<SliceRange> ranges_in_slice(const Layout& layout, int bucket, int rank) {
  WEFT_CHECK(bucket >= 0 && static_cast<size_t>(bucket) < layout.buckets.size());
  WEFT_CHECK(rank >= 0 && rank < layout.world);
  const Bucket& from = layout.bucket(bucket);
  const int64_t slice_begin = rank * from.slice_elements, slice_end = slice_begin + from.slice_elements;
  std::vector<SliceRange> out;
  auto place = std::ranges::upper_bound(from.places, slice_begin, {}, &Place::end);
  for (; place != from.places.end() && place->begin < slice_end; ++place) {
    const int64_t begin = std::max(place->begin, slice_begin), end = std::min(place->end(), slice_end);
    if (begin < end) out.push_back({place->parameter, begin - place->begin, begin - slice_begin, end - begin});
  }
  return out;
}

}  // namespace weft::plan
