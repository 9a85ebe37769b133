#include "weft/data/prefetch.h"

#include "weft/base/error.h"
#include "weft/base/text.h"

namespace weft::data {

void check(const PrefetchOptions& options) {
  constexpr int64_t kMostThreads = 1024;  // far above any use: a slip, such as bytes for a count
  constexpr int64_t kMostDepth = 1 << 20;
  const auto [threads, depth] = options;
  const bool threads_fit = threads >= 0 && threads <= kMostThreads;
  const bool depth_fits = threads == 0 || (depth >= 1 && depth <= kMostDepth);
  if (threads_fit && depth_fits) return;
  throw Error(ErrorKind::kInput,
              {.title = "batches cannot be prefetched like this",
               .what = threads_fit ? cat("the depth is ", depth, ", it is 1 to ", kMostDepth)
                                   : cat("the number of threads is ", threads, ", it is 0 to ", kMostThreads),
               .where = "the loader's options",
               .fix = "set num_threads to 0 (in the caller's thread) or a few, and depth to 1 or more batches"});
}

}  // namespace weft::data
