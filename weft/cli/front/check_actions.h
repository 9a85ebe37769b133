// What `weft check` does besides reporting on files. Each prints to standard output, returns the exit code and throws Error;
// ReadError where the one file it is about cannot be read.
#pragma once

#include <vector>

#include "weft/cli/front/check_options.h"

namespace weft::cli {

int fix_file(const CheckOptions& o);
int explain_setting(const CheckOptions& o);
int list_rules(const CheckOptions& o);
int print_preset(const CheckOptions& o);
int print_symptom(const CheckOptions& o);

// Whether any of the problems is at or above what --fail-on names.
bool fails(const std::vector<config::Problem>& problems, FailOn fail_on);

}  // namespace weft::cli
