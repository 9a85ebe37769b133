// The optimizer: updates flat slices of parameters in place from flat slices of gradients, on the CPU through the kernels of
// optim/core, on CUDA through kernels of the same arithmetic that are compiled at run time, elsewhere through torch's fused ones.
//
//   const UpdateSettings settings = read_optimizer(resolved.optimizer);
//   Optimizer optimizer({{.settings = settings, .slices = {{.name = "bucket_0", .param = slice, .grad = mean}}}});
//   optimizer.follow(schedule);                    // rate and betas of the update to come
//   optimizer.step(inverse_loss_scale * clip);     // gradients are multiplied on the way, no pass of their own
//
// Lamb's rate depends on whole parameters, so it is told which elements of a slice belong to which (`pieces`), and, where
// ranks hold parts of a parameter, how to add over them; it takes whole steps only.
//
// Owns the state (as long as its slice), not parameters and gradients. On the CPU the bits of a step do not
// depend on the number of threads, on the instruction set, or on how parameters are cut into slices.
// Threads: one at a time; a step itself uses torch's threads. Failure: torch's own errors; broken shapes are
// Error(kBug).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weft/optim/core/exact_sum.h"
#include "weft/optim/core/optimizer_settings.h"
#include "weft/optim/core/schedule.h"
#include "weft/optim/left_out.h"

namespace weft::optim {

// A run of elements of a slice that belongs to one parameter: all of it, or what is there.
struct Piece {
  int64_t first = 0, count = 0;
  int64_t parameter = 0;  // counted within the group, the same on all ranks
};

struct FlatSlice {
  std::string name;      // names its state; unique
  at::Tensor param;      // fp32; bf16 too, but for Lamb, where has_own_kernels(); contiguous; updated in place
  at::Tensor grad;       // as many elements, contiguous, same device: fp32, bf16 or fp16
  at::Tensor copy = {};  // fp32, bf16 or fp16: gets the new parameters in the same pass; undefined: none
  // Lamb only: rising, not overlapping, none empty. Elements in none are padding and stay as they are.
  std::vector<Piece> pieces = {};
  // Updates that the optimizer had made when this slice joined. What depends on how many there were counts from there.
  int64_t since = 0;
};

struct ParamGroup {
  UpdateSettings settings;
  std::vector<FlatSlice> slices;
  int64_t num_parameters = 0;              // Lamb only: on all ranks together, and so the same on each
  at::ScalarType state_type = at::kFloat;  // that state is kept in; bf16 where parameters are
};

// Adds each element of an fp64 tensor over the ranks that hold pieces of the same parameters, in place. Called once a group
// and update, in order, by every rank, those without a piece too; on the device of the slices. On the CPU elements are
// integers below 2^32, so that any order gives the same sum.
using AddOverRanks = std::function<void(at::Tensor sums)>;

struct SliceState {
  FlatSlice slice;
  at::Tensor momentum, variance;  // as in kernels.h; undefined where the optimizer has none
};

using NamedState = std::vector<std::pair<std::string, at::Tensor>>;

// Lamb's sums between its two passes, kept so that a step allocates nothing.
struct LambSums {
  struct OfParameter {
    ExactSum parameters, directions;
  };
  std::vector<OfParameter> by_parameter = {};
  at::Tensor sent = {};  // to the other ranks
};

class Optimizer {
 public:
  // `add`: for Lamb, where ranks share parameters; none: this one has all of them.
  explicit Optimizer(std::vector<ParamGroup> groups, AddOverRanks add = {});

  // One update. `grad_scale` multiplies every gradient first. On other devices than the CPU gradients are overwritten
  // with their scaled values where it is not 1 and torch's kernels do the work.
  void step(double grad_scale = 1);
  // The same slice by slice, as their gradients come: begin_step() once, then every slice of every group, in any order.
  // Requires: by_slices(), which Lamb does not allow.
  bool by_slices() const;
  void begin_step();
  void step_slice(size_t group, size_t slice, double grad_scale = 1);
  // A whole one with a factor that the device still computes: one fp32 element there. Where it turns out not to be finite
  // nothing is updated. Nobody waits for it (torch's Lion and Adagrad, and Lamb, excepted). Requires: no slice on the CPU.
  void step(const at::Tensor& grad_scale);
  // How many of those turned out so. Waits until the device knows of the last one, and not for what it was given since.
  int64_t num_left_out();
  // Updates made so far, those before a resume included. Waits in the same way.
  int64_t num_steps();

  size_t num_groups() const { return groups_.size(); }
  double lr(size_t group) const { return lr_of(groups_.at(group).settings); }
  void set_lr(size_t group, double lr) { optim::set_lr(groups_.at(group).settings, lr); }
  // Of Adam, Lamb and Lion; the others have none.
  void set_betas(size_t group, Betas betas);
  // Sets every group's rate and betas to the schedule's for the next update. Rates the optimizer was made with are its
  // base. An update that was left out does not move it, so this waits as num_steps() does: until the device has the norm of the step
  // before, while a whole forward and backward are still its to do.
  void follow(const Schedule& schedule);

  // Another tensor for the gradients of a slice, such as the buffer of this step.
  void set_grad(size_t group, size_t slice, at::Tensor grad);

  // Live tensors, to save from and to load into: "NAME.exp_avg", "NAME.exp_avg_sq", "NAME.momentum_buffer", "NAME.sum",
  // and "step", which is num_steps().
  NamedState state();
  int64_t state_bytes() const;

 private:
  struct Group {
    UpdateSettings settings;
    double base_lr;
    int64_t num_parameters;
    LambSums sums = {};
    std::vector<SliceState> on_cpu, elsewhere;
    std::vector<std::pair<bool, size_t>> order;  // slice i is in on_cpu (true) or elsewhere, at that place
  };
  static Group made_of(ParamGroup group);
  int64_t num_asked_for() const;
  void settle();

  std::vector<Group> groups_;
  AddOverRanks add_;
  at::Tensor step_;  // int64, no dimensions, on the CPU: updates, less those known to be left out
  LeftOut left_out_;
  int64_t num_known_left_out_ = 0;
};

// What an element of the state of this kind ("sum") begins with.
double initial_state(const UpdateSettings& settings, std::string_view kind);

// The sum of the squares of all elements, in blocks of kernels.h, the blocks without rounding: the bits do not depend on
// threads, nor on how a gradient is cut, at multiples of kSumBlock. Not finite where an element is not. Requires: on the CPU.
ExactSum sum_of_squares(const at::Tensor& grad);

// The same for a device, over all of them: one double there, rounded, that nobody has waited for. Requires: some, on one device.
at::Tensor sum_of_squares_there(at::TensorList grads);

// bf16 parameters and state, beside the CPU: whether updates there go through weft's own kernels.
bool has_own_kernels(at::Device device);

}  // namespace weft::optim
