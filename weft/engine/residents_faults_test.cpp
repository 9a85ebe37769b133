// Stage 3 among ranks that part, and ranks that are lost while others gather: who and what is named, in time, and nobody hangs.
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include "tests/support/ranks.h"
#include "weft/base/clock.h"
#include "weft/base/error.h"
#include "weft/comm/peer_lost.h"
#include "weft/engine/engine_test_impl.h"
#include "weft/engine/zero3_nets_test_impl.h"

namespace weft {
namespace {

// --- Ranks that part, over gloo --------------------------------------------------------------------------------------

constexpr double kGlooDeadlineS = 10;

// Every rank its own way: what it uses of a model of three experts and a head.
struct Parting {
  const char* name;
  std::vector<int64_t> widths;      // of the experts
  int experts[2][2];                // by rank, in the first and in the second step; -1: none
  bool rank_0_looks_again = false;  // after backward, before step()
};

Net experts_of(const Parting& how) {
  Net net;
  for (size_t i = 0; i < how.widths.size(); ++i)
    net.parameters.push_back(parameter({12, how.widths[i]}, static_cast<int64_t>(i)));
  net.parameters.push_back(parameter({12, 4}, 9));
  return net;
}

at::Tensor loss_of(const Net& net, int expert, int64_t sample) {
  at::Tensor x = input(net, sample, {4, 12});
  if (expert >= 0) x = x + at::mm(x, net.parameters[static_cast<size_t>(expert)]).tanh().mean();
  return at::mm(x, net.parameters.back()).pow(2).mean();
}

class ResidentsPart : public testing::TestWithParam<Parting> {};
INSTANTIATE_TEST_SUITE_P(OverGloo, ResidentsPart,
                         testing::Values(Parting{"EqualSizes", {12, 12, 12}, {{0, 0}, {0, 1}}},
                                         Parting{"DifferentSizes", {12, 40, 7}, {{0, 1}, {0, 2}}},
                                         Parting{"AtOnce", {12, 12, 12}, {{0, 0}, {1, 0}}},
                                         Parting{"OneGathersFewer", {12, 12, 12}, {{0, 0}, {0, -1}}},
                                         Parting{"OneGathersFewerAtTheEnd", {12, 12, 12}, {{0, 0}, {0, 0}}, true}),
                         [](const auto& one) { return std::string(one.param.name); });

TEST_P(ResidentsPart, AndBothAreNamedWithinTheDeadline) {
  const Parting& how = GetParam();
  const comm::Store store = comm::Store::in_process();
  const std::string run = fresh_run();
  test::run_ranks_as_threads(2, [&](test::RankContext& ctx) {
    World here = world(run, ctx.rank(), 2);
    here.group = comm::make_gloo_group({"world", ctx.rank(), 2, kGlooDeadlineS}, store, Deadline::after(30.0));
    const Net net = experts_of(how);
    Engine engine(net.tensors(), settings(2, 1, kTight), here);
    const Stopwatch watch;
    std::string text;
    try {
      for (int64_t step = 0; step < 2; ++step) {
        engine.backward(loss_of(net, how.experts[ctx.rank()][step], step * 2 + ctx.rank()));
        const at::NoGradGuard no_grad;
        if (how.rank_0_looks_again && ctx.rank() == 0) net.parameters[1].sum();
        engine.step();
      }
    } catch (const Error& error) {
      text = error.what();
    }
    EXPECT_LT(watch.elapsed_s(), kGlooDeadlineS * test::kSlowdown);
    EXPECT_NE(text.find("ranks touch different parameters"), std::string::npos) << text;
    EXPECT_NE(text.find("'p"), std::string::npos) << text;
    ctx.barrier();
  });
}

// --- A rank that is killed -------------------------------------------------------------------------------------------

constexpr double kKilledDeadlineS = 5;
constexpr int kVictim = 1, kNumRanks = 3;

comm::Store store_of(test::RankSelf& self) {
  const Deadline deadline = Deadline::after(30.0);
  if (self.rank() != 0) return comm::Store::tcp({"127.0.0.1", std::stoi(self.store().get("port"))}, false, deadline);
  const comm::Store store = comm::Store::tcp({"127.0.0.1", 0}, true, deadline);
  self.store().set("port", std::to_string(store.endpoint().port));
  return store;
}

// Trains until a peer is lost. The victim stops in the middle of a forward, with gathers of its peers under way.
int train_until_lost(test::RankSelf& self, const World& here, const char* zero) {
  const Net net = layers();
  Engine engine(net.tensors(), settings(kNumRanks, 1, zero), here);
  try {
    for (int64_t step = 0;; ++step) {
      if (step == 3 && self.rank() == kVictim) {
        const at::Tensor half = at::mm(input(net, step, {5, 16}), net.parameters[0]);
        self.store().set("in the middle", "");
        for (;;) ::pause();
      }
      engine.backward(net.loss(net, step * kNumRanks + self.rank()));
      engine.step();
    }
  } catch (const std::exception& error) {
    self.store().set(cat("text of ", self.rank()), error.what());
  }
  return 0;
}

WEFT_RANK_MAIN(trains_over_gloo_until_a_rank_is_killed) {
  World here = world_of(cat("alone-", self.rank(), "-", ::getpid()), 0, 1, kKilledDeadlineS);
  here.group =
      comm::make_gloo_group({"world", self.rank(), kNumRanks, kKilledDeadlineS}, store_of(self), Deadline::after(30.0));
  here.rank = self.rank();
  here.size = kNumRanks;
  return train_until_lost(self, here, kRoomy);
}

WEFT_RANK_MAIN(trains_on_the_fabric_until_a_rank_is_killed) {
  return train_until_lost(self, world_of(self.dir().string(), self.rank(), kNumRanks, kKilledDeadlineS), kTight);
}

class ResidentsLoseARank : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(While, ResidentsLoseARank,
                         testing::Values("trains_over_gloo_until_a_rank_is_killed",
                                         "trains_on_the_fabric_until_a_rank_is_killed"),
                         [](const auto& one) { return std::string(one.param); });

TEST_P(ResidentsLoseARank, AndTheOthersNameItAndEnd) {
  test::RankProcesses ranks(GetParam(), kNumRanks,
                            {.deadline = test::Seconds(60), .expected = {{kVictim, {.signal = SIGKILL}}}});
  ranks.start();
  ranks.store().get("in the middle");
  const Stopwatch watch;
  ASSERT_TRUE(ranks.signal(kVictim, SIGKILL));
  for (const int rank : {0, 2}) {
    const std::string text = ranks.store().get(cat("text of ", rank), test::Seconds(30));
    EXPECT_NE(text.find(cat("rank ", kVictim)), std::string::npos) << text;
    EXPECT_NE(text.find(cat("process ", ranks.pid(kVictim))), std::string::npos) << text;
  }
  EXPECT_LT(watch.elapsed_s(), 2 * kKilledDeadlineS * test::kSlowdown);
  expect_all_ok(ranks.wait());
}

}  // namespace
}  // namespace weft
