#include "weft/engine/clock_offsets.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <mutex>

#include "tests/support/ranks.h"
#include "weft/base/error.h"
#include "weft/comm/call_traits.h"
#include "weft/comm/wrapped_group.h"
#include "weft/engine/engine_test_impl.h"

namespace weft::engine {
namespace {

constexpr int64_t kHourNs = 3'600'000'000'000;
constexpr int64_t kMsNs = 1'000'000, kUsNs = 1'000;

// As NCCL's: messages have no tags.
class TaglessGroup final : public comm::WrappedGroup {
 public:
  explicit TaglessGroup(std::shared_ptr<comm::Group> inner) : WrappedGroup(std::move(inner)) {}

 private:
  std::shared_ptr<comm::Group> wrap(std::shared_ptr<comm::Group> part, const std::vector<int>&) override {
    return std::make_shared<TaglessGroup>(std::move(part));
  }
  comm::Work launch(const comm::Collective& call, comm::Launch how) override {
    if (comm::is_point_to_point(call.operation) && call.tag != 0)
      throw Error(ErrorKind::kBug, {.title = "there are no tags here", .what = "", .where = "", .fix = ""});
    return pass_on(call, how);
  }
};

// Clocks of hosts that were started hours apart, on a group that has collectives and plain messages only.
TEST(ReadClocks, HoursApartAreFound) {
  const std::vector<std::string> hosts = {"a", "b", "a", "b", "c"};
  const std::array<int64_t, 5> ahead_ns = {0, 7 * kHourNs, 0, 7 * kHourNs, -5 * kHourNs};
  std::mutex mutex;
  std::vector<std::vector<ClockReading>> found(hosts.size());
  const std::string run = fresh_run();
  test::run_ranks_as_threads(5, [&](test::RankContext& context) {
    const auto rank = static_cast<size_t>(context.rank());
    TaglessGroup group(world(run, context.rank(), 5).group);
    auto readings = read_clocks(group, hosts, at::kCPU, [&] { return now_ns() + ahead_ns[rank]; });
    const std::scoped_lock lock(mutex);
    found[rank] = std::move(readings);
  });
  for (const auto& readings : found) {
    ASSERT_EQ(readings.size(), hosts.size());
    for (size_t rank = 0; rank < hosts.size(); ++rank) {
      // However busy the machine is: a slow answer says that it was slow.
      EXPECT_LE(std::abs(readings[rank].offset_ns + ahead_ns[rank]), readings[rank].round_trip_ns / 2 + kUsNs)
          << "rank " << rank;
      EXPECT_EQ(readings[rank].round_trip_ns > 0, hosts[rank] != "a") << "rank " << rank;
      EXPECT_LT(std::abs(readings[rank].at_ns - ahead_ns[rank] - now_ns()), 60'000 * kMsNs) << "by its own clock";
    }
    EXPECT_EQ(readings[0].offset_ns, 0);
    EXPECT_EQ(readings[2].offset_ns, 0) << "the clock of rank 0's own host";
    EXPECT_EQ(readings[1].offset_ns, readings[3].offset_ns) << "one clock a host";
    EXPECT_EQ(readings[1].round_trip_ns, found[0][1].round_trip_ns) << "all ranks know how good it is";
    EXPECT_EQ(readings[3].asked_rank, 1);
    EXPECT_EQ(readings[4].asked_rank, 4);
  }
}

}  // namespace
}  // namespace weft::engine
