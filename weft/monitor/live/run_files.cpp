#include <algorithm>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <tuple>

#include "weft/base/clock.h"
#include "weft/base/text.h"
#include "weft/monitor/live/run_files_impl.h"

namespace weft::detail {
namespace {

using nlohmann::json;

// Not an exception: half a file is an ordinary thing to find.
json parse(const std::string& text) { return json::parse(text, nullptr, false); }

std::optional<double> number_of(const json& value) {
  if (value.is_number()) return value.get<double>();
  if (value.is_null()) return std::nan("");
  return std::nullopt;
}

std::optional<int64_t> whole_of(const json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_number()) return std::nullopt;
  const double value = found->get<double>();
  if (!(std::abs(value) < 9e15)) return std::nullopt;
  return static_cast<int64_t>(value);
}

std::string text_of(const json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

NamedNumbers numbers_of(const json& object) {
  NamedNumbers out;
  for (const auto& [name, value] : object.items()) {
    if (const auto number = number_of(value)) out.set(name, *number);
  }
  return out;
}

std::string wrong_schema(const char* file, const json& object) {
  const auto schema = whole_of(object, "schema");
  if (!schema || *schema == 1) return "";
  return cat(file, ": its schema is ", *schema, ", this weft knows 1; what has kept its name is shown");
}

RankState rank_of(const json& object) {
  RankState rank{.rank = whole_of(object, "rank").value_or(-1), .host = text_of(object, "host"), .why = ""};
  rank.numbers = numbers_of(object);
  return rank;
}

SlowNote slow_of(const json& object) {
  SlowNote slow{.rank = whole_of(object, "rank").value_or(-1),
                .phase = text_of(object, "phase"),
                .where = text_of(object, "where")};
  const NamedNumbers numbers = numbers_of(object);
  slow.percent = numbers.get("percent");
  slow.ms = numbers.get("ms");
  slow.since_step = whole_of(object, "since_step");
  return slow;
}

template <typename Made, typename Make>
std::vector<Made> list_of(const json& object, const char* name, Make make) {
  std::vector<Made> out;
  const auto found = object.find(name);
  if (found == object.end() || !found->is_array()) return out;
  for (const auto& entry : *found) {
    if (!entry.is_object()) continue;
    out.push_back(make(entry));
  }
  return out;
}

}  // namespace

std::optional<MetricsRow> parse_row(const std::string& line) {
  const json object = parse(line);
  if (!object.is_object()) return std::nullopt;
  const auto step = whole_of(object, "step");
  if (!step || *step < 0) return std::nullopt;
  return MetricsRow{.step = *step, .numbers = numbers_of(object)};
}

std::string take_result(const std::string& text, LiveState& state) {
  const json object = parse(text);
  if (!object.is_object()) {
    if (state.status == "waiting") state.status = "unknown";
    return text.empty() ? "" : "result.json: not a JSON object";
  }
  const std::string status = text_of(object, "status");
  state.status = status.empty() ? "unknown" : status;
  state.facts = numbers_of(object);
  state.words.clear();
  for (const char* name : {"device", "data"}) {
    if (const std::string word = text_of(object, name); !word.empty()) state.words.emplace_back(name, word);
  }
  if (const std::string name = text_of(object, "name"); !name.empty()) state.name = name;
  if (state.ranks.empty()) state.world = whole_of(object, "world").value_or(state.world);
  return wrong_schema("result.json", object);
}

std::string take_ranks(const std::string& text, LiveState& state) {
  const json object = parse(text);
  if (!object.is_object()) {
    if (text.empty()) {
      state.ranks.clear();
      state.slow.clear();
    }
    return text.empty() ? "" : "ranks.json: not a JSON object";
  }
  state.ranks = list_of<RankState>(object, "ranks", rank_of);
  std::erase_if(state.ranks, [](const RankState& rank) { return rank.rank < 0; });
  std::ranges::stable_sort(state.ranks, {}, &RankState::rank);
  // Whoever counts ranks, or keys by them, relies on each being there once.
  const auto twice = std::ranges::unique(state.ranks, {}, &RankState::rank);
  state.ranks.erase(twice.begin(), twice.end());
  const auto key = [](const SlowNote& slow) { return std::tie(slow.rank, slow.phase, slow.where); };
  state.slow = list_of<SlowNote>(object, "slow", slow_of);
  std::ranges::stable_sort(state.slow, {}, key);
  const auto said_twice = std::ranges::unique(state.slow, {}, key);
  state.slow.erase(said_twice.begin(), said_twice.end());
  state.world = whole_of(object, "world").value_or(static_cast<int64_t>(state.ranks.size()));
  state.ranks_step = whole_of(object, "step").value_or(0);
  return wrong_schema("ranks.json", object);
}

std::string clock_text(double unix_s) {
  const auto since =
      std::chrono::duration_cast<std::chrono::system_clock::duration>(std::chrono::duration<double>(unix_s));
  return iso_stamp(std::chrono::system_clock::time_point(since));
}

bool differs(const LiveState& before, const LiveState& after) {
  const auto same_number = [](const std::optional<double>& a, const std::optional<double>& b) {
    return a == b || (a && b && std::isnan(*a) && std::isnan(*b));
  };
  const auto same = [&](const NamedNumbers& a, const NamedNumbers& b) {
    return std::ranges::equal(a.all(), b.all(), [&](const auto& x, const auto& y) {
      return x.first == y.first && same_number(x.second, y.second);
    });
  };
  const auto same_rank = [&](const RankState& a, const RankState& b) {
    return a.rank == b.rank && a.health == b.health && a.host == b.host && a.why == b.why && same(a.numbers, b.numbers);
  };
  const auto same_slow = [&](const SlowNote& a, const SlowNote& b) {
    return a.rank == b.rank && a.phase == b.phase && a.where == b.where && a.since_step == b.since_step &&
           same_number(a.percent, b.percent) && same_number(a.ms, b.ms);
  };
  return before.status != after.status || before.stalled != after.stalled || before.num_rows != after.num_rows ||
         before.status_note != after.status_note || before.words != after.words || before.epoch != after.epoch ||
         before.name != after.name || before.has_report != after.has_report || before.log != after.log ||
         before.notes != after.notes || before.step != after.step ||
         !std::ranges::equal(before.slow, after.slow, same_slow) || !same(before.latest, after.latest) ||
         !same(before.facts, after.facts) || !std::ranges::equal(before.ranks, after.ranks, same_rank);
}

}  // namespace weft::detail
