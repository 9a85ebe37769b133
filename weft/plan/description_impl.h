// The text of a description, part by part. For agreement.cpp, which hashes the parts, and description.cpp.
#pragma once

#include <string>
#include <string_view>

#include "weft/plan/agreement.h"

namespace weft::plan {

// Lines, each with its line end; joined between the first and the last line they are the text.
struct DescriptionParts {
  std::string settings, parameters, ready_order, buckets;
};
DescriptionParts parts_of(const Description& description);

bool is_setting_name(std::string_view name);

}  // namespace weft::plan
