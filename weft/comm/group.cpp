#include "weft/comm/group.h"

#include <ATen/ops/zeros.h>

#include <algorithm>

#include "weft/base/error.h"
#include "weft/base/text.h"
#include "weft/comm/call_traits.h"

namespace weft::comm {

// Only what every rank calls is counted, so that the same number means the same call in every rank.
void Group::count(const Collective& call) {
  if (!is_point_to_point(call.operation)) ++sequence_;
}

void Group::run(Collective call) {
  complete(call, rank_, world_);
  count(call);
  launch(call, Launch::kBlocking).wait();
}

Work Group::start(Collective call) {
  complete(call, rank_, world_);
  count(call);
  return launch(call, Launch::kAsync);
}

Work Group::launch_on(Group& group, const Collective& call, Launch how) {
  group.count(call);
  return group.launch(call, how);
}

void Group::read(int, const at::Tensor&, const at::Tensor&) {
  throw Error(ErrorKind::kBug, {.title = cat("the ", transport(), " transport has no one-sided reads"),
                                .what = "",
                                .where = cat("group ", name_),
                                .fix = "ask one_sided() first, and use send and recv where it is false"});
}

at::Tensor Group::allocate_common(int64_t, at::ScalarType) {
  throw Error(ErrorKind::kBug, {.title = "the ranks of this group share no memory",
                                .what = cat("transport ", transport()),
                                .where = cat("group ", name_),
                                .fix = "ask num_sharing() first, and give each rank a copy where it is 1"});
}

at::Tensor allocate_on(Group& group, c10::Device device, int64_t count, at::ScalarType type) {
  if (device.is_cpu()) return group.allocate(count, type);
  return at::zeros({count}, at::TensorOptions().dtype(type).device(device));
}

int rank_among(const std::vector<int>& ranks, const Group& group) {
  const auto refuse = [&](const std::string& why) {
    throw Error(ErrorKind::kBug, {.title = "these ranks cannot form a group",
                                  .what = why,
                                  .where = cat("rank ", group.rank(), " of group ", group.name()),
                                  .fix = "name each member once; only members make the group"});
  };
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i] < 0 || ranks[i] >= group.world()) refuse(cat("there is no rank ", ranks[i]));
    if (std::count(ranks.begin(), ranks.end(), ranks[i]) > 1) refuse(cat("rank ", ranks[i], " is named twice"));
  }
  const auto own = std::find(ranks.begin(), ranks.end(), group.rank());
  if (own == ranks.end()) refuse("this rank is not among them");
  return static_cast<int>(own - ranks.begin());
}

}  // namespace weft::comm
