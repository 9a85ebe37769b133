// How a finished run is shown: the closing table, the HTML report, the JSON file. Free functions.
#pragma once

#include <cstdint>
#include <string>

#include "weft/monitor/run_record.h"

namespace weft::cli {

// The page of a run, from what stands in its folder; the only way to make one. Throws Error(kInput) where there is no folder.
std::string report_of(const std::string& run_folder);
double unix_now_s();
void print_closing_table(const RunRecord& record, const std::string& report_path);
// `path` "-" is standard output.
void write_json(const RunRecord& record, const std::string& path);

}  // namespace weft::cli
