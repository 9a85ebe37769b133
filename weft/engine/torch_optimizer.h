// torch's optimizers, and those made like them, as the engine's:
//
//   #include <torch/optim/adam.h>
//   auto engine = weft::initialize(model, config, world,
//                                  {.optimizer = weft::torch_optimizer<torch::optim::Adam>(torch::optim::AdamOptions(1e-3))});
//
// Not in weft/weft.h: it brings torch's archives along, which take seconds to compile.
#pragma once

#include <torch/optim/optimizer.h>
#include <torch/serialize/archive.h>

#include <sstream>
#include <utility>

#include "weft/base/error.h"
#include "weft/engine/user_optimizer.h"

namespace weft {

class TorchOptimizer final : public UserOptimizer {
 public:
  explicit TorchOptimizer(std::unique_ptr<torch::optim::Optimizer> optimizer) : optimizer_(std::move(optimizer)) {}

  void step() override { optimizer_->step(); }
  double lr(size_t group) const override { return optimizer_->param_groups().at(group).options().get_lr(); }
  void set_lr(size_t group, double lr) override { optimizer_->param_groups().at(group).options().set_lr(lr); }

  std::optional<std::string> save() const override {
    torch::serialize::OutputArchive archive;
    optimizer_->save(archive);
    std::ostringstream out;
    archive.save_to(out);
    return std::move(out).str();
  }
  void load(const std::string& saved) override {
    std::istringstream in(saved);
    torch::serialize::InputArchive archive;
    archive.load_from(in);
    optimizer_->load(archive);
  }

 private:
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
};

template <typename Options>
Options with_numbers(Options options, const GroupNumbers& numbers) {
  if (numbers.lr) options.set_lr(*numbers.lr);
  if (!numbers.weight_decay) return options;
  if constexpr (requires { options.weight_decay(*numbers.weight_decay); }) {
    options.weight_decay(*numbers.weight_decay);
    return options;
  }
  throw Error(ErrorKind::kInput, {.title = "this optimizer has no weight decay",
                                  .what = "a parameter group has one of its own",
                                  .where = "",
                                  .fix = "leave .weight_decay out of the group"});
}

// Optimizer: made of (std::vector<OptimizerParamGroup>, Options), as torch's are.
template <typename Optimizer, typename Options>
OptimizerFactory torch_optimizer(const Options& options) {
  return [options](const std::vector<UserGroup>& groups) -> std::unique_ptr<UserOptimizer> {
    std::vector<torch::optim::OptimizerParamGroup> theirs;
    for (const UserGroup& group : groups) theirs.emplace_back(group.tensors, std::make_unique<Options>(options));
    auto made = std::make_unique<Optimizer>(std::move(theirs), options);
    // Afterwards: while it is made, torch takes a number that equals the type's own default for one that was left out.
    for (size_t i = 0; i < groups.size(); ++i) {
      made->param_groups()[i].set_options(std::make_unique<Options>(with_numbers(options, groups[i].numbers)));
    }
    return std::make_unique<TorchOptimizer>(std::move(made));
  };
}

}  // namespace weft
