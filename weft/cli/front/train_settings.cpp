#include "weft/cli/front/train_settings.h"

#include <nlohmann/json.hpp>

#include "weft/doctor/rules/diagnosis.h"

namespace weft::cli {
namespace {

using Json = nlohmann::ordered_json;
using config::Language;

Json settings_of(const config::Reading& reading) {
  Json out = Json::array();
  for (const config::Setting& setting : config::settings()) {
    if (!setting.deprecated.empty() && !reading.given(setting.path)) continue;
    out.push_back({{"path", setting.path},
                   {"value", reading.shown(setting.path)},
                   {"from", config::describe_origin(reading, setting.path, Language::kEnglish)}});
  }
  return out;
}

Json advice_of(const config::Reading& reading) {
  Json out = Json::array();
  for (const config::Problem& problem : doctor::diagnose(reading, {}).problems) {
    out.push_back({{"severity", config::severity_name(problem.severity)},
                   {"path", problem.path},
                   {"en", problem.message.in(Language::kEnglish)},
                   {"zh", problem.message.in(Language::kChinese)},
                   {"fix_en", problem.fix.in(Language::kEnglish)},
                   {"fix_zh", problem.fix.in(Language::kChinese)}});
  }
  return out;
}

}  // namespace

std::string settings_json(const config::Reading& reading) {
  const Json out = {{"schema", 1}, {"settings", settings_of(reading)}, {"advice", advice_of(reading)}};
  return out.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace weft::cli
