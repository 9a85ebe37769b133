#include "weft/launcher/run_result.h"

#include <nlohmann/json.hpp>

namespace weft::launcher {
namespace {

using OrderedJson = nlohmann::ordered_json;

// Neither code nor signal: its host was lost, and nobody knows.
OrderedJson json_of(const RankEnd& end) {
  OrderedJson code, signal;
  if (end.status && end.status->signal == 0) code = end.status->code;
  if (end.status && end.status->signal != 0) signal = end.status->signal;
  OrderedJson out{{"rank", end.rank}, {"pid", end.pid}, {"exit", code}, {"signal", signal}, {"seconds", end.seconds}};
  if (!end.host.empty()) out["host"] = end.host;
  return out;
}

}  // namespace

std::string to_json(const RunResult& result) {
  OrderedJson out{{"schema", 1}, {"world", result.world}, {"attempts", OrderedJson::array()}};
  for (const auto& attempt : result.attempts) {
    OrderedJson ranks = OrderedJson::array(), first;
    for (const auto& end : attempt.ranks) ranks.push_back(json_of(end));
    if (attempt.first_failure) first = *attempt.first_failure;
    out["attempts"].push_back({{"ranks", ranks}, {"first_failure", first}});
  }
  out["exit"] = result.exit_code;
  return out.dump(2) + "\n";
}

}  // namespace weft::launcher
