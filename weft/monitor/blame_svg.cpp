#include <algorithm>
#include <cmath>
#include <set>

#include "weft/base/text.h"
#include "weft/monitor/blame_impl.h"
#include "weft/monitor/html.h"
#include "weft/monitor/numbers.h"
#include "weft/monitor/table.h"

namespace weft {
namespace {

using detail::call_words;
using detail::Calls;
using detail::is_unfinished;
using detail::join_dumps;
using detail::Joined;
using detail::JoinedGroup;
using detail::numbered_words;

constexpr size_t kMaxColumns = 40, kMaxLanes = 64;
constexpr double kLeft = 92, kRight = 880, kTop = 96, kLane = 26, kBar = 16;
constexpr const char* kInk = "#1f2328";
constexpr const char* kMuted = "#57606a";
constexpr const char* kBad = "#c62828";

struct CallColumn {
  const JoinedGroup* group = nullptr;
  uint64_t sequence = 0;
  int64_t start_ns = 0, end_ns = 0;  // over all ranks; the end of those that have one
  const FlightEntry* call = nullptr;
};

std::string px(double value) { return fixed_text(value, 1); }

std::string text_at(double x, double y, int size, const char* colour, const char* anchor, std::string_view text,
                    std::string_view more = "") {
  return cat("<text x=\"", px(x), "\" y=\"", px(y), "\" font-size=\"", size, "\" fill=\"", colour, "\" text-anchor=\"",
             anchor, "\"", more, ">", escape_html(text), "</text>\n");
}

const char* colour_of(std::string_view operation) {
  constexpr std::pair<std::string_view, const char*> kColours[] = {
      {"all_reduce", "#4c78a8"}, {"reduce_scatter", "#72a7a3"}, {"all_gather", "#8f7fb8"},
      {"broadcast", "#d49a3a"},  {"reduce", "#9c755f"},         {"all_to_all", "#6b9c4f"},
      {"gather", "#b07aa1"},     {"scatter", "#c7a76c"},        {"barrier", "#8a9199"}};
  for (const auto& [name, colour] : kColours) {
    if (name == operation) return colour;
  }
  return "#8a9199";
}

std::vector<CallColumn> columns_of(const Joined& joined) {
  std::vector<CallColumn> out;
  for (const JoinedGroup& group : joined.groups) {
    std::map<uint64_t, CallColumn> by_sequence;
    for (const auto& [rank, calls] : group.by_rank) {
      for (const auto& [sequence, call] : calls) {
        CallColumn& column =
            by_sequence.emplace(sequence, CallColumn{&group, sequence, call->start_ns, 0, call}).first->second;
        column.start_ns = std::min(column.start_ns, call->start_ns);
        if (!is_unfinished(*call)) column.end_ns = std::max(column.end_ns, call->end_ns);
      }
    }
    for (const auto& [sequence, column] : by_sequence) out.push_back(column);
  }
  std::ranges::stable_sort(out, {}, &CallColumn::start_ns);
  if (out.size() > kMaxColumns) out.erase(out.begin(), out.end() - kMaxColumns);
  return out;
}

// The culprits, and the others from 0 on as long as there is room.
std::vector<int64_t> lanes_of(const Blame& blame) {
  std::set<int64_t> lanes(blame.verdict.ranks.begin(), blame.verdict.ranks.end());
  for (const BlameRank& rank : blame.ranks) {
    if (lanes.size() < kMaxLanes) lanes.insert(rank.rank);
  }
  std::vector<int64_t> out(lanes.begin(), lanes.end());
  out.resize(std::min(out.size(), kMaxLanes));
  return out;
}

struct Bar {
  double x, y, width;
};

// Every column has its own scale: from the first call to the last end, however long that was.
Bar bar_of(const CallColumn& column, const FlightEntry& call, double left, double width, double y) {
  constexpr double kMinWidth = 3;
  const auto span = static_cast<double>(std::max<int64_t>(1, column.end_ns - column.start_ns));
  const auto place = [&](int64_t ns) { return std::clamp(static_cast<double>(ns - column.start_ns) / span, 0.0, 1.0); };
  const bool is_open = is_unfinished(call);
  // Nobody finished it: there is no scale, and lateness cannot be drawn.
  const double from = column.end_ns == 0 ? 0 : std::min(place(call.start_ns) * width, width - kMinWidth);
  const double to = is_open ? width : std::max(place(call.end_ns) * width, from + kMinWidth);
  return {left + from, y, to - from};
}

std::string draw_call(const FlightEntry& call, const Bar& bar, bool is_bad) {
  const char* colour = is_bad ? kBad : colour_of(call.operation);
  const bool is_open = is_unfinished(call);
  return cat("<rect x=\"", px(bar.x), "\" y=\"", px(bar.y), "\" width=\"", px(bar.width), "\" height=\"", kBar,
             "\" rx=\"2\" fill=\"", colour, "\"", is_open ? " fill-opacity=\".18\" stroke-dasharray=\"3 2\"" : "",
             " stroke=\"", colour, "\"><title>",
             escape_html(cat(numbered_words(call), " of ", call.group, ": ", call_words(call),
                             is_open ? ", not finished" : "")),
             "</title></rect>\n");
}

std::string draw_absence(double x, double y, double width) {
  return cat("<rect x=\"", px(x), "\" y=\"", px(y), "\" width=\"", px(width), "\" height=\"", kBar,
             "\" rx=\"2\" fill=\"none\" stroke=\"", kBad, "\" stroke-width=\"1.5\" stroke-dasharray=\"3 2\"/>\n",
             text_at(x + width / 2, y + 12, 11, kBad, "middle", "\u00d7"));
}

class Picture {
 public:
  Picture(const Blame& blame, const Joined& joined)
      : blame_(blame), columns_(columns_of(joined)), lanes_(lanes_of(blame)) {
    const auto count = static_cast<double>(std::max<size_t>(1, columns_.size()));
    step_ = std::min(44.0, (kRight - kLeft) / count);
  }

  std::string draw() const {
    std::string body = draw_columns();
    for (size_t i = 0; i < lanes_.size(); ++i) body += draw_lane(i);
    return cat(opening(), heading(), body, legend(), "</svg>\n");
  }

 private:
  double bottom() const { return kTop + static_cast<double>(lanes_.size()) * kLane; }
  double height() const { return bottom() + 92; }
  double x_of(size_t column) const { return kLeft + static_cast<double>(column) * step_; }

  bool is_culprit(int64_t rank) const { return std::ranges::binary_search(blame_.verdict.ranks, rank); }
  bool is_verdict(const CallColumn& column) const {
    return column.group->name == blame_.verdict.group && column.sequence == blame_.verdict.sequence;
  }

  std::string opening() const {
    return cat("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 900 ", px(height()),
               "\" role=\"img\" aria-labelledby=\"title about\" font-family=\"system-ui, 'Segoe UI', Roboto, "
               "'Helvetica Neue', Arial, sans-serif\">\n<title id=\"title\">The last collectives of each "
               "rank</title>\n<desc id=\"about\">",
               escape_html(blame_.verdict.text), "</desc>\n<rect width=\"900\" height=\"", px(height()),
               "\" fill=\"#ffffff\"/>\n");
  }

  std::string heading() const {
    constexpr int kLetters = 112;
    const char* colour = blame_.verdict.kind == BlameKind::kNone ? kInk : kBad;
    std::string out;
    double y = 30;
    for (const std::string& line : wrap_columns(blame_.verdict.text, kLetters)) {
      if (y > 50) break;
      out += text_at(20, y, 15, colour, "start", line, " font-weight=\"600\"");
      y += 20;
    }
    return out;
  }

  std::string draw_columns() const {
    std::string out;
    for (size_t i = 0; i < columns_.size(); ++i) {
      const double middle = x_of(i) + step_ / 2;
      if (is_verdict(columns_[i])) {
        out += cat("<rect x=\"", px(x_of(i)), "\" y=\"", px(kTop - 24), "\" width=\"", px(step_), "\" height=\"",
                   px(bottom() - kTop + 28), "\" fill=\"#fdecea\"/>\n");
      }
      const bool is_labelled = step_ >= 30 || i % 2 == (columns_.size() - 1) % 2;
      if (is_labelled) out += text_at(middle, kTop - 10, 10, kMuted, "middle", cat("#", columns_[i].sequence));
    }
    return out;
  }

  std::string draw_lane(size_t lane) const {
    const int64_t rank = lanes_[lane];
    const double y = kTop + static_cast<double>(lane) * kLane;
    const bool is_bad = is_culprit(rank);
    std::string out = cat("<line x1=\"", kLeft, "\" y1=\"", px(y + kLane - 3), "\" x2=\"", kRight, "\" y2=\"",
                          px(y + kLane - 3), "\" stroke=\"#eaeef2\"/>\n");
    out += text_at(kLeft - 12, y + 13, 13, is_bad ? kBad : kInk, "end", cat("rank ", rank),
                   is_bad ? " font-weight=\"700\"" : "");
    for (size_t i = 0; i < columns_.size(); ++i) out += draw_cell(columns_[i], rank, x_of(i), y);
    return out;
  }

  std::string draw_cell(const CallColumn& column, int64_t rank, double x, double y) const {
    const double width = step_ - 4;
    const bool is_bad = is_culprit(rank) && is_verdict(column);
    const auto calls = column.group->by_rank.find(rank);
    const auto call =
        calls == column.group->by_rank.end() ? Calls::const_iterator() : calls->second.find(column.sequence);
    const bool is_there = calls != column.group->by_rank.end() && call != calls->second.end();
    if (is_there) return draw_call(*call->second, bar_of(column, *call->second, x + 2, width, y), is_bad);
    return is_bad ? draw_absence(x + 2, y, width) : "";
  }

  std::string legend() const {
    std::set<std::string> operations;
    for (const CallColumn& column : columns_) operations.insert(column.call->operation);
    double x = 20;
    const double y = bottom() + 28;
    std::string out;
    const auto add = [&](const std::string& name, const char* colour, std::string_view look) {
      out += cat("<rect x=\"", px(x), "\" y=\"", px(y - 10), "\" width=\"16\" height=\"12\" rx=\"2\" fill=\"", colour,
                 "\" stroke=\"", colour, "\"", look, "/>\n", text_at(x + 22, y, 12, kInk, "start", name));
      x += 22 + static_cast<double>(name.size()) * 6.6 + 22;
    };
    for (const std::string& name : operations) add(name, colour_of(name), "");
    add("not finished", kMuted, " fill-opacity=\".18\" stroke-dasharray=\"3 2\"");
    if (!blame_.verdict.ranks.empty()) add("to blame", kBad, "");
    std::string note =
        "A column is one collective, from its first call to its last end; every column has its own scale.";
    if (lanes_.size() < blame_.ranks.size()) note += cat(" ", lanes_.size(), " of ", blame_.ranks.size(), " ranks.");
    return out + text_at(20, y + 30, 12, kMuted, "start", note);
  }

  const Blame& blame_;
  std::vector<CallColumn> columns_;
  std::vector<int64_t> lanes_;
  double step_ = 0;
};

}  // namespace

std::string blame_svg(const Blame& blame, const std::vector<FlightDump>& dumps) {
  const Joined joined = join_dumps(dumps);
  return Picture(blame, joined).draw();
}

}  // namespace weft
