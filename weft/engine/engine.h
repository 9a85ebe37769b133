// Trains a model on many ranks: gradients are reduced bucket by bucket while backward runs, then every rank makes the same
// update.
//
//   auto world  = weft::init();
//   auto engine = weft::initialize(model, "ds_config.json", world);
//   for (auto& batch : engine.loader(dataset)) {
//     auto loss = model->forward(batch.data, batch.target);
//     engine.backward(loss);
//     engine.step();                    // updates the weights on the accumulation boundary
//   }
//
// Names follow DeepSpeed's engine where it has one. All ranks call backward() and step() equally often.
//
// Ownership: shares the model's tensors and the world's group; owns gradients and optimizer state. The model stays usable
// after the engine is gone; of one that is in slices (stage 3), what was whole then: see wait_for_parameters(). Threads: one
// at a time. Failure: Error(kInput) for a model or config that cannot be trained, Error(kBug) for calls in an order that
// cannot be meant, PeerLost. After a failure in the middle of a reduction the engine says at every call that it is dead, and
// why.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "weft/comm/world.h"
#include "weft/config/resolved.h"
#include "weft/data/shard.h"
#include "weft/engine/autocast.h"
#include "weft/engine/checkpointing.h"
#include "weft/engine/model_saving.h"
#include "weft/engine/model_tensors.h"
#include "weft/engine/param_groups.h"
#include "weft/engine/user_optimizer.h"
#include "weft/plan/plan.h"

namespace weft {

namespace engine {
class Training;
}
namespace data {
class Loader;
}

// What one call of step() did.
struct StepInfo {
  // False between boundaries, and where the gradient was not finite. On a device nobody waits to know the latter:
  // skipped_steps() does.
  bool updated = false;
  double lr = 0;
  double exposed_comm_s = 0;  // waited for communication that nothing hid
};

// How "weft": {"bucket": "auto"} cut the gradients.
struct EngineTuning {
  int num_buckets = 1;
  double latency_s = 0, bytes_per_s = 0;                      // of the link, as measured
  double expected_s = 0, bound_s = 0, expected_before_s = 0;  // exposed communication of a step
  double achieved_s = 0;                                      // mean since then
};

struct EngineTotals {
  int64_t num_collectives = 0, sent_bytes = 0;
  int64_t gathered_bytes = 0;  // of those: parameters; the rest are gradients
  double exposed_comm_s = 0;
  int64_t peak_gathered_elements =
      0;  // stage 3: parameters that were whole at one time, those that always are left out
};

// Padding between parameters is left out.
struct EngineStateBytes {
  int64_t params = 0, grads = 0, optimizer = 0;
};

struct EngineOptions {
  std::vector<ParameterGroup> groups = {};  // with numbers of their own, first come first served
  OptimizerFactory optimizer = {};  // of the user's own, where the config has none: weft/engine/torch_optimizer.h
  // Asked in every backward(): how the parameters differ from those that the engine was given; "": not at all. initialize() knows how.
  std::function<std::string(const engine::ModelTensors& given)> look_again = {};
};

// Which samples engine.loader() gives, and how they are read. The same on all ranks.
struct LoadOptions {
  int64_t epoch = 0;
  int64_t seed = 0;
  bool shuffle = true;
  // Samples that the ranks cannot share equally are left out; false: the first ones come twice, so that none runs short.
  bool drop_last = true;
  // Whether an epoch's last batch is left out where it is not full; absent: as "dataloader_drop_last" says.
  std::optional<bool> drop_partial = {};
  // Goes on where loader.state() was taken, also with another world; `epoch` is the state's then.
  std::optional<data::SamplerState> resume = {};
  int64_t num_threads = 1;  // that read ahead; 0: batches are read when asked for
  int64_t depth = 2;        // batches finished or under way, at most
};

class Engine {
 public:
  Engine(engine::ModelTensors model, config::Resolved config, World world, EngineOptions options = {});
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  Engine(Engine&&) noexcept;
  Engine& operator=(Engine&&) noexcept;

  // Adds the gradient of loss / gradient_accumulation_steps, and on the boundary reduces it. With "managed_gradient_accumulation": false
  // that of the loss itself, as often as is wanted before step().
  void backward(const at::Tensor& loss);
  // On the boundary: waits for the reduction, clips, updates, forgets the gradients. Elsewhere: counts. GradientsLost
  // (weft/engine/gradients_lost.h) where no update is left to hope for: state can still be saved.
  StepInfo step();
  // Batches of train_micro_batch_size_per_gpu samples, equally many on all ranks, no sample on two of them (data::Loader).
  // They lie where the dataset puts them: whoever trains on a device moves them. Needs weft/engine/loading.h, as in
  // weft/weft.h.
  template <typename Dataset>
  data::Loader loader(const std::shared_ptr<Dataset>& dataset, const LoadOptions& options = {}) const;

  // Whether the next step() updates the weights.
  bool is_gradient_accumulation_boundary() const;
  // Drops the gradients of the step so far.
  void zero_grad();
  // The time of the step under way counts from here on: for monitors, which come after the engine.
  void begin_step_times();

  // While one lives, backward() reduces nothing and step() only counts, if it is called at all: accumulation by hand. Stages 2 and 3 keep
  // whole gradients meanwhile, and say how much that is.
  class NoSync {
   public:
    explicit NoSync(Engine& engine);
    ~NoSync();
    NoSync(const NoSync&) = delete;
    NoSync& operator=(const NoSync&) = delete;

   private:
    Engine& engine_;
  };
  [[nodiscard]] NoSync no_sync() { return NoSync(*this); }

  // For forward, as "torch_autocast" says; without effect where that is not enabled.
  [[nodiscard]] Autocast autocast() const;

  // Of the last update, before clipping; 0 before the first, and where nobody needs it: without gradient_clipping, fp16, a
  // check for overflow in bf16, Lamb and an optimizer of the user's own. Waits for the device.
  double get_global_grad_norm() const;
  // Of parameters in no group of their own; and of every group, in the order given, those parameters last.
  double get_lr() const;
  std::vector<double> get_lrs() const;
  // Of all. For those who have a schedule of their own; the config's schedule, where there is one, has the last word.
  // Error(kInput) if it is negative or not finite.
  void set_lr(double lr);

  // What losses are multiplied by before backward; 1 unless "fp16" is enabled, or "torch_autocast" in fp16.
  double loss_scale() const;
  // Until every parameter is whole. Operators wait for those they read by themselves; only whoever looks at memory needs
  // this, as data_ptr() and torch::save() do, and so operators that torch tells nobody of (DisableRecordFunctionGuard).
  void wait_for_parameters();

  int64_t global_steps() const;   // updates, skipped ones included
  int64_t skipped_steps() const;  // for a gradient that was not finite
  int64_t micro_steps() const;
  const World& world() const;
  const engine::ModelTensors& model() const;  // as it was given, its parameters where they lie now
  at::Device device() const;                  // of the parameters
  const config::Resolved& config() const;
  const plan::Plan& plan() const;
  EngineTotals totals() const;
  // Absent before the third step, and where buckets are not tuned.
  std::optional<EngineTuning> tuning() const;
  EngineStateBytes state_bytes() const;
  // One parameter, its gradient or a part of its optimizer's state ("exp_avg"), whole and in fp32, whoever has which part of it.
  // All ranks call these with the same parameter (ranks that differ are told so); a tensor of the model itself, not a view. Gradients are there between backward() and
  // step(), on the accumulation boundary. Setters take the whole value, the same on every rank.
  at::Tensor full_param(const at::Tensor& parameter);
  at::Tensor full_grad(const at::Tensor& parameter);
  at::Tensor full_state(const at::Tensor& parameter, const std::string& kind);
  void set_full_param(const at::Tensor& parameter, const at::Tensor& value);
  void set_full_grad(const at::Tensor& parameter, const at::Tensor& value);
  void set_full_state(const at::Tensor& parameter, const std::string& kind, const at::Tensor& value);
  // The optimizer's state by parameter, whole, whoever owns which part of it: "exp_avg.NAME", and "step". To save, and to be
  // given back to set_optimizer_state(). All ranks call it where state is sharded. Of an optimizer of the user's own: bytes of
  // each rank, for as many ranks and the same buckets.
  engine::NamedTensors optimizer_state();
  void set_optimizer_state(const engine::NamedTensors& state);

  // Parameters and buffers in the model's own types, tied ones once, to safetensors files that others read: one, for a path that
  // ends with ".safetensors", else a folder with as many as needed, and Hugging Face's index of them. Written by rank 0, one
  // parameter after the other, so that no rank ever has the whole model (weft/engine/model_saving.h). All ranks call it.
  void save_weights(const std::string& path, const SaveModelOptions& options = {});
  // The same into a folder; false, and nothing is written, in stage 3 without "stage3_gather_16bit_weights_on_model_save".
  bool save_16bit_model(const std::string& folder, const SaveModelOptions& options = {});

  // Saves the training as step global_steps() of the store in `folder`: parameters, optimizer, buffers, random numbers, schedule, loss
  // scale; before the accumulation boundary also the gradients so far. All ranks call it, after a step(). Returns when the state is
  // copied; what is then written may fail, which the log and wait_for_checkpoint() say, and which leaves older steps as they are.
  // Throws, on all ranks, where a save cannot begin: no room, a folder that another run writes to.
  SaveReport save_checkpoint(const std::string& folder, const SaveOptions& options = {});
  // Takes the store for this run before the first save does, so that a folder that cannot be written to, that another run has, or that
  // not all ranks see is known before hours have gone into it. All ranks call it.
  void open_checkpoints(const std::string& folder);
  // Until the save under way is committed; throws on all ranks if it was not. All ranks call it.
  void wait_for_checkpoint();
  CheckpointTotals checkpoint_totals() const;
  // With "weft": {"buddy": true}, under `weft run --restarts K --resume`: as save_checkpoint(), into memory that outlives the ranks, every
  // "buddy_every_steps" steps; else nothing. All ranks call it, after every step() that updated. Of the options: tag, client_state,
  // metrics and data. A copy that fails is said in the log, and the one before it stays.
  void keep_copy(const SaveOptions& options = {});
  // Takes the newest step that is whole, whatever ranks, stage and buckets saved it, each rank reading only what it needs. A damaged one
  // is named in the log, and the one before it is taken. Nothing where there is no step. All ranks call it. Throws where a
  // step is of another model, and where there are steps and none is whole; after the latter the engine is dead. Where keep_copy() has left
  // a newer step in memory, or one as new, that is taken instead. "" as the folder: only what is in memory.
  std::optional<LoadedCheckpoint> load_checkpoint(const std::string& folder, const LoadCheckpointOptions& options = {});

 private:
  std::unique_ptr<engine::Training> it_;
};

// Reads a ds_config.json for a world of so many ranks; an Error with everything that is wrong about it.
config::Resolved read_engine_config(const std::string& path, int world_size);
// Transport and deadline of a config: weft::init(weft::init_options(config)).
InitOptions init_options(const config::Resolved& config, c10::DeviceType device = c10::DeviceType::CPU);

template <typename Module>
Engine initialize(const std::shared_ptr<Module>& model, config::Resolved config, const World& world,
                  EngineOptions options = {}) {
  options.look_again = [model](const engine::ModelTensors& given) {
    return engine::has_parameters(*model, given) ? "" : engine::change_of(engine::tensors_of(*model), given);
  };
  return Engine(engine::tensors_of(*model), std::move(config), world, std::move(options));
}

template <typename Module>
Engine initialize(const std::shared_ptr<Module>& model, const std::string& config_path, const World& world,
                  EngineOptions options = {}) {
  return initialize(model, read_engine_config(config_path, world.size), world, std::move(options));
}

}  // namespace weft
