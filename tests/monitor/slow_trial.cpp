// A rank of slow_trials.py: trains, is slowed down on purpose (a random rank, part of the step, 5 to 50 % of it; or the link of all), and
// prints what the monitor makes of it, a line of JSON for each, and another when it was left alone for a while. A witness of its own says
// how fast the processors of the ranks were meanwhile.
//
//   weft run -n 3 -- slow_trial NUM_SLOWDOWNS SEED RUN_FOLDER          0 slowdowns: 1,000 quiet steps, all alarms are printed
#include <ATen/Parallel.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <torch/optim/sgd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <deque>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "weft/base/error.h"
#include "weft/comm/wrapped_group.h"
#include "weft/engine/run_monitor.h"
#include "weft/engine/torch_optimizer.h"

namespace weft {
namespace {

constexpr int kLayers = 8, kSize = 512, kRows = 512, kWitness = 192;
constexpr const char* kPhases[] = {"data", "forward", "backward", "optimizer", "link"};
constexpr int kLink = 4;

struct Slowdown {
  int rank = -1;
  int phase = 0;
  int layer = 0;  // of backward
  double percent = 0;
};

double delay_ms = 0;  // of this rank in this step
int delayed_phase = -1, delayed_layer = 0;

void delay(int phase) {
  if (delayed_phase == phase) std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(delay_ms));
}

class SlowSgd final : public UserOptimizer {
 public:
  explicit SlowSgd(std::unique_ptr<UserOptimizer> real) : real_(std::move(real)) {}
  void step() override {
    delay(3);
    real_->step();
  }
  double lr(size_t group) const override { return real_->lr(group); }
  void set_lr(size_t group, double lr) override { real_->set_lr(group, lr); }
  std::optional<std::string> save() const override { return real_->save(); }
  void load(const std::string& saved) override { real_->load(saved); }

 private:
  std::unique_ptr<UserOptimizer> real_;
};

OptimizerFactory slow_sgd() {
  return [make = torch_optimizer<torch::optim::SGD>(torch::optim::SGDOptions(1e-3))](const auto& groups) {
    return std::make_unique<SlowSgd>(make(groups));
  };
}

// Reductions end later than they do, for everybody.
class LateWork final : public comm::WorkState {
 public:
  LateWork(comm::Work work, double late_ms) : work_(std::move(work)), late_ns_(static_cast<int64_t>(late_ms * 1e6)) {}
  bool done() override { return work_.done() && now_ns() >= work_.finished_ns() + late_ns_; }
  void wait(Deadline deadline) override {
    work_.wait(deadline);
    std::this_thread::sleep_for(std::chrono::nanoseconds(work_.finished_ns() + late_ns_ - now_ns()));
  }
  int64_t finished_ns() override { return done() ? work_.finished_ns() + late_ns_ : 0; }

 private:
  const comm::Work work_;
  const int64_t late_ns_;
};

class SlowLink final : public comm::WrappedGroup {
 public:
  explicit SlowLink(std::shared_ptr<comm::Group> inner) : WrappedGroup(std::move(inner)) {}

 private:
  std::shared_ptr<comm::Group> wrap(std::shared_ptr<comm::Group> part, const std::vector<int>&) override {
    return std::make_shared<SlowLink>(std::move(part));
  }
  comm::Work launch(const comm::Collective& call, comm::Launch how) override {
    const comm::Work work = pass_on(call, how);
    const bool is_late =
        delayed_phase == kLink && how == comm::Launch::kAsync && call.operation == comm::Operation::kReduceScatter;
    return is_late ? comm::Work(std::make_shared<LateWork>(work, delay_ms)) : work;
  }
};

World with_slow_link(World world) {
  world.group = std::make_shared<SlowLink>(world.group);
  return world;
}

struct Net {
  std::vector<at::Tensor> weights;
  Net() {
    for (int i = 0; i < kLayers; ++i) weights.push_back((at::rand({kSize, kSize}) / kSize).requires_grad_());
  }
  engine::ModelTensors tensors() const {
    engine::ModelTensors out;
    for (int i = 0; i < kLayers; ++i)
      out.parameters.emplace_back("layer" + std::to_string(i) + ".weight", weights[static_cast<size_t>(i)]);
    return out;
  }
  at::Tensor loss(at::Tensor x) const {
    for (int i = 0; i < kLayers; ++i) {
      x = at::linear(x, weights[static_cast<size_t>(i)]).tanh();
      // Called in backward before the gradient of layer i's weight is made.
      x.register_hook([i](const at::Tensor& /*gradient*/) {
        if (i == delayed_layer) delay(2);
      });
    }
    return x.pow(2).mean();
  }
};

class Trial {
 public:
  Trial(const World& world, const std::string& folder)
      : engine_(net_.tensors(), read(world), world, {.optimizer = slow_sgd()}), monitor_(engine_, {.folder = folder}) {}

  // Whoever of all ranks is slow after so many steps.
  void steps(int count, const Slowdown& slow) {
    const bool is_me = slow.phase == kLink || slow.rank == engine_.world().rank;
    delayed_phase = is_me ? slow.phase : -1;
    delayed_layer = slow.layer;
    delay_ms = slow.percent / 100 * step_ms_;
    for (int i = 0; i < count; ++i) one_step();
  }
  void warm_up() {
    steps(40, {});
    at::Tensor ms = at::rand({1});
    ms[0] = monitor_.summary()->step_ms.median;
    engine_.world().group->broadcast(ms, 0);
    step_ms_ = ms.item<double>();
  }
  std::vector<SlowRank> found() const { return monitor_.slow_ranks(); }
  // By rank: how long a piece of work took that has nothing to do with the training or its monitor, over the last steps. A collective.
  std::vector<double> witness_ms() {
    at::Tensor mine = at::zeros({1}, at::kDouble), all = at::zeros({engine_.world().size}, at::kDouble);
    std::vector<double> sorted(witness_ms_.begin(), witness_ms_.end());
    std::ranges::sort(sorted);
    mine[0] = sorted.empty() ? 0 : sorted[sorted.size() / 2];
    engine_.world().group->all_gather(mine, all);
    return {all.const_data_ptr<double>(), all.const_data_ptr<double>() + all.numel()};
  }
  const World& world() const { return engine_.world(); }
  double step_ms() const { return step_ms_; }

 private:
  static config::Resolved read(const World& world) {
    const char* text = R"({"train_micro_batch_size_per_gpu": 1, "zero_allow_untested_optimizer": true,
                           "zero_optimization": {"stage": 1, "overlap_comm": true, "reduce_bucket_size": 270000}})";
    const auto path = std::string("/tmp/slow_trial_") + std::to_string(::getpid()) + ".json";
    write_file(Env::posix(), path, bytes_of(text));
    auto out = read_engine_config(path, world.size);
    Env::posix().remove_file(path);
    return out;
  }

  // Neighbours of this machine make one core slower than another for a while, which is then found, and true.
  void ask_witness() {
    const c10::NoGradGuard no_grad;
    const Stopwatch watch;
    witness_ = at::linear(witness_, witness_weights_).tanh();
    witness_ms_.push_back(watch.elapsed_s() * 1e3);
    if (witness_ms_.size() > SlowRanks::kLongWindow) witness_ms_.pop_front();
  }

  void one_step() {
    ask_witness();
    at::Tensor x;
    {
      const Span span({.name = "batch", .category = SpanCategory::kData});
      delay(0);
      x = at::rand({kRows, kSize});
    }
    at::Tensor loss;
    {
      const Span span({.name = "forward", .category = SpanCategory::kForward});
      delay(1);
      loss = net_.loss(x);
    }
    engine_.backward(loss);
    engine_.step();
    monitor_.step_done({.loss = loss.item<double>()});
  }

  Net net_;
  Engine engine_;
  RunMonitor monitor_;
  double step_ms_ = 0;
  at::Tensor witness_ = at::rand({kWitness, kWitness}), witness_weights_ = at::rand({kWitness, kWitness}) / kWitness;
  std::deque<double> witness_ms_;
};

void print(const Slowdown& slow, Trial& trial) {
  const std::vector<double> witness_ms = trial.witness_ms();
  if (trial.world().rank != 0) return;
  nlohmann::json found = nlohmann::json::array();
  for (const SlowRank& one : trial.found())
    found.push_back({{"rank", one.rank}, {"phase", one.phase}, {"where", one.where}, {"percent", one.percent}});
  const nlohmann::json line = {{"rank", slow.rank},
                               {"phase", slow.percent == 0 ? "" : kPhases[slow.phase]},
                               {"where", slow.phase == 2 ? "layer" + std::to_string(slow.layer) : ""},
                               {"percent", slow.percent},
                               {"step_ms", trial.step_ms()},
                               {"witness_ms", witness_ms},
                               {"found", found}};
  std::printf("%s\n", line.dump().c_str());
  std::fflush(stdout);
}

void run(int num_slowdowns, uint32_t seed, const std::string& folder) {
  constexpr int kQuiet = 64, kSlow = 48;
  at::set_num_threads(1);
  const World world = with_slow_link(init());
  at::manual_seed(static_cast<uint64_t>(seed));
  Trial trial(world, folder);
  trial.warm_up();
  std::mt19937 random(seed);
  const auto draw = [&](int count) { return static_cast<int>(random() % static_cast<uint32_t>(count)); };
  for (int i = 0; i < num_slowdowns; ++i) {
    Slowdown slow{.rank = draw(world.size),
                  .phase = draw(kLink + 1),
                  .layer = draw(kLayers),
                  .percent = 5 + 45.0 * draw(1000) / 1000};
    if (slow.phase == kLink) slow.rank = -1;  // nobody's
    trial.steps(kSlow, slow);
    print(slow, trial);
    trial.steps(kQuiet, {});
    print({}, trial);
  }
  for (int i = 0; num_slowdowns == 0 && i < 125; ++i) {
    trial.steps(8, {});
    print({}, trial);
  }
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) {
  if (argc != 4) return std::fprintf(stderr, "usage: %s NUM_SLOWDOWNS SEED RUN_FOLDER\n", *argv), 2;
  try {
    weft::run(std::stoi(argv[1]), static_cast<uint32_t>(std::stoul(argv[2])), argv[3]);
  } catch (const weft::Error& error) {
    return std::fprintf(stderr, "%s\n", error.what()), error.exit_code();
  } catch (const std::exception& error) {
    return std::fprintf(stderr, "%s\n", error.what()), 2;
  }
}
