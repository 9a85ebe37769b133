// One parameter of a model in training, whole, whoever has which part of it. All ranks call these, with the same parameter.
#include <ATen/TensorOperators.h>
#include <c10/core/GradMode.h>

#include "weft/base/error.h"
#include "weft/base/text.h"
#include "weft/engine/agree.h"
#include "weft/engine/training.h"

namespace weft::engine {

int Training::trained(int number, const std::string& what) const {
  if (!plan_->table[number].frozen) return number;
  misuse(cat("parameter '", plan_->table[number].name, "' is frozen: it has no ", what),
         "ask for its value, full_param(), or unfreeze it and train a step");
}

// Ranks that ask for different things would each get a mix of both. Where nothing is shared out each may ask for itself.
void Training::agree_on_call(const std::string& function, int number, const std::string& kind) {
  if (sharers() == nullptr) return;
  const std::string mine = cat(function, "() of '", plan_->table[number].name, "'", kind.empty() ? "" : ", ", kind);
  const auto all = exchange_texts(*world_.group, mine, device_);
  for (size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    throw Error(ErrorKind::kBug, {.title = "ranks ask for different parts of the model at the same time",
                                  .what = cat("rank 0 calls ", all[0], ", rank ", rank, " ", all[rank]),
                                  .where = cat("rank ", world_.rank),
                                  .fix = "make the same call on every rank, with the same parameter"});
  }
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

// First that all ranks bring a value of the same shape: one that stops at its own would leave the others waiting.
void Training::agree_on_value(const std::string& function, int number, const at::Tensor& value,
                              const std::string& kind) {
  const std::vector<int64_t>& wanted = plan_->table[number].shape;
  const std::string given = cat("a value of ", plan::shape_text(value.sizes().vec()));
  agree_on_call(function, number, cat(kind, kind.empty() ? "" : ", ", given));
  if (value.sizes() == wanted || (value.dim() == 1 && value.numel() == plan_->table.num_elements(number))) return;
  misuse(cat(given, " for '", plan_->table[number].name, "', which is ", plan::shape_text(wanted)),
         "give all of it in its own shape, or flat, on every rank");
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
  for (const Part& part : parts_of(*plan_, plan_->layout.home(parameter).bucket, owner_rank())) {
    if (part.parameter != parameter) continue;
    write_range(pieces, part.first, value.reshape({-1}).narrow(0, part.parameter_first, part.count));
  }
}

at::Tensor Training::full_param(const at::Tensor& parameter) {
  check_alive();
  const int number = owner_of(parameter);
  gathering_->wait();
  const bool has_master = !masters_.empty() && !plan_->table[number].frozen;
  if (has_master || (residents_ && !world_.group->one_sided())) agree_on_call("full_param", number);
  if (!has_master) return parameter.detach().to(at::kFloat, /*non_blocking=*/false, /*copy=*/true);
  return read_part({masters_[static_cast<size_t>(plan_->layout.home(number).bucket)]}, number);
}

void Training::set_full_param(const at::Tensor& parameter, const at::Tensor& value) {
  check_alive();
  const int number = owner_of(parameter);
  agree_on_value("set_full_param", number, value);
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
    const bool waits = holds_ && !config_.managed_gradient_accumulation;
    misuse("there is no gradient that all ranks have added to",
           waits ? "here that is done in step(); set \"weft\": {\"reduce_each\": \"micro_step\"}, or read .grad where "
                   "a rank is alone"
                 : "ask between backward() and step(), on the accumulation boundary");
  }
  const int bucket = plan_->layout.home(parameter).bucket;
  reducer_->settle(bucket);
  return {reducer_->result(bucket)};
}

at::Tensor Training::full_grad(const at::Tensor& parameter) {
  check_alive();
  const int number = trained(owner_of(parameter), "gradient");
  agree_on_call("full_grad", number);
  at::Tensor out = read_part(gradients_of(number), number);
  return updater_.loss_scale() == 1 ? out : out / updater_.loss_scale();
}

void Training::set_full_grad(const at::Tensor& parameter, const at::Tensor& value) {
  check_alive();
  const int number = trained(owner_of(parameter), "gradient");
  agree_on_value("set_full_grad", number, value);
  write_part(gradients_of(number), number, value * updater_.loss_scale());
}

at::Tensor Training::full_state(const at::Tensor& parameter, const std::string& kind) {
  check_alive();
  const int number = trained(owner_of(parameter), "optimizer state");
  agree_on_call("full_state", number, kind);
  const FlatState state = updater_.state();
  return read_part(pieces_of(state, number, kind), number);
}

void Training::set_full_state(const at::Tensor& parameter, const std::string& kind, const at::Tensor& value) {
  check_alive();
  const int number = trained(owner_of(parameter), "optimizer state");
  agree_on_value("set_full_state", number, value, kind);
  const FlatState state = updater_.state();
  write_part(pieces_of(state, number, kind), number, value);
}

}  // namespace weft::engine
