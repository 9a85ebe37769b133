#include "weft/plan/residency.h"

#include <algorithm>
#include <limits>
#include <optional>

namespace weft::plan {
namespace {

constexpr int kNever = std::numeric_limits<int>::max();

// By position: where its unit is touched next.
std::vector<int> next_touches(const std::vector<Touch>& trace, size_t num_units) {
  std::vector<int> next(trace.size()), upcoming(num_units, kNever);
  for (size_t i = trace.size(); i-- > 0;) {
    auto& of_unit = upcoming[static_cast<size_t>(trace[i].unit)];
    next[i] = of_unit;
    of_unit = static_cast<int>(i);
  }
  return next;
}

// By position: the last one of the same operator.
std::vector<int> operator_ends(const std::vector<Touch>& trace) {
  std::vector<int> ends(trace.size());
  for (size_t i = trace.size(); i-- > 0;) {
    const bool goes_on = i + 1 < trace.size() && trace[i + 1].with_previous;
    ends[i] = goes_on ? ends[i + 1] : static_cast<int>(i);
  }
  return ends;
}

// What is resident at each touch if everything is gathered when it is needed.
class OnDemand {
 public:
  OnDemand(const std::vector<Touch>& trace, const std::vector<int64_t>& sizes, const ResidencyLimits& limits)
      : trace_(trace),
        sizes_(sizes),
        limits_(limits),
        next_(next_touches(trace, sizes.size())),
        ends_(operator_ends(trace)),
        stay_of_(sizes.size()) {
    before_.push_back(0);
    for (const Touch& touch : trace) before_.push_back(before_.back() + size_of(touch.unit));
  }

  std::vector<Stay> stays() {
    for (int begin = 0; begin < std::ssize(trace_); begin = ends_[static_cast<size_t>(begin)] + 1) run(begin);
    return std::move(stays_);
  }

 private:
  int64_t size_of(int unit) const { return sizes_[static_cast<size_t>(unit)]; }
  std::optional<size_t>& stay_of(int unit) { return stay_of_[static_cast<size_t>(unit)]; }

  void run(int begin) {
    const int end = ends_[static_cast<size_t>(begin)];
    for (int at = begin; at <= end; ++at) {
      const int unit = trace_[static_cast<size_t>(at)].unit;
      if (!stay_of(unit)) enter(unit, at, begin, end);
      stays_[*stay_of(unit)].last = end;
    }
    for (int at = begin; at <= end; ++at) leave_if_far(trace_[static_cast<size_t>(at)].unit, at);
  }

  void enter(int unit, int at, int begin, int end) {
    while (live_ + size_of(unit) > limits_.max_live && drop_furthest(begin, end)) continue;
    live_ += size_of(unit);
    stay_of(unit) = stays_.size();
    stays_.push_back({.unit = unit, .start = at, .first = at, .last = at});
  }

  void leave(int unit) {
    live_ -= size_of(unit);
    stay_of(unit).reset();
  }

  void leave_if_far(int unit, int at) {
    const int next = next_[static_cast<size_t>(at)];
    if (next <= ends_[static_cast<size_t>(at)] || !stay_of(unit)) return;
    const bool far = next == kNever || before_[static_cast<size_t>(next)] - before_[static_cast<size_t>(at) + 1] >
                                           limits_.max_reuse_distance;
    if (far) leave(unit);
  }

  // Of those that this operator does not need. False: there is none.
  bool drop_furthest(int begin, int end) {
    int furthest = -1, next_use = -1;
    for (int unit = 0; unit < std::ssize(sizes_); ++unit) {
      if (!stay_of(unit) || is_needed(unit, begin, end)) continue;
      const int next = next_[static_cast<size_t>(last_touch(unit))];
      if (next > next_use) {
        furthest = unit;
        next_use = next;
      }
    }
    if (furthest < 0) return false;
    leave(furthest);
    return true;
  }
  bool is_needed(int unit, int begin, int end) const {
    for (int at = begin; at <= end; ++at) {
      if (trace_[static_cast<size_t>(at)].unit == unit) return true;
    }
    return false;
  }
  // `last` is the end of an operator, which may have touched others after it.
  int last_touch(int unit) {
    int at = stays_[*stay_of(unit)].last;
    while (trace_[static_cast<size_t>(at)].unit != unit) --at;
    return at;
  }

  const std::vector<Touch>& trace_;
  const std::vector<int64_t>& sizes_;
  const ResidencyLimits limits_;
  const std::vector<int> next_, ends_;
  std::vector<int64_t> before_;                 // elements touched before a position
  std::vector<std::optional<size_t>> stay_of_;  // by unit: in stays_, while it is resident
  std::vector<Stay> stays_;
  int64_t live_ = 0;
};

// By stay: the first position at which its unit is not resident from the stay before.
std::vector<int> free_from(const std::vector<Stay>& stays, size_t num_units) {
  std::vector<int> out, of_unit(num_units, kBeforeFirst);
  for (const Stay& stay : stays) {
    auto& free = of_unit[static_cast<size_t>(stay.unit)];
    out.push_back(free);
    free = stay.last + 1;
  }
  return out;
}

// Begins gathers as early as there is room, in their order. The peak.
int64_t begin_early(std::vector<Stay>& stays, const std::vector<int64_t>& sizes, int num_touches,
                    const ResidencyLimits& limits) {
  const auto size_of = [&](size_t stay) { return sizes[static_cast<size_t>(stays[stay].unit)]; };
  std::vector<std::vector<size_t>> ending(static_cast<size_t>(num_touches) + 1);
  for (size_t stay = 0; stay < stays.size(); ++stay) ending[static_cast<size_t>(stays[stay].last) + 1].push_back(stay);
  const std::vector<int> earliest = free_from(stays, sizes.size());
  int64_t live = 0, ahead = 0, peak = 0;
  size_t next = 0, reached = 0;  // stays: the first that is not gathered, the first that is not needed yet
  for (int at = kBeforeFirst; at < num_touches; ++at) {
    if (at >= 0) {
      for (const size_t over : ending[static_cast<size_t>(at)]) live -= size_of(over);
    }
    for (; reached < next && stays[reached].first <= at; ++reached) ahead -= size_of(reached);
    for (; next < stays.size(); ++next) {
      const bool now = stays[next].first <= at;
      const bool fits =
          earliest[next] <= at && live + size_of(next) <= limits.max_live && ahead + size_of(next) <= limits.prefetch;
      if (!now && !fits) break;
      stays[next].start = at;
      live += size_of(next);
      if (now) {
        ++reached;
      } else {
        ahead += size_of(next);
      }
      peak = std::max(peak, live);
    }
  }
  return peak;
}

}  // namespace

Residency make_residency(const std::vector<Touch>& trace, const std::vector<int64_t>& sizes,
                         const ResidencyLimits& limits) {
  Residency out{.stays = OnDemand(trace, sizes, limits).stays()};
  for (const Stay& stay : out.stays) out.gathered_elements += sizes[static_cast<size_t>(stay.unit)];
  out.peak_elements = begin_early(out.stays, sizes, static_cast<int>(trace.size()), limits);
  return out;
}

}  // namespace weft::plan
