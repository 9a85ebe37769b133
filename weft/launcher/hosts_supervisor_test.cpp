#include "weft/launcher/hosts_supervisor.h"

#include <gtest/gtest.h>

namespace weft::launcher {
namespace {

HostsSpec three_hosts(int min_ranks) {
  HostsSpec spec{
      .hosts = {{.name = "me@a", .num_ranks = 2}, {.name = "b", .num_ranks = 3}, {.name = "c", .num_ranks = 1}},
      .min_ranks = min_ranks};
  spec.launch.num_hosts = 3;
  spec.launch.ranks_per_host = {2, 3, 1};
  spec.launch.master_addr = "a";
  return spec;
}

TEST(HostsThatStayAway, AreLeftOutWhereEnoughRanksRemain) {
  const HostsSpec left = without(three_hosts(3), {1});
  EXPECT_EQ(left.launch.world(), 3);
  EXPECT_EQ(left.launch.num_hosts, 2);
  EXPECT_EQ(left.hosts[1].name, "c");
  EXPECT_EQ(left.launch.master_addr, "a");
}

TEST(HostsThatStayAway, TheFirstHandsItsPlaceOn) {
  EXPECT_EQ(without(three_hosts(1), {0}).launch.master_addr, "b");
  HostsSpec by_hand = three_hosts(1);
  by_hand.launch.master_addr = "10.0.0.1";
  EXPECT_EQ(without(by_hand, {0}).launch.master_addr, "10.0.0.1");
}

TEST(HostsThatStayAway, CountWhereTooFewRemain) {
  EXPECT_EQ(without(three_hosts(4), {1}).launch.world(), 6);
  EXPECT_EQ(without(three_hosts(0), {2}).launch.world(), 6);
  EXPECT_EQ(without(three_hosts(1), {}).launch.world(), 6);
}

}  // namespace
}  // namespace weft::launcher
