// The flags of `weft bench comm`. Plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "weft/config/words.h"
#include "weft/sim/collective_cost.h"

namespace weft::cli {

struct BenchCommOptions {
  bool teach = false;     // compute and draw; else measure
  bool measured = false;  // with teach: send the computed messages between real ranks, and time them

  // Of both.
  int64_t num_ranks = 0;
  std::vector<uint64_t> bytes;  // sizes of the whole; exactly one with teach
  bool json = false;
  std::string svg_path;  // a folder with teach, a file else; "": none

  // Of measuring.
  std::vector<std::string> operations, transports;
  int64_t num_iterations = 0;  // of each size; 0: as many as give a steady median
  int64_t threads = 1;         // of each rank

  // Of both: with teach the links that are computed with, else what the network between the hosts carries; 0: not told.
  sim::Link link = {.bytes_per_s = 0};

  // Of teach.
  config::Language language = config::Language::kEnglish;
};

// `arguments` are those after "comm". Nothing when help was printed. Failure: Error(kInput).
std::optional<BenchCommOptions> parse_bench_comm_options(const std::vector<std::string>& arguments);

}  // namespace weft::cli
