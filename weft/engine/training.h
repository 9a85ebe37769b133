// One model in training: the parts behind Engine, and the order in which they do a step.
//
// The first step teaches in which order gradients come, and how often each; rank 0's order then becomes that of the buckets,
// before optimizer state exists. Stages 0 and 1 send nothing before that backward has ended. Stages 2 and 3 must not keep all
// gradients until then: where autograd's graph says that each comes once, the first backward reduces them as they come, in
// buckets of another order, and the sums move to the new ones in step(). Parameters in slices are not laid out anew. Where
// buckets are tuned, the second step sends nothing before its backward has ended; from its times the buckets are cut anew, and
// the optimizer's state moves along. Ownership, threads, failure: as Engine.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "weft/checkpoint/live_slices.h"
#include "weft/engine/bucket_tuning.h"
#include "weft/engine/checkpoints.h"
#include "weft/engine/checks.h"
#include "weft/engine/engine.h"
#include "weft/engine/gathering.h"
#include "weft/engine/gradient_hooks.h"
#include "weft/engine/live_engines.h"
#include "weft/engine/reducer.h"
#include "weft/engine/residents.h"
#include "weft/engine/saved_numbers.h"
#include "weft/engine/updater.h"
#include "weft/matmul/fast_products.h"
#include "weft/memory/flat_buckets.h"
#include "weft/monitor/span.h"
#include "weft/plan/agreement.h"

namespace weft::engine {

enum class StateOf {
  kShare,  // what this rank writes: all ranks' together are everything, once
  kOwn,    // all that this rank has
};

class Training {
 public:
  Training(ModelTensors model, config::Resolved config, World world, EngineOptions options);
  ~Training();
  Training(const Training&) = delete;
  Training& operator=(const Training&) = delete;

  void backward(const at::Tensor& loss);
  StepInfo step();
  bool at_boundary() const;
  void zero_grad();
  void begin_step_times();
  void hold_back(int change);
  void wait_for_parameters();

  const World& world() const { return world_; }
  const config::Resolved& config() const { return config_; }
  const plan::Plan& plan() const { return *plan_; }
  at::Device device() const { return device_; }
  Updater& updater() { return updater_; }
  int64_t global_steps() const { return global_steps_; }
  int64_t micro_steps() const { return micro_steps_; }
  EngineTotals totals() const;
  std::optional<EngineTuning> tuning() const;
  EngineStateBytes state_bytes() const;
  NamedTensors optimizer_state();
  void set_optimizer_state(const NamedTensors& state);

  // One parameter, whole, whoever has which part: in training_access.cpp.
  at::Tensor full_param(const at::Tensor& parameter);
  at::Tensor full_grad(const at::Tensor& parameter);
  at::Tensor full_state(const at::Tensor& parameter, const std::string& kind);
  void set_full_param(const at::Tensor& parameter, const at::Tensor& value);
  void set_full_grad(const at::Tensor& parameter, const at::Tensor& value);
  void set_full_state(const at::Tensor& parameter, const std::string& kind, const at::Tensor& value);

  // In training_saving.cpp.
  void save_weights(Env& env, const std::string& path, const SaveModelOptions& options);
  bool save_16bit_model(Env& env, const std::string& folder, const SaveModelOptions& options);

  // From a file: `names` are its names by the numbers of parameters, `read` gives some elements of one. In training_loading.cpp.
  using ReadWeights = std::function<at::Tensor(const std::string& name, int64_t first, int64_t count)>;
  void load_weights(const std::map<int, std::string>& names, const ReadWeights& read);

  // GatheredParameters (gathered_parameters.h), by numbers of owners, none twice: in training_guard.cpp.
  struct Guard {
    std::vector<int> numbers;
    std::optional<int> modifier_rank;
  };
  void begin_guard(const Guard& guard);
  // `failure`: what this rank leaves it with; "": nothing.
  void end_guard(const Guard& guard, std::string failure);
  // Its number, or that of the parameter it is tied to.
  int owner_of(const at::Tensor& parameter) const;
  // Gone when the engine is.
  std::weak_ptr<const void> life() const { return life_; }

  // What a checkpoint holds: in training_state.cpp. Parameters and optimizer state, live; nothing without elements.
  std::vector<checkpoint::LiveSlice> state_slices(StateOf of);
  // All ranks' together.
  checkpoint::Shapes state_shapes();
  const ModelTensors& model() const { return model_; }
  // Of this rank alone: its random numbers, and the state of an optimizer of the user's own.
  NamedTensors own_bytes();
  std::vector<std::string> random_kinds() const;
  // `is_mine`: or of another rank, to begin from with numbers of this rank's own.
  void set_random_state(const std::string& where, const at::Tensor& state, bool is_mine);
  std::string saved_numbers();
  void set_saved_numbers(const SavedNumbers& numbers);
  // Gradients of a step under way: in training_gradients.cpp. What all ranks have added up, live; empty where nothing is.
  std::vector<checkpoint::LiveSlice> summed_gradients(StateOf of);
  // What this rank has added up alone, whole and dense, by the parameter's name; those that came.
  NamedTensors local_gradients() const;
  // How many micro-steps of a step that was saved under way are done here: the same part of it; 0 where that is no whole number.
  int64_t done_here(const SavedNumbers& saved) const;
  bool adds_up() const { return reducer_->adds_up(); }
  // Puts them in their place, where none are yet. The first returns the place of this rank's sums, to be filled. Requires: adds_up().
  std::vector<checkpoint::LiveSlice> take_summed_gradients();
  void set_local_gradient(int number, const at::Tensor& value);
  void set_done(int64_t num_micro_steps) { in_step_ = num_micro_steps; }
  plan::Description description() const;
  bool has_user_optimizer() const { return has_user_optimizer_; }
  // Collectives, around reading or writing those tensors.
  void before_save();
  void before_load();
  void after_load(bool is_whole);
  Checkpoints& checkpoints() { return checkpoints_; }
  // With the copies in memory: in training_copies.cpp.
  void keep_copy(const SaveOptions& options);
  std::optional<LoadedCheckpoint> load(const std::string& folder, const LoadCheckpointOptions& options);
  void wait_for_saves();
  CheckpointTotals save_totals() const;

 private:
  // One parameter that guards stand around.
  struct Guarded {
    int num_readers = 0, num_modifiers = 0;  // guards
    uint32_t version = 0;                    // when nothing was written to it yet
    at::Tensor own = {};                     // where its values are while the model has a copy to write to
  };
  int stage() const { return plan::effective_stage(*plan_, plan_->options.stage); }
  // Whether ranks own slices of the optimizer's state.
  bool is_sharded() const { return stage() >= 1; }
  comm::Group* sharers() const { return is_sharded() ? world_.group.get() : nullptr; }
  // As the user asked for: how many parts a loss is one of.
  int64_t accumulation_steps() const {
    return config_.managed_gradient_accumulation ? config_.gradient_accumulation_steps : 1;
  }
  // When gradients go: in training_accumulation.cpp. Whether this backward's are reduced.
  bool reduces() const;
  // Whether a bucket goes as soon as it is full.
  bool goes_at_once(const at::Tensor& loss) const;
  // Whether the order is learnt in step(), when what came in another order has been added up. Not of compressed gradients: what rounding
  // left over is of a layout, and would be lost with it.
  bool learns_in_step() const { return stage() >= 2 && !residents_ && !plan_->options.compress; }
  void reduce_held();
  void tell_of_accumulation() const;
  void tell_of_waiting(bool at_once);
  void tell_of_whole_gradients(std::string_view what, std::string_view fix, bool& has_told) const;
  void leave_whole();
  at::Tensor own_part(const at::Tensor& bucket) const;
  at::Tensor own_parameters(int bucket) const;
  // Parameters that are whole only while they are used.
  bool gathers_touched() const { return stage() >= 3 && !reads_in_place(plan_->options); }
  // Parameters are one memory for several ranks, of which this one writes what is not its own slice.
  bool writes_common() const;
  void fill_buckets();

  // Masters and optimizer state that are there already move along, and so do gradients.
  void lay_out(plan::ParameterTable table, plan::LayoutOptions layout);
  // Slices of a layout that goes, to be moved bucket by bucket: in training_moving.cpp.
  struct Moving {
    plan::Layout layout = {};
    std::vector<at::Tensor> masters = {}, sums = {};
  };
  Moving what_moves() const;
  void move(const Moving& from);
  void move_to(const std::vector<at::Tensor>& now, const plan::Layout& before, const std::vector<at::Tensor>& slices);
  // Parameters were frozen or unfrozen since; all ranks see it at the same step. In training_freezing.cpp.
  void follow_requires_grad(plan::ParameterTable table);
  void agree_on_frozen(const plan::ParameterTable& table);
  void lay_out_anew(plan::ParameterTable table);
  std::string changed_name(const plan::ParameterTable& table) const;
  void watch_gradients();
  void make_buckets();
  void make_masters();
  void set_masters(const NamedTensors& state);
  void make_reducer();
  UpdateTargets update_targets() const;
  FlatState masters() const;
  NamedTensors state_to_move();

  ParameterGroups sorted_groups() const;
  std::vector<plan::SharedSetting> what_must_agree() const;
  void run_backward(const at::Tensor& loss, bool at_once);
  at::Tensor scaled(const at::Tensor& loss) const;
  void decide_buckets();
  void learn_order();
  bool can_be_tuned() const;
  void tune_buckets();
  // A backward whose gradients wait for what is decided after it.
  bool is_learning() const { return !learnt_ || (wants_tuning_ && global_steps_ > 0); }
  int64_t parameter_bytes(int number) const;
  void check_alive();
  void check_model();
  StepInfo update(int64_t num_parts);

  void load_bucket(int bucket, const std::map<int, std::string>& names, const ReadWeights& read);

  class Weights;

  // Where its values are, while the model has a copy of it to write to; else null.
  const at::Tensor* guarded_away(int number) const;
  void check_guard(const Guard& guard) const;
  void agree_on(const Guard& guard);
  void read_guarded(int number);
  void modify_guarded(int number);
  void end_reading(const Guard& guard, bool has_failed);
  void end_modifying(const Guard& guard, std::string failure);
  std::string misfit_in(const Guard& guard);
  void put_back(int number);
  at::Tensor copy_to_modify(int number);
  // The parameter's new value on all ranks, and its fp32 master. With barriers around it where ranks share memory.
  void write_parameter(int number, const at::Tensor& value);
  void meet_around_writes();

  std::vector<Part> parts_for(int bucket, StateOf of) const;
  void add_slices(std::vector<checkpoint::LiveSlice>& out, const std::string& prefix, int bucket, const Pieces& pieces,
                  StateOf of) const;
  void add_loose(std::vector<checkpoint::LiveSlice>& out, StateOf of) const;

  // The number itself; refuses a frozen one, which has no `what`.
  int trained(int number, const std::string& what) const;
  void agree_on_call(const std::string& function, int number, const std::string& kind = "");
  const Pieces& pieces_of(const FlatState& state, int parameter, const std::string& kind) const;
  void agree_on_value(const std::string& function, int number, const at::Tensor& value, const std::string& kind = "");
  at::Tensor read_part(const Pieces& pieces, int parameter);
  void write_part(const Pieces& pieces, int parameter, const at::Tensor& value);
  std::optional<int> owner_rank() const { return is_sharded() ? std::optional(world_.rank) : std::nullopt; }
  // The bucket's reduced gradients, of the backwards of this step so far.
  Pieces gradients_of(int parameter);

  const World world_;
  const bool has_user_optimizer_;
  const config::Resolved config_;
  std::optional<matmul::FastProducts> fast_products_;
  const ModelTensors model_;
  const std::function<std::string(const ModelTensors& given)> look_again_;
  const std::vector<ParameterGroup> groups_;
  const at::Device device_;
  std::optional<plan::Plan> plan_;
  std::unique_ptr<memory::FlatBuckets> buckets_;
  std::vector<at::Tensor> masters_;  // by bucket: this rank's part in fp32, where the model is narrower
  std::vector<std::shared_ptr<comm::Group>> reduce_lanes_, gather_lanes_;
  std::shared_ptr<comm::Group> agree_lane_;    // made when it is needed
  std::shared_ptr<comm::Group> gather_order_;  // of hosts whose devices gather what is touched (gather_order.h)
  std::unique_ptr<Reducer> reducer_;
  std::unique_ptr<Gathering> gathering_;
  std::unique_ptr<Residents> residents_;  // where parameters are gathered when they are touched
  std::unique_ptr<GradientHooks> hooks_;
  Updater updater_;
  WriteWatch writes_;
  std::map<int, Guarded> guarded_;
  int num_modifying_ = 0;  // guards that have a modifier

  bool learnt_ = false;        // the order of gradients
  bool wants_tuning_ = false;  // and it has not been done
  std::optional<TunedBuckets> tuned_;
  double exposed_when_tuned_s_ = 0;
  int64_t steps_when_tuned_ = 0;
  int64_t num_unstepped_ = 0;  // backward() since the last step()
  bool is_step_due_ = false;   // one of them outside of a no_sync(), where the engine counts micro-steps
  bool has_reduced_ = false;   // gradients of the step under way
  bool holds_ = false;         // gradients of this rank alone, which are still to be reduced
  int num_no_sync_ = 0;
  bool has_told_no_sync_ = false, has_told_waiting_ = false;
  int64_t global_steps_ = 0, micro_steps_ = 0;
  int64_t in_step_ = 0;           // micro-steps of the step under way
  ReduceTotals replaced_;         // of reducers and gatherings before a new layout
  OpenSpan step_span_;            // of the step under way
  std::string dead_;              // why; "": alive
  std::optional<Listed> listed_;  // once it is ready
  const std::shared_ptr<const int> life_ = std::make_shared<const int>(0);
  // Where the launcher keeps copies for the next attempt; "" where nobody does. Asked once, by all ranks.
  const std::string& copies_folder();
  std::optional<std::string> copies_folder_;
  Checkpoints copies_, checkpoints_;  // last: their saves end before the rest goes
};

}  // namespace weft::engine
