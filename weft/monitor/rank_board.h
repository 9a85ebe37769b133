// ranks.json: how each rank is doing, for whoever looks at a run while it goes on (docs/formats/run_folder.md).
//
//   RankBoard board(env, "runs/x/ranks.json", hosts_of_all_ranks);
//   board.add(step, numbers_of_all_ranks, slow.now());      // after each step: written about once a second
//   board.close();                                          // the last steps too
//
// Times are means over the steps since it was last written. Readers see the old file or the new, whole.
//
// Threads: one owner. Failure: none; that the disk takes nothing is said once a run (write_trouble.h).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "weft/base/env.h"
#include "weft/monitor/rank_numbers.h"
#include "weft/monitor/slow_rank.h"

namespace weft {

class RankBoard {
 public:
  RankBoard(Env& env, std::string path, std::vector<std::string> hosts)
      : env_(env), path_(std::move(path)), hosts_(std::move(hosts)) {}

  void add(int64_t step, std::span<const RankNumbers> ranks, const std::vector<SlowRank>& slow);
  void close();

 private:
  std::string text() const;
  void write();

  Env& env_;
  const std::string path_;
  const std::vector<std::string> hosts_;  // by rank
  std::vector<RankNumbers> sums_, last_;
  std::vector<SlowRank> slow_;
  int64_t num_steps_ = 0, step_ = 0;
  int64_t written_ns_ = 0;
};

}  // namespace weft
