#include <algorithm>
#include <nlohmann/json.hpp>

#include "weft/base/text.h"
#include "weft/base/units.h"
#include "weft/monitor/blame_impl.h"
#include "weft/monitor/flight_dump.h"
#include "weft/monitor/numbers.h"
#include "weft/monitor/table.h"

namespace weft {
namespace {

using detail::numbered_words;
using OrderedJson = nlohmann::ordered_json;

bool is_culprit(const Blame& blame, int64_t rank) { return std::ranges::binary_search(blame.verdict.ranks, rank); }

std::string waiting_words(const FlightEntry& entry) {
  const char* verb = entry.state == FlightState::kFailed   ? "failed in "
                     : entry.state == FlightState::kQueued ? "queued "
                                                           : "waits in ";
  return cat(verb, numbered_words(entry), " of ", entry.group);
}

TableRow row_of(const Blame& blame, const BlameRank& rank) {
  TableRow row{.label = cat("rank ", rank.rank)};
  if (is_culprit(blame, rank.rank)) row.mark = Mark::kBad;
  if (!rank.has_dump) {
    row.value = "no dump";
    return row;
  }
  const std::string last = rank.last_finished ? numbered_words(*rank.last_finished) : "nothing";
  row.value = rank.waits_in ? waiting_words(*rank.waits_in) : cat("finished ", last);
  if (rank.waits_in) row.note = cat("after ", last);
  return row;
}

// Every culprit, and the others as long as a person would read them.
Table rank_table(const Blame& blame) {
  constexpr size_t kMaxRows = 32;
  Table table{.title = cat(blame.world, blame.world == 1 ? " rank" : " ranks")};
  size_t num_left_out = 0;
  for (const BlameRank& rank : blame.ranks) {
    const bool shown = table.rows.size() < kMaxRows || is_culprit(blame, rank.rank);
    if (shown) table.rows.push_back(row_of(blame, rank));
    num_left_out += shown ? 0 : 1;
  }
  if (num_left_out > 0) table.rows.push_back({.label = "...", .value = cat(num_left_out, " more ranks")});
  return table;
}

Table lateness_table(const Blame& blame) {
  constexpr size_t kMaxRows = 8;
  auto slowest = blame.lateness;
  std::ranges::stable_sort(slowest, std::greater<>(), &BlameLateness::median_ms);
  Table table{.title = "later than the first rank of its host"};
  for (const BlameLateness& late : slowest) {
    if (table.rows.size() == kMaxRows) break;
    table.rows.push_back(
        {.label = cat("rank ", late.rank),
         .value = cat("median ", fixed_text(late.median_ms, 2), " ms, p90 ", fixed_text(late.p90_ms, 2), " ms"),
         .note =
             cat("last in ", fixed_text(late.last_share * 100, 0), " % of ", late.num_collectives, " collectives")});
  }
  return table;
}

std::string wrapped(std::string_view text, std::string_view indent, const Terminal& terminal) {
  const int room = std::max(20, terminal.columns - display_columns(indent));
  std::string out;
  for (const std::string& line : wrap_columns(printable(text, terminal), room)) out += cat(indent, line, "\n");
  return out;
}

// "- " before the first line, blanks before the others.
std::string bullet(std::string_view text, const Terminal& terminal) {
  std::string out = wrapped(text, "    ", terminal);
  return out.replace(2, 1, "-");
}

std::string verdict_line(const Blame& blame, const Terminal& terminal) {
  const bool is_clean = blame.verdict.kind == BlameKind::kNone;
  const std::string text = cat("verdict: ", blame.verdict.text);
  // In a pipe it stays on one line, for whoever takes the first.
  std::string out = terminal.is_tty ? wrapped(text, "", terminal) : cat(printable(text, terminal), "\n");
  out.pop_back();
  return cat(style(out, is_clean ? Style::kGreen : Style::kRed, terminal), "\n");
}

OrderedJson entry_json(const std::optional<FlightEntry>& entry) {
  if (!entry) return nullptr;
  return {{"group", entry->group}, {"operation", entry->operation}, {"sequence", entry->sequence},
          {"bytes", entry->bytes}, {"dtype", entry->dtype},         {"reduce_op", entry->reduce_op},
          {"peer", entry->peer},   {"state", name_of(entry->state)}};
}

OrderedJson finding_json(const BlameFinding& finding) {
  const bool has_collective = finding.sequence > 0;
  return {{"kind", name_of(finding.kind)},
          {"rank", finding.ranks.size() == 1 ? OrderedJson(finding.ranks.front()) : OrderedJson(nullptr)},
          {"ranks", finding.ranks},
          {"group", has_collective ? OrderedJson(finding.group) : OrderedJson(nullptr)},
          {"sequence", has_collective ? OrderedJson(finding.sequence) : OrderedJson(nullptr)},
          {"operation", has_collective ? OrderedJson(finding.operation) : OrderedJson(nullptr)},
          {"text", finding.text},
          {"details", finding.details}};
}

OrderedJson rank_json(const BlameRank& rank) {
  return {{"rank", rank.rank},
          {"has_dump", rank.has_dump},
          {"host", rank.host},
          {"pid", rank.pid},
          {"reason", rank.reason},
          {"last_finished", entry_json(rank.last_finished)},
          {"waits_in", entry_json(rank.waits_in)}};
}

}  // namespace

std::string blame_text(const Blame& blame, const Terminal& terminal) {
  std::string out = cat(verdict_line(blame, terminal), "\n", render_table(rank_table(blame), terminal));
  if (!blame.verdict.details.empty()) out += '\n';
  for (const std::string& detail : blame.verdict.details) out += bullet(detail, terminal);
  for (const BlameFinding& finding : blame.findings) {
    if (&finding == &blame.findings.front()) continue;
    out += cat("\n", wrapped(cat("also: ", finding.text), "", terminal));
    for (const std::string& detail : finding.details) out += bullet(detail, terminal);
  }
  if (!blame.lateness.empty()) out += cat("\n", render_table(lateness_table(blame), terminal));
  for (const std::string& advice : blame.advice) out += wrapped(cat("advice: ", advice), "", terminal);
  return out;
}

std::string blame_json(const Blame& blame) {
  OrderedJson findings = OrderedJson::array(), ranks = OrderedJson::array(), lateness = OrderedJson::array();
  for (const BlameFinding& finding : blame.findings) findings.push_back(finding_json(finding));
  for (const BlameRank& rank : blame.ranks) ranks.push_back(rank_json(rank));
  for (const BlameLateness& late : blame.lateness) {
    lateness.push_back({{"rank", late.rank},
                        {"collectives", late.num_collectives},
                        {"median_ms", late.median_ms},
                        {"p90_ms", late.p90_ms},
                        {"last_share", late.last_share}});
  }
  const OrderedJson out = {{"schema", 1},          {"run_id", blame.run_id},
                           {"world", blame.world}, {"verdict", finding_json(blame.verdict)},
                           {"findings", findings}, {"ranks", ranks},
                           {"lateness", lateness}, {"advice", blame.advice}};
  return out.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

}  // namespace weft
