#include <algorithm>
#include <limits>

#include "weft/base/text.h"
#include "weft/cli/front/bench_svg.h"
#include "weft/cli/front/bench_teach_words.h"
#include "weft/sim/collective_replay.h"

namespace weft::cli {
namespace {

using sim::Schedule;

class Lanes {
 public:
  Lanes(const Schedule& schedule, double top) : schedule_(schedule), top_(top + 34), states_(sim::replay(schedule)) {
    lane_ = std::clamp(400.0 / schedule.problem.world, 13.0, 46.0);
  }

  double bottom() const { return top_ + lane_ * schedule_.problem.world + 18; }

  std::string draw() const {
    std::string out = draw_times();
    for (int rank = 0; rank < schedule_.problem.world; ++rank) out += draw_rank(rank);
    for (const sim::Transfer& message : schedule_.transfers) out += draw_message(message);
    return out;
  }

 private:
  // Behind the last message there is room to show how it ended.
  static constexpr double kLeft = 100, kRight = 790, kEnd = 836;

  double x_of(double time_s) const { return kLeft + (kRight - kLeft) * time_s / std::max(1e-300, schedule_.time_s()); }
  double y_of(int rank) const { return top_ + lane_ * (rank + 0.5); }
  double bar() const { return std::min(18.0, lane_ - 3); }

  std::string draw_times() const {
    std::string out;
    const int steps = schedule_.num_steps(), every = std::max(1, steps / 14);
    for (int step = 0; step <= steps; ++step) {
      const double time_s = schedule_.time_s() * step / std::max(1, steps);
      out += line_between(x_of(time_s), top_ - 6, x_of(time_s), bottom() - 14,
                          cat("stroke=\"", kPale, "\" stroke-dasharray=\"2 4\""));
      if (step % every == 0) out += text_at(x_of(time_s), top_ - 14, 13, kMuted, "middle", time_text(time_s));
    }
    return out;
  }

  // What the rank holds, from each change to the next.
  std::string draw_rank(int rank) const {
    std::string out = text_at(kLeft - 18, y_of(rank) + 5, lane_ < 16 ? 11 : 14, kInk, "end", cat("rank ", rank));
    out += line_between(kLeft, y_of(rank), kEnd, y_of(rank), cat("stroke=\"", kPale, "\""));
    double since_s = 0;
    const sim::Contributions* held = &states_.front().of(rank, 0);
    for (const sim::Transfer& message : schedule_.transfers) {
      if (message.to != rank) continue;
      out += draw_held(rank, *held, x_of(since_s), x_of(message.end_s));
      since_s = message.end_s;
      held = &states_[static_cast<size_t>(message.step) + 1].of(rank, 0);
    }
    return out + draw_held(rank, *held, x_of(since_s), kEnd) + draw_sum(rank, *held);
  }

  // Where the rank has passed its sum on: what it still holds is of no more use.
  double given_away_x(int rank) const {
    for (const sim::Transfer& message : schedule_.transfers) {
      if (message.adds && message.from == rank) return x_of(message.end_s);
    }
    return std::numeric_limits<double>::infinity();
  }

  std::string draw_held(int rank, const sim::Contributions& held, double from, double to) const {
    if (held.empty() || !(to > from)) return "";
    const bool is_whole = is_final(schedule_, held);
    const auto bar_to = [&](double end) { return std::max(0.0, end - from); };
    const double y = y_of(rank) - bar() / 2;
    if (is_whole) return rectangle(from, y, bar_to(to), bar(), 2, filled(kFinal, 0.8));
    const double used = std::clamp(given_away_x(rank), from, to);
    return rectangle(from, y, bar_to(to), bar(), 2, filled(kPartial, 0.1)) +
           rectangle(from, y, bar_to(used), bar(), 2, filled(kPartial, strength_of(schedule_, held.size())));
  }

  std::string draw_sum(int rank, const sim::Contributions& held) const {
    const bool is_sum = is_final(schedule_, held) && held.size() > 1;
    return is_sum ? text_at(kEnd + 8, y_of(rank) + 5, 13, kFinal, "start", cat("\u03a3", held.size())) : "";
  }

  std::string draw_message(const sim::Transfer& message) const {
    const double down = message.to > message.from ? 1 : -1;
    const double from_y = y_of(message.from) + down * bar() / 2, to_y = y_of(message.to) - down * (bar() / 2 + 1);
    // Not up to the very end of the step: the arrows of the next one begin there.
    const double span = x_of(message.end_s) - x_of(message.start_s);
    const double x1 = x_of(message.start_s) + span * 0.04, x2 = x_of(message.end_s) - span * 0.02;
    return line_between(x1, from_y, x2, to_y,
                        cat("stroke=\"", kArrow, "\" stroke-width=\"1.8\" marker-end=\"url(#head)\"")) +
           dot_at(x1, from_y, kArrow);
  }

  const Schedule& schedule_;
  double top_, lane_;
  std::vector<sim::Holdings> states_;
};

}  // namespace

Drawing draw_lanes(const Schedule& schedule, double top) {
  const Lanes lanes(schedule, top);
  return {lanes.draw(), lanes.bottom()};
}

}  // namespace weft::cli
