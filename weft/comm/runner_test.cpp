#include "weft/comm/runner.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <vector>

#include "weft/base/error.h"

namespace weft::comm {
namespace {

constexpr double kLongS = 30;

TEST(Runner, RunsJobsInOrderWhoeverRunsThem) {
  Runner runner(kLongS);
  std::vector<int> order;
  std::vector<Work> works;
  for (int i = 0; i < 50; ++i) {
    if (i % 7 == 3) {
      runner.run_now([&order, i] { order.push_back(i); });
    } else {
      works.push_back(runner.submit([&order, i] { order.push_back(i); }, [] {}));
    }
  }
  for (const Work& work : works) work.wait();
  ASSERT_EQ(order.size(), 50U);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
}

TEST(Runner, KnowsWhenAJobIsDone) {
  Runner runner(kLongS);
  std::latch go(1);
  bool ordered = false;
  const Work work = runner.submit([&] { go.wait(); }, [&] { ordered = true; });
  EXPECT_FALSE(work.done());
  EXPECT_EQ(work.finished_ns(), 0);
  EXPECT_THROW(work.wait(Deadline::after(0.01)), Error);
  EXPECT_FALSE(ordered);
  go.count_down();
  work.wait();
  EXPECT_TRUE(work.done() && ordered);
  EXPECT_GT(work.finished_ns(), 0);
}

// A copy back to a device goes on after the job: whoever waits is ordered behind it, and it is not done before.
TEST(Runner, AJobThatAskedADeviceIsDoneWhenThatIs) {
  Runner runner(kLongS);
  bool landed = false;
  const Work work = runner.submit([] {}, [] {}, [&] { return landed; });
  work.wait();
  EXPECT_FALSE(work.done());
  EXPECT_EQ(work.finished_ns(), 0);
  landed = true;
  EXPECT_TRUE(work.done());
  const int64_t finished_ns = work.finished_ns();
  EXPECT_GT(finished_ns, 0);
  EXPECT_EQ(work.finished_ns(), finished_ns);
  const Work failed = runner.submit([] { throw std::runtime_error("no device"); }, [] {}, [] { return false; });
  EXPECT_THROW(failed.wait(), std::runtime_error);
  EXPECT_TRUE(failed.done()) << "nothing was asked of the device";
}

TEST(Runner, AFailureEndsAllThatComesAfter) {
  Runner runner(kLongS);
  std::latch go(1);
  const Work first = runner.submit(
      [&] {
        go.wait();
        throw std::runtime_error("first");
      },
      [] {});
  bool ran = false;
  const Work second = runner.submit([&] { ran = true; }, [] {});
  go.count_down();
  for (int twice = 0; twice < 2; ++twice) EXPECT_THROW(first.wait(), std::runtime_error);
  EXPECT_THROW(second.wait(), std::runtime_error);
  EXPECT_THROW(runner.run_now([&] { ran = true; }), std::runtime_error);
  EXPECT_THROW(runner.submit([&] { ran = true; }, [] {}), std::runtime_error);
  EXPECT_FALSE(ran);
}

TEST(Runner, StopDropsWhatHasNotBegunAndWorksOutliveIt) {
  Work running, waiting;
  {
    Runner runner(kLongS);
    std::latch begun(1);
    running = runner.submit([&] { begun.count_down(); }, [] {});
    begun.wait();
    std::latch go(1);
    const Work blocker = runner.submit([&] { go.wait(); }, [] {});
    waiting = runner.submit([] {}, [] {});
    go.count_down();
  }
  running.wait();
  // It either ran before the end or was dropped; it never hangs.
  EXPECT_TRUE(waiting.done());
}

}  // namespace
}  // namespace weft::comm
