#include <set>
#include <string>
#include <vector>

#include "weft/base/text.h"
#include "weft/checkpoint/strict_json_impl.h"

namespace weft::checkpoint {

using nlohmann::json;

json parse_strict_json(std::string_view text, const JsonLimits& limits) {
  std::vector<std::set<std::string>> keys;
  size_t values = 0;
  const auto watch = [&](int depth, json::parse_event_t event, json& value) {
    if (depth > limits.depth) throw JsonFault("it is nested deeper than the format allows");
    if (++values > limits.values) throw JsonFault(cat("it has more than ", limits.values, " values"));
    if (event == json::parse_event_t::object_start) keys.emplace_back();
    if (event == json::parse_event_t::object_end) keys.pop_back();
    // Two readers that pick different duplicates would see different weights.
    if (event == json::parse_event_t::key && !keys.back().insert(value.get<std::string>()).second)
      throw JsonFault(cat("the key '", value.get<std::string>(), "' stands twice"));
    return true;
  };
  try {
    return json::parse(text, watch);
  } catch (const json::exception& error) {
    throw JsonFault(cat("it is not JSON: ", error.what()));
  }
}

}  // namespace weft::checkpoint
