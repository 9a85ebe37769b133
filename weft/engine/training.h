// One model in training: the parts behind Engine, and the order in which they do a step.
//
// The first step teaches in which order gradients come, and how often each; rank 0's order then becomes that of the buckets,
// before optimizer state exists. Where buckets are tuned, the second step sends nothing before its backward has ended; from
// its times the buckets are cut anew, and the optimizer's state moves along. Ownership, threads, failure: as Engine.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "weft/engine/bucket_tuning.h"
#include "weft/engine/engine.h"
#include "weft/engine/gradient_hooks.h"
#include "weft/engine/gradient_norm.h"
#include "weft/engine/reducer.h"
#include "weft/memory/flat_buckets.h"
#include "weft/optim/optimizer.h"

namespace weft::engine {

class Training {
 public:
  Training(ModelTensors model, config::Resolved config, World world, std::function<ModelTensors()> look_again);
  ~Training();

  void backward(const at::Tensor& loss);
  StepInfo step();
  bool at_boundary() const;
  void zero_grad();
  void hold_back(int change) { num_no_sync_ += change; }

  const World& world() const { return world_; }
  const config::Resolved& config() const { return config_; }
  const plan::Plan& plan() const { return *plan_; }
  double grad_norm() const { return grad_norm_.value(); }
  double lr() const;
  void set_lr(double lr);
  int64_t global_steps() const { return global_steps_; }
  int64_t skipped_steps() const;
  int64_t micro_steps() const { return micro_steps_; }
  EngineTotals totals() const;
  std::optional<EngineTuning> tuning() const;
  EngineStateBytes state_bytes() const;
  NamedTensors optimizer_state();
  void set_optimizer_state(const NamedTensors& state);

 private:
  // Gradients and optimizer state that are there already move along.
  void lay_out(plan::LayoutOptions layout);
  void make_optimizer();
  // Whether ranks own slices of the optimizer's state.
  bool is_sharded() const { return plan::effective_stage(*plan_, plan_->options.stage) >= 1; }
  comm::Group* sharers() const { return is_sharded() ? world_.group.get() : nullptr; }
  at::Tensor own_part(const at::Tensor& bucket) const;
  std::vector<at::Tensor> own_gradients() const;
  void gather_parameters();
  void run_backward(const at::Tensor& loss);
  void learn_order();
  void tune_buckets();
  // A backward whose gradients wait for what is decided after it.
  bool is_learning() const { return !learnt_ || wants_tuning_; }
  void check_alive() const;
  void check_loss(const at::Tensor& loss) const;
  // Parameters are still the ones we laid out, and still want gradients.
  void check_parameters();
  void check_still_the_model();
  StepInfo update();
  void update_clipped();
  void update_as_they_come();
  void follow_schedule();
  void apply(const GradientNorm& norm);
  void skip();
  std::vector<at::Tensor> parameter_tensors() const;
  bool needs_norm() const;
  [[noreturn]] void die(std::string why);

  const World world_;
  const config::Resolved config_;
  const ModelTensors model_;
  const std::function<ModelTensors()> look_again_;
  const at::Device device_;
  std::optional<plan::Plan> plan_;
  std::unique_ptr<memory::FlatBuckets> buckets_;
  std::vector<std::shared_ptr<comm::Group>> lanes_;
  std::unique_ptr<Reducer> reducer_;
  std::unique_ptr<GradientHooks> hooks_;
  std::optional<optim::Optimizer> optimizer_;
  optim::Schedule schedule_;

  bool learnt_ = false;        // the order of gradients
  bool wants_tuning_ = false;  // and it has not been done
  std::optional<TunedBuckets> tuned_;
  double exposed_when_tuned_s_ = 0;
  int64_t steps_when_tuned_ = 0;
  bool has_gradients_ = false;  // backward() since the last step()
  int num_no_sync_ = 0;
  int64_t global_steps_ = 0, skipped_steps_ = 0, micro_steps_ = 0;
  int64_t in_step_ = 0;  // micro-steps of the step under way
  int skipped_in_a_row_ = 0;
  GradientNorm grad_norm_;
  ReduceTotals more_;  // of reducers that were replaced, and of gathers
  int64_t step_began_ns_ = 0;
  std::string dead_;  // why; "": alive
};

}  // namespace weft::engine
