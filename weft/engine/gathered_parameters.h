// Parameters that stay whole while a guard lives: to look at memory without an operator, and to change values on one rank.
//
//   {
//     const weft::GatheredParameters guard({model->head->weight});          // all ranks, with the same parameters
//     print(model->head->weight.data_ptr<float>());
//   }
//   {
//     const weft::GatheredParameters guard({model->head->weight}, 0);       // and rank 0's values count
//     torch::NoGradGuard no_grad;
//     if (world.rank == 0) torch::nn::init::normal_(model->head->weight);
//   }                                                                       // every rank has them now
//
// It finds the parameters' live engines by itself, the way weft::full_param() does, and works in every stage; plain tensors, and
// those of a model that no engine has, are left alone. Guards nest.
//
// With a modifier_rank the parameters are copies of this rank's own until the guard ends. Then the modifier's values, broadcast, are
// those of all: parameters, slices and fp32 masters. What other ranks wrote is forgotten. An exception that leaves the guard on any
// rank undoes it on all, and those that had none throw an error which names the rank.
//
// Without one, the parameters are there to be read. An operator that writes to one in stage 3 is refused when the guard ends, and
// nothing it wrote is kept; where the ranks share one memory that cannot be undone, and the engine goes no further. Below stage 3 it is
// a write like any other. DeepSpeed forgets such writes without a word.
//
// A collective at both ends. step() and checkpoints are refused while a guard lives, backward() while one with a modifier_rank does.
// Threads: as Engine, whose calls these are. Failure: Error(kBug) on every rank where ranks name different parameters; what the
// broadcast throws. The destructor throws where no other exception is on its way.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace weft {

class GatheredParameters {
 public:
  explicit GatheredParameters(const std::vector<at::Tensor>& parameters, std::optional<int> modifier_rank = {});
  ~GatheredParameters() noexcept(false);
  GatheredParameters(const GatheredParameters&) = delete;
  GatheredParameters& operator=(const GatheredParameters&) = delete;

 private:
  struct Part;  // of one engine
  void end(const std::string& failure);

  std::vector<std::unique_ptr<Part>> parts_;
  const int num_exceptions_;  // on their way when it began
};

}  // namespace weft
