#include "weft/checkpoint/foreign/element_runs.h"

#include <algorithm>

#include "weft/base/check.h"
#include "weft/base/text.h"
#include "weft/checkpoint/foreign/refuse_impl.h"

namespace weft::checkpoint::foreign {

void ElementRuns::add(const FilePart& part, uint64_t first, uint64_t count) {
  if (count == 0) return;
  if (part.tensor.width == 0 || (!runs_.empty() && part.tensor.dtype != dtype()))
    refuse("ranks have elements of different types for one tensor", part.file->path());
  runs_.push_back({.part = part, .first = first, .count = count, .begin = num_elements_});
  num_elements_ += count;
}

void ElementRuns::read(uint64_t first, std::span<std::byte> into) const {
  if (into.empty()) return;
  const uint64_t width = runs_.front().part.tensor.width;
  WEFT_CHECK(into.size() % width == 0 && first <= num_elements_ && into.size() / width <= num_elements_ - first);
  auto run = std::ranges::upper_bound(runs_, first, {}, &Run::begin) - 1;
  for (; !into.empty(); ++run) {
    const uint64_t skip = first - run->begin, count = std::min(run->count - skip, into.size() / width);
    run->part.file->read(run->part.tensor, run->first + skip, into.first(count * width));
    into = into.subspan(count * width);
    first += count;
  }
}

void add_range(ElementRuns& into, std::span<const FilePart> parts, uint64_t first, uint64_t count,
               const std::string& name) {
  for (const FilePart& part : parts) {
    const uint64_t here = part.tensor.num_elements();
    if (first < here && count > 0) {
      const uint64_t take = std::min(here - first, count);
      into.add(part, first, take);
      first += take;
      count -= take;
    }
    first -= std::min(first, here);
  }
  if (count > 0)
    refuse(cat("'", name, "' reaches ", count, " elements past the end of its flat group"),
           parts.empty() ? "" : parts.back().file->path(),
           "files of different checkpoints lie in one folder, or one was not saved to its end");
}

uint64_t num_elements_in(std::span<const FilePart> parts) {
  uint64_t out = 0;
  for (const FilePart& part : parts) out += part.tensor.num_elements();
  return out;
}

}  // namespace weft::checkpoint::foreign
