#include "weft/monitor/flight_dump.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "weft/base/error.h"
#include "weft/base/text.h"

namespace weft {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr std::string_view kPrefix = "flight.rank_", kSuffix = ".json";

// Texts come from users' group names and from other people's errors, and may hold any bytes.
std::string line_of(const OrderedJson& json) {
  return json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

OrderedJson entry_json(const FlightEntry& entry) {
  return {{"group", entry.group},   {"operation", entry.operation}, {"sequence", entry.sequence},
          {"bytes", entry.bytes},   {"dtype", entry.dtype},         {"reduce_op", entry.reduce_op},
          {"peer", entry.peer},     {"transport", entry.transport}, {"start_ns", entry.start_ns},
          {"end_ns", entry.end_ns}, {"state", name_of(entry.state)}};
}

// "flight.rank_3.json" is 3; nothing for other names.
std::optional<int64_t> rank_of_name(std::string_view name) {
  if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) return std::nullopt;
  name.remove_prefix(kPrefix.size());
  name.remove_suffix(kSuffix.size());
  int64_t rank = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), rank);
  const bool is_rank = error == std::errc() && end == name.data() + name.size() && rank >= 0;
  return is_rank ? std::optional(rank) : std::nullopt;
}

[[noreturn]] void refuse_dumps(std::string title, std::string what, std::string where, std::string fix) {
  throw Error(ErrorKind::kInput,
              {.title = std::move(title), .what = std::move(what), .where = std::move(where), .fix = std::move(fix)});
}

void check_one_run(const FlightDump& first, const FlightDump& other, const std::string& folder) {
  const auto compare = [&](std::string_view what, const std::string& a, const std::string& b) {
    if (a == b) return;
    refuse_dumps("the dumps are not of one run",
                 cat("rank ", first.owner.rank, " has the ", what, " ", a, ", rank ", other.owner.rank, " has ", b),
                 folder, "keep the files of one run in the folder and move the others away");
  };
  compare("world", cat(first.owner.world), cat(other.owner.world));
  compare("run id", cat("'", first.owner.run_id, "'"), cat("'", other.owner.run_id, "'"));
}

}  // namespace

std::string flight_dump_path(const std::string& folder, int64_t rank) {
  return cat(folder, "/", kPrefix, rank, kSuffix);
}

std::string_view name_of(FlightState state) {
  switch (state) {
    case FlightState::kQueued: return "queued";
    case FlightState::kStarted: return "started";
    case FlightState::kFinished: return "finished";
    case FlightState::kFailed: return "failed";
  }
  return "";
}

bool is_point_to_point(const FlightEntry& entry) { return entry.operation == "send" || entry.operation == "recv"; }

// One field and one entry per line, so that a dump can be read and searched as it is.
std::string to_json(const FlightDump& dump) {
  const OrderedJson head = {{"schema", 1},           {"rank", dump.owner.rank}, {"world", dump.owner.world},
                            {"host", dump.host},     {"pid", dump.pid},         {"run_id", dump.owner.run_id},
                            {"reason", dump.reason}, {"time", dump.time},       {"recorded", dump.recorded},
                            {"groups", dump.groups}};
  std::string out = "{\n";
  for (const auto& [key, value] : head.items()) out += cat("  \"", key, "\": ", line_of(value), ",\n");
  out += "  \"entries\": [";
  const char* separator = "\n";
  for (const FlightEntry& entry : dump.entries) {
    out += cat(separator, "    ", line_of(entry_json(entry)));
    separator = ",\n";
  }
  return out + (dump.entries.empty() ? "]\n}\n" : "\n  ]\n}\n");
}

void write_flight_dump(Env& env, const std::string& folder, const FlightDump& dump) {
  make_folders_durably(env, folder);
  publish_file(env, flight_dump_path(folder, dump.owner.rank), bytes_of(to_json(dump)));
}

std::vector<FlightDump> read_flight_dumps(Env& env, const std::string& folder) {
  std::map<int64_t, FlightDump> by_rank;
  for (const std::string& name : env.list(folder)) {
    const auto rank = rank_of_name(name);
    if (!rank) continue;
    const std::string path = cat(folder, "/", name);
    FlightDump dump = read_flight_dump(env, path);
    if (dump.owner.rank != *rank) {
      refuse_dumps("a dump is not of the rank its name says", cat("the file says rank ", dump.owner.rank), path,
                   "give it back the name it was written with");
    }
    if (!by_rank.emplace(*rank, std::move(dump)).second) {
      refuse_dumps(cat("two dumps of rank ", *rank), "", path, "keep one of them");
    }
  }
  if (by_rank.empty()) {
    refuse_dumps("no flight recorder dumps there", cat("no file is named ", kPrefix, "N", kSuffix), folder,
                 "give the folder that the failed run named when it wrote them");
  }
  std::vector<FlightDump> out;
  for (auto& [rank, dump] : by_rank) {
    if (!out.empty()) check_one_run(out.front(), dump, folder);
    out.push_back(std::move(dump));
  }
  return out;
}

}  // namespace weft
