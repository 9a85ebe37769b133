// One parameter of a model in training, whole, whoever has which part of it. All ranks call these, with the same parameter.
#include <ATen/TensorOperators.h>
#include <c10/core/GradMode.h>

#include "weft/base/error.h"
#include "weft/base/text.h"
#include "weft/engine/training.h"

namespace weft::engine {

int Training::number_of(const at::Tensor& parameter) const {
  const int number = owner_of(parameter);
  if (!plan_->table[number].frozen) return number;
  misuse(cat("parameter '", plan_->table[number].name, "' is frozen"), "read it as it is: nothing of it is shared out");
}

int Training::owner_of(const at::Tensor& parameter) const {
  for (size_t i = 0; i < model_.parameters.size(); ++i) {
    if (model_.parameters[i].second.is_same(parameter)) return plan_->table.owner(static_cast<int>(i));
  }
  misuse("this tensor is no parameter of the model",
         "give the tensor of named_parameters() itself, not a view or a copy");
}

const Pieces& Training::pieces_of(const FlatState& state, int parameter, const std::string& kind) const {
  const auto found = state.find(kind);
  if (found != state.end()) return found->second[static_cast<size_t>(plan_->layout.home(parameter).bucket)];
  if (has_user_optimizer_) misuse("the state is that of an optimizer of your own", "ask that optimizer for it");
  std::vector<std::string> known;
  for (const auto& [name, flats] : state) known.push_back(cat("'", name, "'"));
  misuse(cat("the optimizer has no state '", kind, "'"), cat("ask for ", join(known, ", ")));
}

void Training::check_whole(int parameter, const at::Tensor& value) const {
  if (value.numel() == plan_->table.num_elements(parameter)) return;
  misuse(cat("a value of ", value.numel(), " elements for a parameter of ", plan_->table.num_elements(parameter)),
         "give all of it, on every rank");
}

at::Tensor Training::read_part(const Pieces& pieces, int parameter) {
  const at::NoGradGuard no_grad;
  const auto& place = plan_->layout.place(parameter);
  return whole_bucket(pieces, sharers())
      .narrow(0, place.begin, place.num_elements)
      .view(plan_->table[parameter].shape)
      .to(at::kFloat, /*non_blocking=*/false, /*copy=*/true);
}

void Training::write_part(const Pieces& pieces, int parameter, const at::Tensor& value) {
  const at::NoGradGuard no_grad;
  check_whole(parameter, value);
  for (const Part& part : parts_of(*plan_, plan_->layout.home(parameter).bucket, owner_rank())) {
    if (part.parameter != parameter) continue;
    write_range(pieces, part.first, value.reshape({-1}).narrow(0, part.parameter_first, part.count));
  }
}

at::Tensor Training::full_param(const at::Tensor& parameter) {
  const int number = number_of(parameter);
  gathering_->wait();
  if (masters_.empty()) return parameter.detach().to(at::kFloat, /*non_blocking=*/false, /*copy=*/true);
  return read_part({masters_[static_cast<size_t>(plan_->layout.home(number).bucket)]}, number);
}

void Training::set_full_param(const at::Tensor& parameter, const at::Tensor& value) {
  const int number = number_of(parameter);
  check_whole(number, value);
  gathering_->wait();
  meet_around_writes();
  write_parameter(number, value);
  writes_.accept(model_, number);
  meet_around_writes();
}

// Nobody reads what another rank writes, or has written half of.
void Training::meet_around_writes() {
  if (reads_in_place(plan_->options) || (residents_ && world_.group->one_sided())) world_.group->barrier();
}

void Training::write_parameter(int number, const at::Tensor& value) {
  const at::NoGradGuard no_grad;
  const plan::Parameter& parameter = plan_->table[number];
  if (!masters_.empty() && !parameter.frozen)
    write_part({masters_[static_cast<size_t>(plan_->layout.home(number).bucket)]}, number, value);
  if (residents_) {
    const auto& [bucket, place] = plan_->layout.home(number);
    return residents_->write(bucket, plan_->layout.place(number).begin, value.reshape({-1}));
  }
  // One memory for several: one of them writes.
  if (reads_in_place(plan_->options) && !(parameter.frozen && stage() < 3) && !writes_common()) return;
  const at::Tensor* const away = guarded_away(number);
  const at::Tensor own = away != nullptr ? *away : model_.parameters[static_cast<size_t>(number)].second.detach();
  own.copy_(value.reshape(own.sizes()));
}

Pieces Training::gradients_of(int parameter) {
  if (!has_reduced_) {
    misuse("there is no gradient that all ranks have added to",
           "ask between backward() and step(), on the accumulation boundary");
  }
  const int bucket = plan_->layout.home(parameter).bucket;
  reducer_->settle(bucket);
  return {reducer_->result(bucket)};
}

at::Tensor Training::full_grad(const at::Tensor& parameter) {
  const int number = number_of(parameter);
  at::Tensor out = read_part(gradients_of(number), number);
  return updater_.loss_scale() == 1 ? out : out / updater_.loss_scale();
}

void Training::set_full_grad(const at::Tensor& parameter, const at::Tensor& value) {
  const int number = number_of(parameter);
  write_part(gradients_of(number), number, value * updater_.loss_scale());
}

at::Tensor Training::full_state(const at::Tensor& parameter, const std::string& kind) {
  const int number = number_of(parameter);
  return read_part(pieces_of(updater_.state(), number, kind), number);
}

void Training::set_full_state(const at::Tensor& parameter, const std::string& kind, const at::Tensor& value) {
  const int number = number_of(parameter);
  write_part(pieces_of(updater_.state(), number, kind), number, value);
}

}  // namespace weft::engine
