#include "weft/doctor/rules/rule.h"

namespace weft::doctor {

std::vector<std::span<const Rule>> families() {
  return {conflict_rules(),    file_rules(),   batch_rules(),       precision_rules(),
          performance_rules(), bucket_rules(), memory_rules(),      zero3_rules(),
          schedule_rules(),    inert_rules(),  reliability_rules(), environment_rules()};
}

std::vector<config::RuleInfo> all_rules() {
  const auto reading = config::reading_rules();
  std::vector<config::RuleInfo> infos(reading.begin(), reading.end());
  for (const auto& family : families()) {
    for (const Rule& rule : family) infos.push_back(rule.info);
  }
  return infos;
}

}  // namespace weft::doctor
