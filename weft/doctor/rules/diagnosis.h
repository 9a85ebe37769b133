// Runs every rule over a config. Pure: no I/O, any thread.
#pragma once

#include "weft/doctor/rules/rule.h"

namespace weft::doctor {

struct Diagnosis {
  std::vector<config::Problem> problems;  // the reader's and the rules', errors first, then by place
  std::vector<Good> good;                 // by place; none that a problem contradicts

  int count(config::Severity severity) const;
};

Diagnosis diagnose(const config::Reading& reading, const Machine& machine);

}  // namespace weft::doctor
