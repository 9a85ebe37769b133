#include "weft/comm/host_layout.h"

#include <gtest/gtest.h>

namespace weft::comm {
namespace {

using Ints = std::vector<int>;
using Counts = std::vector<int64_t>;

TEST(HostLayout, KnowsWhoIsWhere) {
  const HostLayout layout(numbered_by_appearance(std::vector<std::string>{"b", "b", "a", "c", "c", "c"}));
  EXPECT_EQ(layout.num_hosts(), 3);
  EXPECT_EQ(layout.leaders(), (Ints{0, 2, 3}));
  EXPECT_EQ(layout.ranks_of(2), (Ints{3, 4, 5}));
  EXPECT_EQ(layout.host_of(2), 1);
  EXPECT_EQ(layout.local_rank_of(5), 2);
  EXPECT_TRUE(layout.is_contiguous());
  EXPECT_EQ(layout.ranks_per_host(), 0);
  EXPECT_EQ(layout.per_host({1, 2, 3, 4, 5, 6}), (Counts{3, 3, 15}));
  EXPECT_EQ(layout.of_host({1, 2, 3, 4, 5, 6}, 2), (Counts{4, 5, 6}));
}

TEST(HostLayout, RanksMayBeDealtRoundTheHosts) {
  const HostLayout layout(numbered_by_appearance(Ints{7, 9, 7, 9}));
  EXPECT_FALSE(layout.is_contiguous());
  EXPECT_EQ(layout.ranks_per_host(), 2);
  EXPECT_EQ(layout.leaders(), (Ints{0, 1}));
  EXPECT_EQ(layout.ranks_of(1), (Ints{1, 3}));
}

}  // namespace
}  // namespace weft::comm
