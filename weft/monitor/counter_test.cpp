#include "weft/monitor/counter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "weft/base/error.h"

namespace weft {
namespace {

const CounterValue* find(const std::vector<CounterValue>& values, std::string_view name) {
  const auto found = std::ranges::find(values, name, &CounterValue::name);
  return found == values.end() ? nullptr : &*found;
}

TEST(Counters, OneNameIsOneCell) {
  counter("test.calls").add();
  counter("test.calls").add(4);
  EXPECT_EQ(counter("test.calls").value(), 5);
  EXPECT_EQ(&counter("test.calls"), &counter(std::string("test.calls")));
}

TEST(Counters, GaugesGoBothWays) {
  gauge("test.bytes_in_use").set(100);
  gauge("test.bytes_in_use").add(-30);
  EXPECT_EQ(gauge("test.bytes_in_use").value(), 70);
}

TEST(Counters, AreReadByName) {
  counter("test.b").add(2);
  gauge("test.a").set(-1);
  const auto values = read_counters();
  EXPECT_TRUE(std::ranges::is_sorted(values, {}, &CounterValue::name));
  ASSERT_NE(find(values, "test.a"), nullptr);
  EXPECT_TRUE(find(values, "test.a")->is_gauge);
  EXPECT_EQ(find(values, "test.a")->value, -1);
  ASSERT_NE(find(values, "test.b"), nullptr);
  EXPECT_FALSE(find(values, "test.b")->is_gauge);
}

TEST(Counters, ANameIsEitherACounterOrAGauge) {
  counter("test.either");
  EXPECT_THROW(gauge("test.either"), Error);
  gauge("test.or");
  EXPECT_THROW(counter("test.or"), Error);
}

TEST(Counters, LoseNothingBetweenThreads) {
  Counter& shared = counter("test.shared");
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < 10'000; ++n) shared.add();
      read_counters();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(shared.value(), 40'000);
}

}  // namespace
}  // namespace weft
