// Which row a span is drawn on. Chrome and Perfetto draw spans of one row as a stack, so two that overlap without one
// lying inside the other need rows of their own: the reduces of two buckets at once, for instance.
//
// A plain value with one owner, no failure. Memory is bounded: each lane remembers its last kMaxKept outermost spans, and
// takes it that nothing reaches back beyond them.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

namespace weft::detail {

class TraceLanes {
 public:
  // The first lane where it fits. Spans come in the order of their ends, the inner of two before the outer; one that
  // comes late and lies inside an outer span already there goes to another lane, since what else lies inside is forgotten.
  int place(int64_t start_ns, int64_t end_ns);

  static constexpr int kMaxLanes = 64;  // the last takes what fits nowhere
  static constexpr size_t kMaxKept = 1 << 16;

 private:
  struct Interval {
    int64_t start_ns, end_ns;
  };
  using Lane = std::deque<Interval>;  // disjoint, by time

  static bool add_to(Lane& lane, Interval span);
  std::vector<Lane> lanes_;
};

}  // namespace weft::detail
