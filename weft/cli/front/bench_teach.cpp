#include "weft/cli/front/bench_teach.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "weft/base/env.h"
#include "weft/base/text.h"
#include "weft/cli/front/bench_teach_words.h"
#include "weft/monitor/table.h"
#include "weft/sim/collective_replay.h"

namespace weft::cli {
namespace {

using config::Language;
using sim::Algorithm;
using sim::Holdings;
using sim::Schedule;
using Json = nlohmann::ordered_json;

// Of a long schedule the beginning and the end: the middle is more of the same.
constexpr int kShownFirst = 14, kShownLast = 2;
// Rings of more ranks fill screens: their steps are named, and drawn only as SVG.
constexpr int kMaxDrawnParts = 16;

bool is_shown(const Schedule& schedule, int step) {
  const int first = schedule.num_parts > kMaxDrawnParts ? 2 : kShownFirst;
  return step < first || step >= schedule.num_steps() - kShownLast;
}

std::string wrapped(const std::string& text, int indent, const Terminal& terminal) {
  std::string out;
  for (const std::string& line : wrap_columns(text, std::max(20, terminal.columns - indent)))
    out += cat(std::string(static_cast<size_t>(indent), ' '), line, "\n");
  return out;
}

// "0→4" or "0→1:a".
std::string message_text(const Schedule& schedule, const sim::Transfer& message, const Terminal& terminal) {
  const std::string pair = cat(message.from, terminal.unicode ? "→" : "->", message.to);
  return schedule.num_parts > 1 ? cat(pair, ":", part_name(message.part)) : pair;
}

std::string step_line(const Schedule& schedule, int step, Language language, const Terminal& terminal) {
  std::vector<std::string> messages;
  double start_s = 1e300, end_s = 0;
  for (const sim::Transfer& message : schedule.transfers) {
    if (message.step != step) continue;
    start_s = std::min(start_s, message.start_s);
    end_s = std::max(end_s, message.end_s);
    messages.push_back(message_text(schedule, message, terminal));
  }
  const std::string name = language == Language::kChinese ? cat("第 ", step + 1, " 步") : cat("step ", step + 1);
  const std::string times = cat(time_text(start_s), " .. ", time_text(end_s));
  std::string out = cat("  ", pad_columns(name, 9), pad_columns(times, 22));
  constexpr int kIndent = 33;
  const auto lines =
      wrap_columns(join(messages, schedule.num_parts > 1 ? " " : "  "), std::max(20, terminal.columns - kIndent));
  for (size_t i = 0; i < lines.size(); ++i) out += cat(i == 0 ? "" : std::string(kIndent, ' '), lines[i], "\n");
  return out;
}

// One cell of the picture: nothing, how many ranks' data is in it, or all that is wanted.
std::string cell_text(const Schedule& schedule, const sim::Contributions& held, const Terminal& terminal) {
  if (held.empty()) return style(terminal.unicode ? "·" : ".", Style::kDim, terminal);
  if (is_final(schedule, held)) return style(terminal.unicode ? "█" : "#", Style::kGreen, terminal);
  return held.size() < 10 ? cat(held.size()) : "+";
}

// Pictures beside each other: a row for each rank, a column for each part, a block for each step.
struct Blocks {
  int margin, width, gap;
  size_t per_row;
};

Blocks layout_for(const Schedule& schedule, Language language, const Terminal& terminal) {
  constexpr int kMaxColumns = 120;
  const int margin = schedule.problem.world > 10 ? 10 : 9, gap = schedule.num_parts > 1 ? 1 : 2;
  const int width = std::max(schedule.num_parts, display_columns(teach_labels().start.in(language)));
  const int fitting = (std::min(terminal.columns, kMaxColumns) - margin + gap) / (width + gap);
  return {margin, width, gap, static_cast<size_t>(std::max(1, fitting))};
}

std::string heading_row(const Schedule& schedule, const Blocks& blocks, size_t first, size_t last, Language language) {
  std::string out(static_cast<size_t>(blocks.margin), ' ');
  for (size_t step = first; step < last; ++step) {
    const std::string label = step == 0 ? teach_labels().start.in(language) : cat(step);
    out += pad_columns(label, blocks.width + blocks.gap);
  }
  out.erase(out.find_last_not_of(' ') + 1);
  if (schedule.num_parts == 1 || schedule.num_parts > 26) return out + "\n";
  std::string names;
  for (int part = 0; part < schedule.num_parts; ++part) names += part_name(part);
  out += cat("\n", std::string(static_cast<size_t>(blocks.margin), ' '));
  for (size_t step = first; step < last; ++step)
    out += step + 1 < last ? pad_columns(names, blocks.width + blocks.gap) : names;
  return out + "\n";
}

std::string rank_row(const Schedule& schedule, const std::vector<Holdings>& states, const Blocks& blocks, size_t first,
                     size_t last, int rank, const Terminal& terminal) {
  std::string out = pad_columns(cat("  rank ", rank), blocks.margin);
  for (size_t step = first; step < last; ++step) {
    for (int part = 0; part < schedule.num_parts; ++part)
      out += cell_text(schedule, states[step].of(rank, part), terminal);
    const int gap = blocks.width + blocks.gap - schedule.num_parts;
    if (step + 1 < last) out += std::string(static_cast<size_t>(gap), ' ');
  }
  return out + "\n";
}

std::string picture(const Schedule& schedule, Language language, const Terminal& terminal) {
  if (schedule.num_parts > kMaxDrawnParts) return "";
  const std::vector<Holdings> states = sim::replay(schedule);
  const Blocks blocks = layout_for(schedule, language, terminal);
  const size_t shown = schedule.num_steps() > kShownFirst + kShownLast ? kShownFirst + 1 : states.size();
  std::string out;
  for (size_t first = 0; first < shown; first += blocks.per_row) {
    const size_t last = std::min(first + blocks.per_row, shown);
    out += cat("\n", heading_row(schedule, blocks, first, last, language));
    for (int rank = 0; rank < schedule.problem.world; ++rank)
      out += rank_row(schedule, states, blocks, first, last, rank, terminal);
  }
  return out;
}

void write_svgs(const std::vector<Schedule>& all, const BenchCommOptions& options) {
  Env& env = Env::posix();
  env.make_folders(options.svg_path);
  const auto write = [&](std::string_view name, const std::string& svg) {
    write_file(env, cat(options.svg_path, "/", name, ".svg"), bytes_of(svg));
  };
  for (const Schedule& schedule : all)
    write(name_of(schedule.algorithm), teach_schedule_svg(schedule, options.language));
  write("collectives", teach_comparison_svg(all, options.language));
}

const Schedule& schedule_of(const std::vector<Schedule>& all, Algorithm algorithm) {
  return *std::ranges::find(all, algorithm, &Schedule::algorithm);
}

}  // namespace

std::string teach_schedule_text(const Schedule& schedule, Language language, const Terminal& terminal) {
  const TeachWords& words = words_of(schedule.algorithm);
  std::string out = cat(style(words.title.in(language), Style::kBold, terminal), "\n");
  out += wrapped(words.about.in(language), 2, terminal);
  out += cat("  ", problem_text(schedule, language), ": ",
             style(result_text(schedule, language), Style::kBold, terminal), "\n\n");
  if (schedule.transfers.empty()) return cat(out, "  ", teach_labels().one_rank.in(language), "\n");
  bool is_cut = false;
  for (int step = 0; step < schedule.num_steps(); ++step) {
    if (is_shown(schedule, step)) {
      out += step_line(schedule, step, language, terminal);
    } else if (!is_cut) {
      out += "  ...\n";
      is_cut = true;
    }
  }
  return out + picture(schedule, language, terminal);
}

std::string teach_comparison_text(const std::vector<Schedule>& all, Language language, const Terminal& terminal) {
  const TeachLabels& labels = teach_labels();
  Table table{.title = cat(labels.comparison.in(language), ": ", problem_text(all.front(), language))};
  for (const Schedule& schedule : all) {
    table.rows.push_back({.label = words_of(schedule.algorithm).title.in(language),
                          .value = time_text(schedule.time_s()),
                          .note = cat(schedule.num_steps(), " ", labels.steps.in(language), ", ",
                                      labels.busiest.in(language), " ", size_text(schedule.busiest_bytes()))});
  }
  std::string out = render_table(table, terminal);
  const std::pair<Algorithm, Algorithm> pairs[] = {{Algorithm::kSerialBroadcast, Algorithm::kTreeBroadcast},
                                                   {Algorithm::kReduceThenBroadcast, Algorithm::kRingAllReduce}};
  for (const auto& [slow, fast] : pairs) {
    const std::string text = comparison_text(schedule_of(all, slow), schedule_of(all, fast), language);
    if (!text.empty()) out += wrapped(text, 0, terminal);
  }
  return out;
}

std::string teach_json(const std::vector<Schedule>& all) {
  const Schedule& any = all.front();
  Json algorithms = Json::array();
  for (const Schedule& schedule : all) {
    Json transfers = Json::array();
    for (const sim::Transfer& message : schedule.transfers) {
      transfers.push_back({{"step", message.step + 1},
                           {"from", message.from},
                           {"to", message.to},
                           {"part", message.part},
                           {"bytes", message.bytes},
                           {"adds", message.adds},
                           {"start_s", message.start_s},
                           {"end_s", message.end_s}});
    }
    algorithms.push_back({{"name", name_of(schedule.algorithm)},
                          {"time_s", schedule.time_s()},
                          {"steps", schedule.num_steps()},
                          {"parts", schedule.num_parts},
                          {"busiest_rank_bytes", schedule.busiest_bytes()},
                          {"total_bytes", schedule.total_bytes()},
                          {"transfers", transfers}});
  }
  const Json out = {{"schema", 1},
                    {"ranks", any.problem.world},
                    {"bytes", any.problem.bytes},
                    {"bytes_per_s", any.link.bytes_per_s},
                    {"latency_s", any.link.latency_s},
                    {"algorithms", algorithms}};
  return out.dump(2) + "\n";
}

int teach_collectives(const BenchCommOptions& options) {
  const sim::Problem problem{.world = static_cast<int>(options.num_ranks), .bytes = options.bytes.front()};
  std::vector<Schedule> all;
  for (const Algorithm algorithm : sim::kAllAlgorithms)
    all.push_back(sim::make_schedule(algorithm, problem, options.link));
  if (!options.svg_path.empty()) write_svgs(all, options);
  std::string out;
  if (options.json) {
    out = teach_json(all);
  } else {
    const Terminal terminal = detect_terminal(STDOUT_FILENO);
    out = cat(wrapped(teach_labels().key.in(options.language), 0, terminal), "\n");
    for (const Schedule& schedule : all) out += teach_schedule_text(schedule, options.language, terminal) + "\n";
    out += teach_comparison_text(all, options.language, terminal);
  }
  std::fputs(out.c_str(), stdout);
  return 0;
}

}  // namespace weft::cli
