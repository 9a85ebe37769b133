// What to try, in order, when training misbehaves; made specific to the config at hand. Pure, any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "weft/doctor/rules/subject.h"

namespace weft::doctor {

enum class Symptom { kOutOfMemory, kCommError, kDiverges, kSlow };

Symptom parse_symptom(std::string_view name);  // "oom", "comm-error", "diverges", "slow"; throws Error(kInput)

struct Step {
  config::Words what;  // "lower train_micro_batch_size_per_gpu from 8 to 4"
  config::Words why;
  std::string path = {};       // the setting it is about; may be empty
  std::string current = {};    // its value now, where there is a config
  std::string suggested = {};  // JSON literal
};

// The steps, most likely to help first. `subject` is null without --config: the general advice.
std::vector<Step> advice_for(Symptom symptom, const Subject* subject);

}  // namespace weft::doctor
