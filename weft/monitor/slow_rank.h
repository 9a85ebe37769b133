// Who is slow: compares what every rank did in each step, and names the rank that takes longer than the others, in which part of the
// step, and since when.
//
//   SlowRanks slow({.bucket_names = {"head", "blocks.3", ...}});
//   for (const SlowRank& one : slow.add(step, numbers_of_all_ranks)) log_warn(text_of(one));    // news only
//   slow.now();
//
// A part of a rank's step counts without its waits: who waits is not slow. It is compared with the median of the other ranks in the same
// step, so that what slows everybody (a neighbour on the machine, a longer batch) is nobody's. A single slow step is no news: the median
// of the last kWindow steps must be above the threshold (and above 0.7 ms, which a host's scheduler makes of nothing), and clear of its
// own scatter, at two looks one after the other.
//
// A rank whose processor is slower is slow in everything it computes, and no layer is to blame: clocks that were lowered, a neighbour on
// the same core. Ranks on CPUs time a small product in each step; what they compute is compared with the others' at that pace, and the
// pace itself is looked at over kLongWindow steps ("processor"), since neighbours come and go.
//
// A link is slow for all of a collective, whoever's it is: it shows as reductions that take longer, after the last rank has come,
// than they did in the quickest window so far. That has no rank (-1).
//
// Value with one owner, no failure: numbers that are not finite count as 0.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <vector>

#include "weft/monitor/rank_numbers.h"

namespace weft {

struct SlowRank {
  int rank = 0;
  std::string phase;   // "data", "forward", "backward", "optimizer", "processor", "link"
  std::string where;   // backward: parameters of the bucket that came late; may be empty
  double ms = 0;       // longer than the others
  double percent = 0;  // of the step of the others
  int64_t since_step = 0;
  bool is_over = false;  // in news: it was, and is no longer

  bool is_same(const SlowRank& other) const { return rank == other.rank && phase == other.phase; }
};

// "rank 3 is slow: backward takes 14.0 ms (12.5 % of a step) longer than on other ranks, since step 80, at blocks.3".
std::string text_of(const SlowRank& slow);

struct SlowRankOptions {
  double threshold_percent = 4;  // of the step
  std::vector<std::string> bucket_names = {};
};

class SlowRanks {
 public:
  explicit SlowRanks(SlowRankOptions options = {}) : options_(std::move(options)) {}

  // What has changed: begun, or is over.
  std::vector<SlowRank> add(int64_t step, std::span<const RankNumbers> ranks);
  const std::vector<SlowRank>& now() const { return now_; }
  // Where buckets are cut anew.
  void set_bucket_names(std::vector<std::string> names) { options_.bucket_names = std::move(names); }

  static constexpr size_t kWindow = 32, kLongWindow = 128;  // steps
  static constexpr int64_t kEvery = 8;                      // steps between two looks

 private:
  struct Step {
    int64_t number = 0;
    std::vector<RankNumbers> ranks = {};
    std::vector<double> paces = {};                 // by rank: its processor's time for the same work, of the others'
    std::vector<std::vector<double>> more_ms = {};  // by phase and rank: than the others
  };

  // Of one step, by rank.
  struct Paces {
    int64_t number = 0;
    std::vector<double> us = {};       // of the small product
    std::vector<double> more_ms = {};  // that the rank's processor cost it more than those of the others
  };

  void take_in(int64_t number, std::span<const RankNumbers> ranks);
  static std::vector<double> excess(const Step& step, size_t phase);
  std::vector<SlowRank> look();
  std::vector<SlowRank> seen_twice(std::vector<SlowRank> seen);
  void look_at_phase(size_t rank, size_t phase, std::vector<SlowRank>& out) const;
  void look_at_processor(size_t rank, std::vector<SlowRank>& out) const;
  double long_pace_of(size_t rank) const;
  bool is_slow(SlowRank& slow, const std::vector<double>& more) const;
  bool is_knock_on(const SlowRank& slow, const std::vector<SlowRank>& all) const;
  // The same as it was found at the last look; null: it was not.
  const SlowRank* before(const SlowRank& slow) const;
  double threshold_percent(const SlowRank& slow) const;
  // Of a threshold: less for what is there already.
  double part_to_reach(const SlowRank& slow) const;
  void say(SlowRank slow, std::vector<SlowRank>& out) const;
  void look_at_link(std::vector<SlowRank>& out) const;
  std::string where_in_backward(size_t rank) const;
  std::string name_of(const BucketRange& buckets) const;
  double middle_step_ms() const;
  double link_ms(const Step& step) const;

  SlowRankOptions options_;
  std::deque<Step> steps_;            // the last kWindow
  std::deque<Paces> paces_;           // the last kLongWindow
  std::vector<SlowRank> seen_, now_;  // at the last look, and there and at the one before
  double step_ms_ = 0;                // of the last look
  double quickest_link_ms_ = -1;      // median of a window
};

}  // namespace weft
