// For the tests of this room: the body of a rank that has a group over shared memory, wrapped as the test likes.
//
//   run_ranks_as_threads(3, in_group(wrap, [](Group& group) { group.barrier(); }));
#pragma once

#include <unistd.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "weft/base/text.h"
#include "weft/comm/shm_group.h"

namespace weft::comm {

using Wrap = std::function<std::shared_ptr<Group>(std::shared_ptr<Group>)>;

// One name for all ranks of a group, and for no other group.
inline std::string fresh_run_id() {
  static std::atomic<int> next = 0;
  return cat("comm-test-", ::getpid(), "-", next++);
}

inline auto in_group(Wrap wrap, std::function<void(Group&)> body, double deadline_s = 40) {
  return [wrap = std::move(wrap), body = std::move(body), deadline_s, run = fresh_run_id()](auto& context) {
    const auto group = wrap(
        make_shm_group({.run_id = run, .rank = context.rank(), .world = context.world(), .deadline_s = deadline_s}));
    body(*group);
  };
}

}  // namespace weft::comm
