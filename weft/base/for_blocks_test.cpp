#include "weft/base/for_blocks.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <mutex>
#include <set>
#include <thread>
#include <vector>

namespace weft {
namespace {

class ForBlocks : public testing::Test {
 protected:
  void SetUp() override { omp_set_num_threads(3); }
  void TearDown() override { omp_set_num_threads(before_); }

 private:
  const int before_ = omp_get_max_threads();
};

TEST_F(ForBlocks, CoversEverythingOnce) {
  for (const size_t count : {0, 1, 9, 10, 11, 95, 100}) {
    std::vector<int> seen(count);
    for_blocks(count, 10, [&](size_t first, size_t size) {
      EXPECT_LE(size, 10U);
      for (size_t i = first; i < first + size; ++i) ++seen[i];
    });
    EXPECT_EQ(seen, std::vector<int>(count, 1));
  }
}

// Compiled without OpenMP it would be one, without a word.
TEST_F(ForBlocks, IsTheWorkOfSeveralThreads) {
  std::mutex mutex;
  std::set<std::thread::id> threads;
  for_blocks(3, 1, [&](size_t, size_t) {
    const std::lock_guard lock(mutex);
    threads.insert(std::this_thread::get_id());
  });
  EXPECT_EQ(threads.size(), 3U);
}

TEST_F(ForBlocks, InsideOfOneIsTheCallersOwn) {
  std::mutex mutex;
  std::set<std::pair<std::thread::id, std::thread::id>> threads;
  for_blocks(3, 1, [&](size_t, size_t) {
    const auto outside = std::this_thread::get_id();
    for_blocks(4, 1, [&](size_t, size_t) {
      const std::lock_guard lock(mutex);
      threads.emplace(outside, std::this_thread::get_id());
    });
  });
  for (const auto& [outside, inside] : threads) EXPECT_EQ(outside, inside);
  EXPECT_EQ(threads.size(), 3U);
}

}  // namespace
}  // namespace weft
