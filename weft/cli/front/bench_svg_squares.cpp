#include <algorithm>
#include <cmath>

#include "weft/base/text.h"
#include "weft/cli/front/bench_svg.h"
#include "weft/cli/front/bench_teach_words.h"
#include "weft/sim/collective_replay.h"

namespace weft::cli {
namespace {

using config::Language;
using sim::Schedule;

class Squares {
 public:
  Squares(const Schedule& schedule, Language language, double top)
      : schedule_(schedule), language_(language), top_(top + 16), states_(sim::replay(schedule)) {
    const int world = schedule.problem.world;
    // One trip round the ring on one line where that fits; more ranks need larger squares.
    per_row_ = world > 16 ? 4 : std::clamp(world, 2, 8);
    const double room = (kSvgWidth - 2 * kSvgMargin - kLabels) / per_row_;
    cell_ = std::min((room - 12) / world, 26.0);
    block_ = std::min(room, cell_ * world + 40);
    const size_t count = std::min<size_t>(states_.size(), world > 16 ? 8 : 32), last = states_.size() - 1;
    for (size_t i = 0; i < count; ++i) shown_.push_back(count == 1 ? 0 : i * last / (count - 1));
  }

  double bottom() const { return top_ + rows() * row_height() + 4; }

  std::string draw() const {
    std::string out;
    for (size_t i = 0; i < shown_.size(); ++i) out += draw_square(i, shown_[i]);
    return out;
  }

 private:
  static constexpr double kLabels = 16;

  double side() const { return cell_ * schedule_.problem.world; }
  double row_height() const { return side() + 44; }
  double rows() const { return std::ceil(static_cast<double>(shown_.size()) / per_row_); }

  std::string draw_square(size_t place, size_t state) const {
    const auto per_row = static_cast<size_t>(per_row_);
    const size_t row = place / per_row, column = place % per_row;
    const double x = kSvgMargin + kLabels + static_cast<double>(column) * block_;
    const double y = top_ + 18 + static_cast<double>(row) * row_height();
    const std::string name =
        state == 0 ? teach_labels().start.in(language_) : cat(teach_labels().step.in(language_), " ", state);
    const sim::Holdings news = news_of(state);
    std::string out = text_at(x + side() / 2, y - 6, 13, kMuted, "middle", name);
    for (int rank = 0; rank < schedule_.problem.world; ++rank) {
      const bool is_labelled = x < kSvgMargin + kLabels + 1 && cell_ >= 9;
      if (is_labelled) out += text_at(x - 6, y + cell_ * (rank + 0.5) + 4, 11, kMuted, "end", cat(rank));
      for (int part = 0; part < schedule_.num_parts; ++part)
        out +=
            draw_cell(states_[state].of(rank, part), !news.of(rank, part).empty(), x + cell_ * part, y + cell_ * rank);
    }
    return out;
  }

  // The cells that came with the step before this state.
  sim::Holdings news_of(size_t state) const {
    sim::Holdings out{.num_parts = schedule_.num_parts, .cells = {states_[state].cells.size(), sim::Contributions()}};
    for (const sim::Transfer& message : schedule_.transfers) {
      if (message.step + 1 == static_cast<int>(state)) out.cells[out.index(message.to, message.part)] = {message.from};
    }
    return out;
  }

  std::string draw_cell(const sim::Contributions& held, bool is_new, double x, double y) const {
    const bool is_whole = is_final(schedule_, held);
    const std::string fill = held.empty() ? "fill=\"#f3f5f7\""
                             : is_whole   ? filled(kFinal, 0.8)
                                          : filled(kPartial, strength_of(schedule_, held.size()));
    const std::string edge = is_new ? cat(" stroke=\"", kArrow, "\" stroke-width=\"", cell_ < 8 ? 1 : 2, "\"") : "";
    const double gap = cell_ < 8 ? 0.2 : 0.8;
    std::string out = rectangle(x + gap, y + gap, cell_ - 2 * gap, cell_ - 2 * gap, cell_ < 8 ? 0 : 1.5, fill + edge);
    if (held.size() > 1 && cell_ >= 10) {
      out += text_at(x + cell_ / 2, y + cell_ / 2 + 3.2, cell_ < 14 ? 9 : 11, is_whole ? "#ffffff" : kInk, "middle",
                     cat(held.size()));
    }
    return out;
  }

  const Schedule& schedule_;
  Language language_;
  double top_, cell_ = 0, block_ = 0;
  int per_row_ = 1;
  std::vector<sim::Holdings> states_;
  std::vector<size_t> shown_;
};

}  // namespace

Drawing draw_squares(const Schedule& schedule, Language language, double top) {
  const Squares squares(schedule, language, top);
  return {squares.draw(), squares.bottom()};
}

}  // namespace weft::cli
