#include <cmath>
#include <nlohmann/json.hpp>

#include "weft/monitor/live/state_json.h"
#include "weft/monitor/terminal.h"

namespace weft {
namespace {

using Json = nlohmann::ordered_json;

// Each getter takes what fits and leaves the default where nothing does.
void take(const Json& object, const char* name, std::string& into) {
  if (const auto found = object.find(name); found != object.end() && found->is_string())
    into = found->get<std::string>();
}
void take(const Json& object, const char* name, bool& into) {
  if (const auto found = object.find(name); found != object.end() && found->is_boolean()) into = found->get<bool>();
}
void take(const Json& object, const char* name, double& into) {
  if (const auto found = object.find(name); found != object.end() && found->is_number()) into = found->get<double>();
}
void take(const Json& object, const char* name, int64_t& into) {
  double value = std::nan("");
  take(object, name, value);
  if (std::abs(value) < 9e15) into = static_cast<int64_t>(value);
}
template <typename T>
void take(const Json& object, const char* name, std::optional<T>& into) {
  if (const auto found = object.find(name); found == object.end() || !found->is_number()) return;
  T value{};
  take(object, name, value);
  into = value;
}

NamedNumbers numbers_of(const Json& object, const char* name) {
  NamedNumbers out;
  const Json* from = &object;
  if (name != nullptr) {
    const auto found = object.find(name);
    if (found == object.end() || !found->is_object()) return out;
    from = &*found;
  }
  for (const auto& [key, value] : from->items()) {
    if (value.is_number()) out.set(key, value.get<double>());
    if (value.is_null()) out.set(key, std::nan(""));
  }
  return out;
}

template <typename Each>
void for_each(const Json& object, const char* name, Each each) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_array()) return;
  for (const auto& entry : *found) each(entry);
}

RankState parse_rank(const Json& object) {
  RankState rank;
  rank.numbers = numbers_of(object, nullptr);
  take(object, "rank", rank.rank);
  take(object, "host", rank.host);
  take(object, "why", rank.why);
  std::string health;
  take(object, "health", health);
  for (const auto known : {RankHealth::kWaiting, RankHealth::kSlow, RankHealth::kSilent})
    if (health == health_name(known)) rank.health = known;
  return rank;
}

SlowNote parse_slow(const Json& object) {
  SlowNote slow;
  take(object, "rank", slow.rank);
  take(object, "phase", slow.phase);
  take(object, "where", slow.where);
  take(object, "percent", slow.percent);
  take(object, "ms", slow.ms);
  take(object, "since_step", slow.since_step);
  return slow;
}

Verdict parse_verdict(const Json& object) {
  Verdict verdict;
  take(object, "id", verdict.id);
  take(object, "label", verdict.label);
  take(object, "share", verdict.share);
  take(object, "target", verdict.target);
  take(object, "wants_more", verdict.wants_more);
  take(object, "note", verdict.note);
  return verdict;
}

void take_lists(const Json& object, LiveState& state) {
  for_each(object, "recent_losses",
           [&](const Json& v) { state.recent_losses.push_back(v.is_number() ? v.get<double>() : std::nan("")); });
  for_each(object, "verdicts", [&](const Json& v) {
    if (v.is_object()) state.verdicts.push_back(parse_verdict(v));
  });
  for_each(object, "ranks", [&](const Json& v) {
    if (v.is_object()) state.ranks.push_back(parse_rank(v));
  });
  for_each(object, "slow", [&](const Json& v) {
    if (v.is_object()) state.slow.push_back(parse_slow(v));
  });
  for_each(object, "notes", [&](const Json& v) {
    if (v.is_string()) state.notes.push_back(v.get<std::string>());
  });
  for_each(object, "log", [&](const Json& v) {
    std::string text;
    if (v.is_object()) take(v, "text", text);
    state.log.push_back(text);
  });
}

}  // namespace

Result<LiveState> parse_state(const std::string& text) {
  const Json object = Json::parse(text, nullptr, false);
  int64_t schema = 0;
  if (object.is_object()) take(object, "schema", schema);
  if (schema != 1 || !object.contains("status"))
    return Error(ErrorKind::kEnvironment, {.title = "the answer is not the state of a run",
                                           .what = printable(text.substr(0, 80), {}),
                                           .where = "",
                                           .fix = "is it a weft that serves there?"});
  LiveState state;
  take(object, "name", state.name);
  take(object, "folder", state.folder);
  take(object, "status", state.status);
  take(object, "stalled", state.stalled);
  take(object, "status_note", state.status_note);
  take(object, "now_unix_s", state.now_unix_s);
  take(object, "progress_unix_s", state.progress_unix_s);
  take(object, "step", state.step);
  take(object, "num_rows", state.num_rows);
  take(object, "num_bad_losses", state.num_bad_losses);
  take(object, "world", state.world);
  take(object, "ranks_step", state.ranks_step);
  take(object, "has_report", state.has_report);
  take(object, "epoch", state.epoch);
  take(object, "version", state.version);
  state.latest = numbers_of(object, "latest");
  state.facts = numbers_of(object, "facts");
  if (const auto words = object.find("words"); words != object.end() && words->is_object()) {
    for (const auto& [name, value] : words->items())
      if (value.is_string()) state.words.emplace_back(name, value.get<std::string>());
  }
  take_lists(object, state);
  return state;
}

}  // namespace weft
