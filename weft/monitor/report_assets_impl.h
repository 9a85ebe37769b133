// The style sheet and the script of the run report, kept apart from the code that fills the page.
#pragma once

#include <string_view>

namespace weft::detail {

extern const std::string_view kReportStyle;
extern const std::string_view kReportScript;

}  // namespace weft::detail
