// The words of `weft bench comm --teach` in two languages, and its numbers. Free functions, any thread, no failure.
#pragma once

#include <cstdint>
#include <string>

#include "weft/config/words.h"
#include "weft/sim/collective_cost.h"

namespace weft::cli {

struct TeachWords {
  config::Words title, about;
};

const TeachWords& words_of(sim::Algorithm algorithm);

// Headings and labels.
struct TeachLabels {
  config::Words start, step, comparison, steps, busiest, one_rank, key;
};
const TeachLabels& teach_labels();

// "35 s", "8.75 s", "437.5 ms", "50 us".
std::string time_text(double seconds);
// "5.0 MB": powers of 1000, as rates are.
std::string size_text(uint64_t bytes);
// "a" to "z", then "27", ...: the parts that the data is cut into.
std::string part_name(int part);
// "8 ranks, 5.0 MB, 1.0 MB/s, latency 0 s".
std::string problem_text(const sim::Schedule& schedule, config::Language language);
// "15 s in 3 steps".
std::string result_text(const sim::Schedule& schedule, config::Language language);
// How much longer the slow one takes, in a sentence; "" where one of them takes no time.
std::string comparison_text(const sim::Schedule& slow, const sim::Schedule& fast, config::Language language);

}  // namespace weft::cli
