#include "weft/data/prefetch.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <latch>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

#include "weft/data/test_refusal_impl.h"

namespace weft::data {
namespace {

// Threads and depths from none to more than there is work for.
const PrefetchOptions kOptions[] = {{0, 1}, {1, 1}, {1, 4}, {2, 1}, {2, 2}, {3, 8}, {4, 3}, {8, 64}};

std::vector<int64_t> all_of(Prefetcher<int64_t>& items) {
  std::vector<int64_t> out;
  while (auto item = items.next()) out.push_back(*item);
  return out;
}

// Gives the other threads a chance to overtake this one, by different amounts for different items.
void dawdle(int64_t item) {
  for (int64_t i = 0; i < (item * 7) % 5; ++i) std::this_thread::yield();
}

TEST(Prefetcher, ItemsComeInOrderWhateverTheThreadsDo) {
  for (const auto options : kOptions) {
    for (const int64_t num_items : {0, 1, 2, 7, 200}) {
      Prefetcher<int64_t> items(num_items, options, [](int64_t i) {
        dawdle(i);
        return i * i;
      });
      std::vector<int64_t> expected;
      for (int64_t i = 0; i < num_items; ++i) expected.push_back(i * i);
      EXPECT_EQ(all_of(items), expected) << options.num_threads << " threads, depth " << options.depth;
      EXPECT_EQ(items.next(), std::nullopt);
    }
  }
}

TEST(Prefetcher, AnErrorComesAtItsItemAndTheRestFollows) {
  for (const auto options : kOptions) {
    Prefetcher<int64_t> items(6, options, [](int64_t i) {
      if (i == 2 || i == 5) throw std::runtime_error("item " + std::to_string(i));
      return i;
    });
    for (int64_t i = 0; i < 6; ++i) {
      try {
        EXPECT_EQ(items.next(), i);
        EXPECT_TRUE(i != 2 && i != 5);
      } catch (const std::runtime_error& error) {
        EXPECT_EQ(error.what(), "item " + std::to_string(i));
      }
    }
    EXPECT_EQ(items.next(), std::nullopt);
  }
}

TEST(Prefetcher, NoMoreThanTheDepthIsAhead) {
  std::atomic<int64_t> begun = 0;
  Prefetcher<int64_t> items(1000, {.num_threads = 4, .depth = 3}, [&](int64_t i) {
    ++begun;
    return i;
  });
  for (int64_t taken = 0; taken < 1000; ++taken) {
    EXPECT_LE(begun.load(), taken + 3);
    items.next();
  }
  EXPECT_EQ(begun.load(), 1000);
}

TEST(Prefetcher, WithoutThreadsTheCallerDoesTheWorkOnDemand) {
  int64_t made = 0;  // not atomic: TSan would tell
  Prefetcher<std::thread::id> items(3, {.num_threads = 0}, [&](int64_t) {
    ++made;
    return std::this_thread::get_id();
  });
  EXPECT_EQ(made, 0);
  EXPECT_EQ(items.next(), std::this_thread::get_id());
  EXPECT_EQ(made, 1);
}

TEST(Prefetcher, SeveralThreadsAreAtWorkAtOnce) {
  std::latch all_here(3);  // nobody passes unless three calls are under way together
  Prefetcher<int64_t> items(3, {.num_threads = 3, .depth = 3}, [&](int64_t i) {
    all_here.arrive_and_wait();
    return i;
  });
  EXPECT_EQ(all_of(items), (std::vector<int64_t>{0, 1, 2}));
}

TEST(Prefetcher, EndsAtAnyMoment) {
  for (const auto options : kOptions) {
    for (int64_t taken = 0; taken < 10; ++taken) {
      const auto owned = std::make_shared<int64_t>(0);
      {
        Prefetcher<std::shared_ptr<int64_t>> items(1 << 20, options, [&](int64_t i) {
          dawdle(i);
          if (i % 3 == 2) throw std::runtime_error("never asked for by some");
          return owned;
        });
        for (int64_t i = 0; i < taken; ++i) {
          try {
            items.next();
          } catch (const std::runtime_error&) {
            EXPECT_EQ(i % 3, 2);
          }
        }
      }
      EXPECT_EQ(owned.use_count(), 1);
    }
  }
}

TEST(Prefetcher, TheDestructorWaitsForTheItemUnderWay) {
  std::promise<void> begun, go;
  std::atomic<bool> finished = false;
  auto items = std::make_unique<Prefetcher<int64_t>>(5, PrefetchOptions{.num_threads = 1, .depth = 1}, [&](int64_t i) {
    begun.set_value();
    go.get_future().wait();
    finished = true;
    return i;
  });
  begun.get_future().wait();
  std::thread releaser([&] { go.set_value(); });
  items.reset();
  EXPECT_TRUE(finished.load());
  releaser.join();
}

TEST(Prefetcher, ItemsNeedNotBeCopyable) {
  Prefetcher<std::unique_ptr<int64_t>> items(2, {}, [](int64_t i) { return std::make_unique<int64_t>(i); });
  EXPECT_EQ(**items.next(), 0);
  EXPECT_EQ(**items.next(), 1);
}

TEST(PrefetchOptions, ImpossibleOnesAreRefused) {
  const std::pair<PrefetchOptions, std::string> cases[] = {
      {{.num_threads = -1}, "the number of threads is -1, it is 0 to 1024"},
      {{.num_threads = 1 << 20}, "the number of threads is 1048576, it is 0 to 1024"},
      {{.num_threads = 1, .depth = 0}, "the depth is 0, it is 1 to 1048576"},
      {{.num_threads = 1, .depth = INT64_MAX}, "the depth is 9223372036854775807, it is 1 to 1048576"},
  };
  for (const auto& [options, what] : cases) {
    const auto make = [&] { Prefetcher<int64_t>(1, options, [](int64_t i) { return i; }); };
    EXPECT_EQ(refusal_of(make).what, what);
  }
  check(PrefetchOptions{.num_threads = 0, .depth = 0});
}

}  // namespace
}  // namespace weft::data
