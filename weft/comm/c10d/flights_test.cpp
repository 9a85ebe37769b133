// Device calls that end, that are late and whose peer is lost, without a device.
#include "weft/comm/c10d/flights.h"

#include <gtest/gtest.h>

#include <atomic>

#include "tests/support/ranks.h"
#include "weft/comm/c10d/c10d_test_impl.h"

namespace weft::comm {
namespace {

class FakeFlight final : public Flight {
 public:
  explicit FakeFlight(const std::atomic<bool>& completed) : completed_(completed) {}
  bool completed() override { return completed_; }
  void order_current_stream() override {}

 private:
  const std::atomic<bool>& completed_;
};

const Doing kCall = {.operation = Operation::kAllReduce, .sequence = 7, .call = "all_reduce of 4 bytes"};

void wait_until_done(const Work& work) {
  while (!work.done()) std::this_thread::yield();
}

TEST(Flights, AreDoneWhenTheDeviceSaysSo) {
  RollCall roll_call({"world", 0, 1, 30}, Store::in_process(), Deadline::after(10.0));
  std::atomic<bool> completed = false, aborted = false;
  {
    Flights flights(roll_call, 30, [&] { aborted = true; });
    roll_call.begin(kCall);
    const Work work = flights.add(std::make_unique<FakeFlight>(completed), kCall);
    EXPECT_FALSE(work.done());
    work.wait();  // for the stream, not for the host
    completed = true;
    wait_until_done(work);
    EXPECT_GT(work.finished_ns(), 0);
  }
  EXPECT_FALSE(aborted);
}

TEST(Flights, ALateOneIsEndedAndItsPeerNamed) {
  const Store store = Store::in_process();
  test::run_ranks_as_threads(2, [&](test::RankContext& ctx) {
    RollCall roll_call({"world", ctx.rank(), 2, 0.5}, store, Deadline::after(10.0));
    ctx.barrier();
    if (ctx.rank() == 1) {
      ctx.get("told");
      return;
    }
    const std::atomic<bool> never = false;
    std::atomic<bool> aborted = false;
    Flights flights(roll_call, 0.5, [&] { aborted = true; });
    roll_call.begin(kCall);
    const Work work = flights.add(std::make_unique<FakeFlight>(never), kCall);
    wait_until_done(work);
    ctx.set("told", "");
    try {
      work.wait();
      ADD_FAILURE() << "a result of nobody";
    } catch (const PeerLost& lost) {
      EXPECT_EQ(lost.rank(), 1);
      EXPECT_EQ(lost.loss().kind, LossKind::kSilent);
      EXPECT_EQ(lost.loss().waiting_in, "all_reduce, call 7");
    }
    while (!aborted) std::this_thread::yield();
    EXPECT_THROW(roll_call.begin(kCall), PeerLost);
  });
}

}  // namespace
}  // namespace weft::comm
