#include "weft/engine/saved_gradients.h"

#include <ATen/TensorOperators.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <utility>

#include "weft/checkpoint/dtypes.h"
#include "weft/checkpoint/state_names.h"
#include "weft/engine/checkpoints_impl.h"

namespace weft::engine {
namespace {

class Gradients {
 public:
  Gradients(checkpoint::StepReader& reader, const SavedNumbers& saved, Training& training)
      : reader_(reader), manifest_(reader.manifest()), training_(training) {
    const World& world = training.world();
    is_same_world_ = manifest_.world == world.size;
    const bool is_mean = training.config().gradient_allreduce_op == config::ReduceOp::kMean;
    of_sum_ = is_mean ? 1 : 1.0 / world.size;
    of_others_ = is_mean ? 1.0 / manifest_.world : 1.0 / world.size;
    rescaled_ = training.updater().loss_scale() / saved.loss_scale;
  }

  void read_all() {
    if (has_sums() && training_.adds_up()) read_sums();
    for (const int number : training_.plan().table.trainable()) {
      const at::Tensor local = local_of(training_.plan().table[number].name);
      if (local.defined()) training_.set_local_gradient(number, local);
    }
  }

 private:
  bool has(const std::string& name) const { return manifest_.tensors.contains(name); }
  bool has_sums() const {
    const auto first = manifest_.tensors.lower_bound(checkpoint::kGradPrefix);
    return first != manifest_.tensors.end() && first->first.starts_with(checkpoint::kGradPrefix);
  }

  void read_sums() {
    std::vector<checkpoint::LiveSlice> sums = training_.take_summed_gradients();
    std::erase_if(sums, [&](const auto& slice) { return !has(slice.tensor); });
    read_slices(reader_, sums);
    for (const auto& sum : sums) {
      if (rescaled_ != 1) sum.values.mul_(rescaled_);
    }
  }

  at::Tensor read(const std::string& name) {
    return read_whole(reader_, name, checkpoint::dtype_of(manifest_.tensors.at(name).dtype));
  }

  // What this rank is to have of a parameter before the reduction; undefined: nothing.
  at::Tensor local_of(const std::string& name) {
    at::Tensor out = is_same_world_ ? own(name) : dealt(name);
    const std::string sum = cat(checkpoint::kGradPrefix, name);
    if (!training_.adds_up() && has(sum)) {
      const at::Tensor share = read(sum).to(at::kFloat) * of_sum_;
      out = out.defined() ? out.to(at::kFloat) + share : share;
    }
    return out.defined() && rescaled_ != 1 ? out * rescaled_ : out;
  }

  at::Tensor own(const std::string& name) {
    const std::string mine = checkpoint::own_grad_name(training_.world().rank, name);
    return has(mine) ? read(mine) : at::Tensor();
  }

  at::Tensor dealt(const std::string& name) {
    at::Tensor sum;
    for (int rank = 0; rank < manifest_.world; ++rank) {
      const std::string theirs = checkpoint::own_grad_name(rank, name);
      if (!has(theirs)) continue;
      const at::Tensor one = read(theirs).to(at::kFloat);
      sum = sum.defined() ? sum + one : one;
    }
    return sum.defined() ? sum * of_others_ : sum;
  }

  checkpoint::StepReader& reader_;
  const checkpoint::Manifest& manifest_;
  Training& training_;
  bool is_same_world_ = true;
  double of_sum_ = 1, of_others_ = 1;  // what of them each rank takes, so that a reduction gives them back
  double rescaled_ = 1;
};

}  // namespace

void read_gradients(checkpoint::StepReader& reader, const SavedNumbers& saved, Training& training) {
  const at::NoGradGuard no_grad;
  training.zero_grad();
  const int64_t num_done = training.done_here(saved);
  if (num_done == 0) return;
  Gradients(reader, saved, training).read_all();
  training.set_done(num_done);
}

}  // namespace weft::engine
