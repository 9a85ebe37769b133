// Plays the part of rank 0 that tells a run to TensorBoard and csv_monitor: steps FIRST to LAST, 8 samples each, with numbers
// that the reader can work out (loss = 100 / step, lr = step / 1024, and in RUN 2 ten times as much).
//
//   sinks_sample FOLDER FIRST LAST RUN [--resumed]
#include <cstdio>
#include <string>
#include <vector>

#include "weft/base/error.h"
#include "weft/monitor/sinks.h"

namespace weft {
namespace {

void play(const std::vector<std::string>& words) {
  const std::string& folder = words.at(0);
  const double scale = words.at(3) == "2" ? 10 : 1;
  config::Resolved config;
  config.tensorboard = {.enabled = true, .output_path = folder + "/tb", .job_name = "job"};
  config.csv_monitor = {.enabled = true, .output_path = folder + "/csv", .job_name = "job"};
  MonitorSinks sinks(Env::posix(), config, {.run_folder = folder, .resumed = words.back() == "--resumed"});
  for (int64_t step = std::stoll(words.at(1)); step <= std::stoll(words.at(2)); ++step) {
    const auto number = static_cast<double>(step);
    sinks.add({.step = step,
               .samples = 8 * number,
               .loss = scale * 100 / number,
               .lr = scale * number / 1024,
               .grad_norm = 1.5,
               .forward_ms = 3});
  }
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) {
  try {
    weft::play({argv + 1, argv + argc});
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
