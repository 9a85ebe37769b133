// The style sheets and the scripts of the reports, kept apart from the code that fills the page.
#pragma once

#include <string_view>

namespace weft::detail {

extern const std::string_view kReportStyle;       // the page, its text and charts
extern const std::string_view kReportPartsStyle;  // verdict, bars, tables, timeline
extern const std::string_view kReportScript;      // read-out, language, tables
extern const std::string_view kTimelineScript;

}  // namespace weft::detail
