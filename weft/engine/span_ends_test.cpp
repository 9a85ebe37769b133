#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <vector>

#include "tests/support/ranks.h"
#include "weft/comm/wrapped_group.h"
#include "weft/engine/engine_test_impl.h"
#include "weft/monitor/span.h"

namespace weft::engine {
namespace {

// As on a device: wait() returns at once, and the host sees later that it was done.
class LateWork final : public comm::WorkState {
 public:
  explicit LateWork(const std::atomic<int64_t>& landed_ns) : landed_ns_(landed_ns) {}
  bool done() override { return landed_ns_ > 0; }
  void wait(Deadline /*deadline*/) override {}
  int64_t finished_ns() override { return landed_ns_; }

 private:
  const std::atomic<int64_t>& landed_ns_;
};

class LateGroup final : public comm::WrappedGroup {
 public:
  LateGroup(std::shared_ptr<comm::Group> inner, const std::atomic<int64_t>& landed_ns)
      : WrappedGroup(std::move(inner)), landed_ns_(landed_ns) {}
  bool one_sided() const override { return false; }  // what is read from a peer's memory is no collective

 private:
  std::shared_ptr<comm::Group> wrap(std::shared_ptr<comm::Group> part, const std::vector<int>&) override {
    return std::make_shared<LateGroup>(std::move(part), landed_ns_);
  }
  comm::Work launch(const comm::Collective& call, comm::Launch how) override {
    comm::Work done = pass_on(call, comm::Launch::kBlocking);
    return how == comm::Launch::kBlocking ? done : comm::Work(std::make_shared<LateWork>(landed_ns_));
  }

  const std::atomic<int64_t>& landed_ns_;
};

// Keeps the ends that it is given.
class EndsTimer final : public SpanTimer {
 public:
  EndsTimer() { set_span_timer(this); }
  ~EndsTimer() override { set_span_timer(nullptr); }
  EndsTimer(const EndsTimer&) = delete;
  EndsTimer& operator=(const EndsTimer&) = delete;

  int64_t mark() noexcept override { return 1; }
  void record(const SpanEvent& /*event*/, int64_t /*from_mark*/, int64_t /*to_mark*/) noexcept override {}
  void record(const SpanEvent& event, int64_t /*from_mark*/, SpanEnd end) noexcept override {
    const std::scoped_lock lock(mutex_);
    (event.category == SpanCategory::kReduce ? reduces : gathers).push_back(std::move(end));
  }
  void drop(int64_t /*mark*/) noexcept override {}

  std::vector<SpanEnd> reduces, gathers;

 private:
  std::mutex mutex_;
};

class SpanEnds : public testing::TestWithParam<int> {};

TEST_P(SpanEnds, AreWhenTheCollectiveLanded) {
  constexpr int64_t kLandedNs = 12'345;
  std::atomic<int64_t> landed_ns = 0;
  EndsTimer timer;
  set_spans_on(true);
  const std::string run = fresh_run(), more = cat(R"(, "zero_optimization": {"stage": )", GetParam(),
                                                  R"(, "stage3_param_persistence_threshold": 0},
      "weft": {"common_parameters": false})");
  test::run_ranks_as_threads(2, [&](test::RankContext& context) {
    World here = world(run, context.rank(), 2);
    here.group = std::make_shared<LateGroup>(here.group, landed_ns);
    Model model;
    Engine engine(model.tensors(), settings(2, 1, more), here);
    engine.backward(model.loss(context.rank()));
    engine.step();
    model.loss(context.rank());  // needs the parameters
  });
  set_spans_on(false);
  EXPECT_FALSE(timer.reduces.empty());
  EXPECT_FALSE(timer.gathers.empty());
  for (const auto* ends : {&timer.reduces, &timer.gathers}) {
    for (const SpanEnd& end : *ends) {
      landed_ns = 0;
      EXPECT_EQ(end(), 0) << "it was waited for, and is under way";
      landed_ns = kLandedNs;
      EXPECT_EQ(end(), kLandedNs);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Stages, SpanEnds, testing::Values(2, 3));

}  // namespace
}  // namespace weft::engine
