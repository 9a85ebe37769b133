#include "weft/monitor/live/state_json.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "weft/base/text.h"
#include "weft/monitor/json_text.h"
#include "weft/monitor/numbers.h"

namespace weft {
namespace {

using Json = nlohmann::ordered_json;

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }
template <typename T>
Json maybe(const std::optional<T>& value) {
  return value ? number(static_cast<double>(*value)) : Json(nullptr);
}

Json object_of(const NamedNumbers& numbers) {
  Json out = Json::object();
  for (const auto& [name, value] : numbers.all()) out[name] = number(value);
  return out;
}

Json rank_json(const RankState& rank) {
  Json out = object_of(rank.numbers);
  out["rank"] = rank.rank;
  out["host"] = rank.host;
  out["health"] = health_name(rank.health);
  if (!rank.why.empty()) out["why"] = rank.why;
  return out;
}

Json slow_json(const SlowNote& slow) {
  return {{"rank", slow.rank},    {"phase", slow.phase},
          {"where", slow.where},  {"percent", maybe(slow.percent)},
          {"ms", maybe(slow.ms)}, {"since_step", slow.since_step ? Json(*slow.since_step) : Json(nullptr)}};
}

Json verdict_json(const Verdict& verdict) {
  return {{"id", verdict.id},
          {"label", verdict.label},
          {"share", maybe(verdict.share)},
          {"target", verdict.target},
          {"wants_more", verdict.wants_more},
          {"judgement", judgement_name(verdict.judgement())},
          {"note", verdict.note}};
}

const char* tone_name(LogTone tone) {
  return tone == LogTone::kError ? "error" : tone == LogTone::kWarning ? "warning" : "plain";
}

template <typename Things, typename Make>
Json array_of(const Things& things, Make make) {
  Json out = Json::array();
  for (const auto& thing : things) out.push_back(make(thing));
  return out;
}

}  // namespace

std::string state_json(const LiveState& state) {
  Json words = Json::object();
  for (const auto& [name, text] : state.words) words[name] = text;
  const Json out = {
      {"schema", 1},
      {"version", state.version},
      {"epoch", state.epoch},
      {"name", state.name},
      {"folder", state.folder},
      {"status", state.status},
      {"stalled", state.stalled},
      {"status_note", state.status_note},
      {"now_unix_s", number(state.now_unix_s)},
      {"progress_unix_s", number(state.progress_unix_s)},
      {"step", state.step ? Json(*state.step) : Json(nullptr)},
      {"num_rows", state.num_rows},
      {"num_bad_losses", state.num_bad_losses},
      {"latest", object_of(state.latest)},
      {"facts", object_of(state.facts)},
      {"words", words},
      {"recent_losses", array_of(state.recent_losses, number)},
      {"verdicts", array_of(state.verdicts, verdict_json)},
      {"world", state.world},
      {"ranks_step", state.ranks_step},
      {"ranks", array_of(state.ranks, rank_json)},
      {"slow", array_of(state.slow, slow_json)},
      {"log",
       array_of(state.log,
                [](const std::string& line) { return Json{{"text", line}, {"tone", tone_name(log_tone(line))}}; })},
      {"notes", state.notes},
      {"has_report", state.has_report},
  };
  // Names and log lines come from users and files: damaged UTF-8 becomes U+FFFD.
  return out.dump(-1, ' ', false, Json::error_handler_t::replace);
}

namespace {

// Six digits are finer than any screen, and halve what is sent.
void append_short(std::string& out, double value) {
  if (std::isfinite(value))
    out += significant_text(value, 6);
  else
    out += "null";
}

template <typename Pick>
void append_array(std::string& out, std::span<const SeriesBin> bins, Pick pick) {
  out += '[';
  for (size_t i = 0; i < bins.size(); ++i) {
    if (i > 0) out += ',';
    pick(bins[i]);
  }
  out += ']';
}

void append_column(std::string& out, std::span<const SeriesBin> bins, size_t column, bool with_edges) {
  const auto values = [&](auto of) {
    append_array(out, bins, [&](const SeriesBin& bin) {
      append_short(out, bin.columns[column].count > 0 ? of(bin.columns[column]) : std::nan(""));
    });
  };
  out += "{\"mean\":";
  values([](const ColumnBin& bin) { return bin.mean(); });
  if (with_edges) {
    out += ",\"min\":";
    values([](const ColumnBin& bin) { return bin.min; });
    out += ",\"max\":";
    values([](const ColumnBin& bin) { return bin.max; });
  }
  out += '}';
}

}  // namespace

std::string series_json(const StepSeries& series, int64_t from_step, int64_t epoch) {
  const auto& all = series.bins();
  const auto first = std::ranges::partition_point(all, [&](const SeriesBin& bin) { return bin.last_step < from_step; });
  const std::span<const SeriesBin> bins(first, all.end());
  std::string out = cat("{\"schema\":1,\"epoch\":", epoch, ",\"stride\":", series.stride(), ",\"step\":");
  append_array(out, bins, [&](const SeriesBin& bin) { detail::append(out, bin.last_step); });
  out += ",\"columns\":{";
  bool any = false;
  for (size_t i = 0; i < kSeriesColumns.size(); ++i) {
    if (!std::ranges::any_of(bins, [i](const SeriesBin& bin) { return bin.columns[i].count > 0; })) continue;
    out += any ? "," : "";
    any = true;
    append_json_string(out, kSeriesColumns[i]);
    out += ':';
    append_column(out, bins, i, series.stride() > 1);
  }
  return out + "}}";
}

}  // namespace weft
