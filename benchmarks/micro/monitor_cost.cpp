// What monitoring costs a training step: blocks of steps with all of it on and blocks with none, in turn, in one run, on the same work.
//
//   weft run -n 2 -- build/release/bin/monitor_cost CONFIG RUN_FOLDER [BLOCKS=60] [STEPS_OF_A_BLOCK=8]
//
// The GPT of benchmarks/e2e. Neighbouring blocks are compared with each other, so that a machine that gets slower or faster by the minute takes
// part in neither. Rank 0 prints JSON: the median of the blocks' ratios, and the middle half of them.
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/ops/randint.h>

#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "examples/gpt/gpt.h"
#include "weft/base/clock.h"
#include "weft/base/error.h"
#include "weft/base/quantile.h"
#include "weft/engine/run_monitor.h"

namespace {

constexpr int64_t kSeq = 64, kRows = 2, kVocab = 8192;
constexpr int kWarmSteps = 10;

class Trial {
 public:
  Trial(const weft::config::Resolved& config, const weft::World& world, const std::string& folder)
      : engine_(weft::engine::tensors_of(model_), config, world),
        on_(engine_, {.folder = folder, .trace = true}),
        off_(engine_, {.folder = folder, .record = false}) {}

  // Milliseconds of a step.
  double block(int num_steps, bool monitored) {
    weft::set_spans_on(monitored);
    const weft::Stopwatch watch;
    for (int i = 0; i < num_steps; ++i) one_step(monitored);
    return watch.elapsed_s() * 1e3 / num_steps;
  }

 private:
  void one_step(bool monitored) {
    at::Tensor loss;
    const at::Tensor tokens = at::randint(kVocab, {kRows, kSeq + 1}, at::kLong);
    {
      const weft::Span span({.name = "forward", .category = weft::SpanCategory::kForward});
      loss = model_.loss(tokens.slice(1, 0, kSeq), tokens.slice(1, 1, kSeq + 1));
    }
    engine_.backward(loss);
    engine_.step();
    (monitored ? on_ : off_).step_done({.loss = loss.item<double>(), .tokens = kRows * kSeq * engine_.world().size});
  }

  examples::Gpt model_{{.vocab = kVocab, .seq = kSeq, .dim = 384, .layers = 6, .heads = 6}};
  weft::Engine engine_;
  weft::RunMonitor on_, off_;
};

double median_of(std::vector<double> values) {
  std::ranges::sort(values);
  return weft::nearest_rank(values, 0.5);
}

void run(const std::string& config, const std::string& folder, int num_blocks, int num_steps) {
  at::set_num_threads(1);
  const weft::World world = weft::init();
  at::manual_seed(1);
  Trial trial(weft::read_engine_config(config, world.size), world, folder);
  trial.block(kWarmSteps, true);
  trial.block(kWarmSteps, false);
  std::vector<double> ratios, on_ms, off_ms;
  for (int i = 0; i < num_blocks; ++i) {
    const bool on_first = i % 2 == 0;
    const double first = trial.block(num_steps, on_first), second = trial.block(num_steps, !on_first);
    on_ms.push_back(on_first ? first : second);
    off_ms.push_back(on_first ? second : first);
    ratios.push_back(on_ms.back() / off_ms.back());
  }
  if (world.rank != 0) return;
  std::ranges::sort(ratios);
  const nlohmann::json out = {{"blocks", num_blocks},
                              {"steps", num_steps},
                              {"on_ms", median_of(on_ms)},
                              {"off_ms", median_of(off_ms)},
                              {"ratio", weft::nearest_rank(ratios, 0.5)},
                              {"ratio_25", weft::nearest_rank(ratios, 0.25)},
                              {"ratio_75", weft::nearest_rank(ratios, 0.75)}};
  std::printf("%s\n", out.dump().c_str());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return std::fprintf(stderr, "usage: %s CONFIG RUN_FOLDER [BLOCKS] [STEPS]\n", *argv), 2;
  try {
    run(argv[1], argv[2], argc > 3 ? std::atoi(argv[3]) : 60, argc > 4 ? std::atoi(argv[4]) : 8);
  } catch (const weft::Error& error) {
    return std::fprintf(stderr, "%s\n", error.what()), error.exit_code();
  }
}
