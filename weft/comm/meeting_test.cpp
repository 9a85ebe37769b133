#include "weft/comm/meeting.h"

#include <gtest/gtest.h>

#include "tests/support/ranks.h"
#include "weft/base/text.h"
#include "weft/comm/peer_lost.h"

namespace weft::comm {
namespace {

using test::RankContext;

TEST(Meeting, EveryoneHearsEveryone) {
  const Store store = Store::in_process();
  test::run_ranks_as_threads(4, [&](RankContext& ctx) {
    const auto said = meet(store, ctx.rank(), 4, cat("I am ", ctx.rank()), Deadline::after(30.0));
    EXPECT_EQ(said, (std::vector<std::string>{"I am 0", "I am 1", "I am 2", "I am 3"}));
  });
}

TEST(Meeting, WhoDoesNotComeIsNamedByAllEvenWithOtherDeadlines) {
  const Store store = Store::in_process();
  test::run_ranks_as_threads(4, [&](RankContext& ctx) {
    if (ctx.rank() == 2) return;
    try {
      meet(store, ctx.rank(), 4, "here", Deadline::after(ctx.rank() == 0 ? 0.2 : 20.0));
      ADD_FAILURE() << "rank 2 never came";
    } catch (const PeerLost& lost) {
      EXPECT_EQ(lost.rank(), 2) << lost.what();
      EXPECT_EQ(lost.loss().kind, LossKind::kSilent);
    }
  });
}

}  // namespace
}  // namespace weft::comm
