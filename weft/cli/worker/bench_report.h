// What `weft bench comm` found: as a table, as JSON, as a picture.
#pragma once

#include <string>
#include <vector>

#include "weft/cli/front/bench_options.h"
#include "weft/cli/worker/bench_measure.h"

namespace weft::cli {

struct BenchReport {
  int world = 1;
  double memory_rate = 0;  // bytes a second, all ranks together
  double link_rate = 0;    // bytes a second; 0: not given
  std::vector<BenchRow> rows = {};
};

// Prints to standard output, and writes the picture where one is asked for. Failure: IoError.
void show(const BenchReport& report, const BenchCommOptions& options);

std::string bench_json(const BenchReport& report);
std::string bench_table(const BenchReport& report);
std::string bench_svg(const BenchReport& report);

}  // namespace weft::cli
