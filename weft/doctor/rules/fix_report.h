// What `weft check --fix` did, for a person or a program. Pure functions, any thread.
#pragma once

#include <string>

#include "weft/doctor/rules/fixer.h"
#include "weft/monitor/terminal.h"

namespace weft::doctor {

struct Fixed {
  const FixResult& result;
  std::string from;  // the file that was read
  std::string to;    // the file that was written; what is left is shown in it
  config::Version version = config::kNewestDeepSpeed;
};

std::string fix_text(const Fixed& fixed, config::Language language, const Terminal& terminal);
// {"schema": 1, "file", "out", "verdict", "fixed": [{rule, path, message}], "left": [problems as json_report() has them]}.
std::string fix_json(const Fixed& fixed, config::Language language);

}  // namespace weft::doctor
