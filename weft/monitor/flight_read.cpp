#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/base/text.h"
#include "weft/monitor/flight_dump.h"

namespace weft {
namespace {

using Json = nlohmann::json;

constexpr uint64_t kMaxFileBytes = 64 << 20;
constexpr size_t kMaxEntries = 100'000, kMaxShown = 60;
constexpr uint64_t kMaxInt = std::numeric_limits<int64_t>::max();

[[noreturn]] void refuse_dump(std::string title, std::string what, std::string where) {
  throw Error(ErrorKind::kInput, {.title = std::move(title),
                                  .what = std::move(what),
                                  .where = std::move(where),
                                  .fix = "dump the run again, or move this file away: weft blame works with the rest"});
}

// A value of the file with its place in it, "entries[12].bytes".
class DumpField {
 public:
  DumpField(const Json& value, std::string file, std::string place)
      : value_(value), file_(std::move(file)), place_(std::move(place)) {}

  DumpField operator[](const char* key) const {
    if (!value_.is_object()) wrong("an object");
    const auto found = value_.find(key);
    const std::string inner = cat(place_, place_.empty() ? "" : ".", key);
    if (found == value_.end()) refuse_dump("not a flight recorder dump", cat("there is no ", inner), file_);
    return {*found, file_, inner};
  }

  std::string text() const {
    if (!value_.is_string()) wrong("a string");
    return value_.get<std::string>();
  }

  uint64_t count(uint64_t low, uint64_t high) const {
    const bool is_whole = value_.is_number_unsigned();
    if (!is_whole || value_.get<uint64_t>() < low || value_.get<uint64_t>() > high)
      wrong(cat("a whole number from ", low, " to ", high));
    return value_.get<uint64_t>();
  }

  int64_t number(int64_t low, int64_t high) const {
    if (low < 0 && value_.is_number_integer() && !value_.is_number_unsigned()) {
      if (value_.get<int64_t>() < low) wrong(cat("a whole number from ", low, " to ", high));
      return value_.get<int64_t>();
    }
    return static_cast<int64_t>(count(0, static_cast<uint64_t>(high)));
  }

  template <typename Body>
  void each_of_list(size_t limit, Body body) const {
    if (!value_.is_array() || value_.size() > limit) wrong(cat("a list of at most ", limit));
    for (size_t i = 0; i < value_.size(); ++i) body(DumpField(value_[i], file_, cat(place_, "[", i, "]")));
  }

  template <typename Body>
  void each_of_object(size_t limit, Body body) const {
    if (!value_.is_object() || value_.size() > limit) wrong(cat("an object of at most ", limit));
    for (const auto& [key, inner] : value_.items()) body(key, DumpField(inner, file_, cat(place_, ".", key)));
  }

  [[noreturn]] void wrong(const std::string& expected) const {
    // Never printed whole: printing recurses, and a hostile file nests as deep as it is long.
    std::string found = value_.is_structured() ? cat("an ", value_.type_name())
                                               : value_.dump(-1, ' ', true, Json::error_handler_t::replace);
    if (found.size() > kMaxShown) found = cat(found.substr(0, kMaxShown), "...");
    refuse_dump("not a flight recorder dump",
                cat(place_.empty() ? "the file" : place_, " is ", found, ", not ", expected), file_);
  }

 private:
  const Json& value_;
  std::string file_, place_;
};

FlightState state_of(const DumpField& field) {
  const std::string text = field.text();
  for (const FlightState state :
       {FlightState::kQueued, FlightState::kStarted, FlightState::kFinished, FlightState::kFailed}) {
    if (text == name_of(state)) return state;
  }
  field.wrong("one of queued, started, finished, failed");
}

FlightEntry entry_of(const DumpField& field) {
  constexpr auto kMaxNs = static_cast<int64_t>(kMaxInt);
  return {.group = field["group"].text(),
          .operation = field["operation"].text(),
          .sequence = field["sequence"].count(1, kMaxInt),
          .bytes = field["bytes"].count(0, kMaxInt),
          .dtype = field["dtype"].text(),
          .reduce_op = field["reduce_op"].text(),
          .peer = field["peer"].number(-1, kMaxFlightWorld),
          .transport = field["transport"].text(),
          .start_ns = field["start_ns"].number(0, kMaxNs),
          .end_ns = field["end_ns"].number(0, kMaxNs),
          .state = state_of(field["state"])};
}

std::map<std::string, std::vector<int64_t>> groups_of(const DumpField& field, int64_t world) {
  std::map<std::string, std::vector<int64_t>> out;
  field.each_of_object(kMaxEntries, [&](const std::string& name, const DumpField& ranks) {
    auto& members = out[name];
    ranks.each_of_list(static_cast<size_t>(world),
                       [&](const DumpField& rank) { members.push_back(rank.number(0, world - 1)); });
    std::ranges::sort(members);
  });
  return out;
}

// "line 3, column 14" of a byte in the text.
std::string place_of(std::string_view text, size_t byte) {
  const std::string_view before = text.substr(0, std::min(byte == 0 ? 0 : byte - 1, text.size()));
  const auto line = std::ranges::count(before, '\n') + 1;
  const size_t start = before.rfind('\n');
  return cat("line ", line, ", column ", before.size() - (start == std::string_view::npos ? 0 : start + 1) + 1);
}

Json parse(const std::string& text, const std::string& path) {
  try {
    return Json::parse(text);
  } catch (const Json::parse_error& error) {
    const bool is_short = error.byte > text.size();
    refuse_dump(is_short ? "the dump ends too early" : "the dump is not JSON", place_of(text, error.byte), path);
  } catch (const Json::exception& error) {
    refuse_dump("the dump is not JSON", error.what(), path);
  }
}

}  // namespace

FlightDump read_flight_dump(Env& env, const std::string& path) {
  const std::string text = read_file(env, path, kMaxFileBytes);
  const Json json = parse(text, path);
  const DumpField root(json, path, "");
  // First, so that a newer schema is named as such and not by the field it lacks.
  root["schema"].count(1, 1);
  FlightDump out;
  out.owner.world = root["world"].number(0, kMaxFlightWorld);
  if (out.owner.world < 1) root["world"].wrong("at least 1");
  out.owner.rank = root["rank"].number(0, out.owner.world - 1);
  out.owner.run_id = root["run_id"].text();
  out.host = root["host"].text();
  out.pid = root["pid"].number(0, std::numeric_limits<int32_t>::max());
  out.reason = root["reason"].text();
  out.time = root["time"].text();
  out.recorded = root["recorded"].count(0, kMaxInt);
  out.groups = groups_of(root["groups"], out.owner.world);
  root["entries"].each_of_list(kMaxEntries, [&](const DumpField& field) { out.entries.push_back(entry_of(field)); });
  return out;
}

}  // namespace weft
