// How a finished run is shown: the closing table, the HTML report, the JSON file. Free functions over a RunRecord.
#pragma once

#include <cstdint>
#include <string>

#include "weft/cli/front/train_options.h"
#include "weft/monitor/run_record.h"

namespace weft::cli {

std::string report_of(const RunRecord& record, const TrainOptions& options);
void print_closing_table(const RunRecord& record, const std::string& report_path);
// `path` "-" is standard output.
void write_json(const RunRecord& record, const std::string& path);

int64_t peak_rss_bytes();

}  // namespace weft::cli
