#include "weft/engine/gather_order.h"

#include <gtest/gtest.h>

#include "tests/support/ranks.h"
#include "weft/base/error.h"
#include "weft/comm/c10d/gloo_group.h"
#include "weft/comm/peer_lost.h"
#include "weft/engine/engine_test_impl.h"

namespace weft::engine {
namespace {

using Units = std::vector<int>;

std::string name_of(int unit) { return cat("'p", unit, "'"); }

// What each rank says of a step in which it gathers these; "": nothing.
std::vector<std::string> compare(const std::vector<Units>& by_rank, bool with_lists) {
  std::vector<std::string> out(by_rank.size());
  const comm::Store store = comm::Store::in_process();
  const int size = static_cast<int>(by_rank.size());
  test::run_ranks_as_threads(size, [&](test::RankContext& ctx) {
    const auto lane = comm::make_gloo_group({"world", ctx.rank(), size, 20}, store, Deadline::after(30.0));
    std::vector<int> all(by_rank.size());
    std::iota(all.begin(), all.end(), 0);
    const auto on_host = with_lists ? lane->split_on_host(all, "order") : nullptr;
    GatherOrder order(*lane, on_host.get(), name_of);
    try {
      for (int step = 0; step < 2; ++step) {
        for (const int unit : by_rank[static_cast<size_t>(ctx.rank())]) order.check(order.begin(unit, *lane), unit);
        order.end_step(*lane);
      }
    } catch (const Error& error) {
      out[static_cast<size_t>(ctx.rank())] = error.what();
    }
    ctx.barrier();
  });
  return out;
}

void expect_named(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find("ranks touch different parameters"), std::string::npos) << text;
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

class GatherOrders : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(By, GatherOrders, testing::Values(false, true),
                         [](const auto& one) { return one.param ? "Lists" : "Tags"; });

TEST_P(GatherOrders, TheSameOneIsFine) {
  for (const std::string& text : compare({{3, 1, 1, 2}, {3, 1, 1, 2}, {3, 1, 1, 2}}, GetParam())) EXPECT_EQ(text, "");
  for (const std::string& text : compare({{}, {}}, GetParam())) EXPECT_EQ(text, "");
}

TEST_P(GatherOrders, TheFirstThatDiffersIsNamedOnAllRanks) {
  const auto texts = compare({{3, 1, 2}, {3, 1, 2}, {3, 2, 1}}, GetParam());
  expect_named(texts[0], "rank 0 gathers 'p1', rank 2 'p2'");
  expect_named(texts[1], "rank 1 gathers 'p1', rank 2 'p2'");
  expect_named(texts[2], "rank 2 gathers 'p2', rank 0 'p1'");
}

TEST_P(GatherOrders, OneThatGathersFewerIsNamed) {
  const auto texts = compare({{3, 1}, {3}}, GetParam());
  expect_named(texts[0], "rank 0 gathers 'p1', rank 1 nothing more in this step");
  expect_named(texts[1], "rank 1 gathers nothing more in this step, rank 0 'p1'");
  expect_named(compare({{3}, {}}, GetParam())[1], "rank 0 'p3'");
}

// A rank that is late is the one to be named only if it has done what the others have.
TEST(GatherOrder, AFailedGatherIsExplained) {
  const std::string run = fresh_run();
  const auto texts = [&](const Units& of_second) {
    std::vector<std::string> out(2);
    test::run_ranks_as_threads(2, [&](test::RankContext& ctx) {
      const World here = world(cat(run, of_second.size()), ctx.rank(), 2);
      GatherOrder order(*here.group, here.group.get(), name_of);
      try {
        if (ctx.rank() == 1) {
          for (const int unit : of_second) order.begin(unit, *here.group);
          order.end_step(*here.group);
        } else {
          for (const int unit : {3, 1}) order.begin(unit, *here.group);
          try {
            throw comm::PeerLost({.kind = comm::LossKind::kSilent, .rank = 1, .waiting_in = "all_gather, call 7"});
          } catch (const Error&) {
            order.rethrow(1);
          }
        }
      } catch (const Error& error) {
        out[static_cast<size_t>(ctx.rank())] = error.what();
      }
      ctx.barrier();
    });
    return out;
  };
  for (const std::string& text : texts({3})) expect_named(text, "'p1'");
  const auto agreed = texts({3, 1, 2});
  EXPECT_NE(agreed[0].find("all_gather, call 7, gathering 'p1'"), std::string::npos) << agreed[0];
  EXPECT_EQ(agreed[1], "") << "what the failed rank would have gathered next is not known";
}

}  // namespace
}  // namespace weft::engine
