#include "weft/optim/optimizer.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "weft/base/check.h"
#include "weft/base/error.h"
#include "weft/base/log.h"
#include "weft/base/text.h"
#include "weft/optim/device_kernels_impl.h"

namespace weft::optim {
namespace {

bool is_known(at::ScalarType type) { return type == at::kFloat || type == at::kBFloat16 || type == at::kHalf; }

void check_beside(const at::Tensor& tensor, const at::Tensor& param) {
  WEFT_CHECK(is_known(tensor.scalar_type()));
  WEFT_CHECK(tensor.is_contiguous());
  WEFT_CHECK(tensor.device() == param.device());
  WEFT_CHECK_EQ(tensor.numel(), param.numel());
}

void check_slice(const FlatSlice& slice, at::ScalarType state_type) {
  const bool is_narrow = slice.param.scalar_type() == at::kBFloat16 && has_own_kernels(slice.param.device());
  WEFT_CHECK(slice.param.scalar_type() == at::kFloat || is_narrow);
  WEFT_CHECK(state_type == at::kFloat || (is_narrow && state_type == at::kBFloat16));
  WEFT_CHECK(slice.param.is_contiguous());
  check_beside(slice.grad, slice.param);
  if (slice.copy.defined()) check_beside(slice.copy, slice.param);
}

// Two slices of one name would be one in a saved state.
void check_names(const std::vector<ParamGroup>& groups) {
  std::set<std::string_view> names;
  for (const ParamGroup& group : groups) {
    for (const FlatSlice& slice : group.slices) WEFT_CHECK(names.insert(slice.name).second);
  }
}

bool is_lamb(const UpdateSettings& settings) { return std::holds_alternative<LambSettings>(settings); }

void check_pieces(const FlatSlice& slice, int64_t num_parameters) {
  int64_t free = 0;
  for (const Piece& piece : slice.pieces) {
    WEFT_CHECK(piece.first >= free && piece.count > 0);
    free = piece.first + piece.count;
    WEFT_CHECK(piece.parameter >= 0 && piece.parameter < num_parameters);
  }
  WEFT_CHECK(free <= slice.param.numel());
}

// Sums over ranks need one device, also where a rank has no piece: an empty slice says which.
void check_lamb(const ParamGroup& group) {
  WEFT_CHECK(group.num_parameters > 0);
  WEFT_CHECK(!group.slices.empty());
  for (const FlatSlice& slice : group.slices) {
    check_pieces(slice, group.num_parameters);
    WEFT_CHECK(slice.param.device() == group.slices.front().param.device());
    WEFT_CHECK(slice.param.scalar_type() == at::kFloat && group.state_type == at::kFloat);
  }
}

// What state there is, by the names torch and DeepSpeed give it. Empty: none.
struct StateNames {
  std::string_view momentum, variance;
};

struct NamesOf {
  StateNames operator()(const AdamSettings&) const { return {"exp_avg", "exp_avg_sq"}; }
  StateNames operator()(const SgdSettings& s) const { return {s.momentum == 0 ? "" : "momentum_buffer", ""}; }
  StateNames operator()(const LionSettings&) const { return {"exp_avg", ""}; }
  StateNames operator()(const AdagradSettings&) const { return {"", "sum"}; }
  StateNames operator()(const LambSettings&) const { return {"exp_avg", "exp_avg_sq"}; }
};

double initial_variance(const UpdateSettings& settings) {
  const auto* const adagrad = std::get_if<AdagradSettings>(&settings);
  return adagrad == nullptr ? 0 : adagrad->initial_sum;
}

SliceState state_for(FlatSlice slice, const UpdateSettings& settings, at::ScalarType type) {
  check_slice(slice, type);
  const StateNames names = std::visit(NamesOf{}, settings);
  SliceState out;
  if (!names.momentum.empty()) out.momentum = at::zeros_like(slice.param, type);
  if (!names.variance.empty()) out.variance = at::full_like(slice.param, initial_variance(settings), type);
  out.slice = std::move(slice);
  return out;
}

// False where the optimizer has no betas.
struct PutBetas {
  Betas betas;
  bool operator()(auto& settings) const {
    if constexpr (requires { settings.beta1; }) {
      settings.beta1 = betas.first;
      settings.beta2 = betas.second;
      return true;
    }
    return false;
  }
};

int64_t moment_bytes(const SliceState& state) {
  size_t bytes = 0;
  for (const at::Tensor* const tensor : {&state.momentum, &state.variance}) {
    if (tensor->defined()) bytes += tensor->nbytes();
  }
  return static_cast<int64_t>(bytes);
}

}  // namespace

bool has_own_kernels(at::Device device) { return device.is_cpu() || device_kernels(device) != nullptr; }

Element element_of(const at::Tensor& tensor) {
  if (tensor.scalar_type() == at::kBFloat16) return Element::kBFloat16;
  return tensor.scalar_type() == at::kHalf ? Element::kFloat16 : Element::kFloat32;
}

double initial_state(const UpdateSettings& settings, std::string_view kind) {
  return std::visit(NamesOf{}, settings).variance == kind ? initial_variance(settings) : 0;
}

// Slices that joined together lie together: a device updates them in one go.
Optimizer::Group Optimizer::made_of(ParamGroup group) {
  if (is_lamb(group.settings)) check_lamb(group);
  Group out = {.settings = group.settings, .base_lr = lr_of(group.settings), .num_parameters = group.num_parameters};
  std::vector<size_t> by_age(group.slices.size());
  std::iota(by_age.begin(), by_age.end(), 0);
  std::ranges::stable_sort(by_age, {}, [&](size_t slice) { return group.slices[slice].since; });
  out.order.resize(by_age.size());
  for (const size_t number : by_age) {
    FlatSlice& slice = group.slices[number];
    const bool cpu = slice.param.is_cpu();
    auto& place = cpu ? out.on_cpu : out.elsewhere;
    out.order[number] = {cpu, place.size()};
    place.push_back(state_for(std::move(slice), group.settings, group.state_type));
  }
  return out;
}

Optimizer::Optimizer(std::vector<ParamGroup> groups, AddOverRanks add)
    : add_(std::move(add)), step_(at::zeros({}, at::kLong)) {
  const at::NoGradGuard no_grad;
  check_names(groups);
  for (ParamGroup& group : groups) groups_.push_back(made_of(std::move(group)));
}

void Optimizer::step(double grad_scale) {
  begin_step();
  const at::NoGradGuard no_grad;
  for (Group& group : groups_) {
    const WholeParameters whole = {group.num_parameters, add_, &group.sums};
    if (!group.on_cpu.empty()) step_with_kernels(group.settings, group.on_cpu, grad_scale, num_steps(), whole);
    step_with_torch(group.settings, group.elsewhere, {.value = grad_scale}, num_steps(), whole);
  }
}

void Optimizer::begin_step() { step_.add_(1); }

bool Optimizer::by_slices() const {
  return std::ranges::none_of(groups_, [](const Group& group) { return is_lamb(group.settings); });
}

void Optimizer::step_slice(size_t group, size_t slice, double grad_scale) {
  const at::NoGradGuard no_grad;
  Group& owner = groups_.at(group);
  if (is_lamb(owner.settings)) {
    throw Error(ErrorKind::kBug, {.title = "Lamb cannot be stepped slice by slice",
                                  .what = "its rate depends on whole parameters, which lie over several slices",
                                  .where = cat("group ", group, ", slice ", slice),
                                  .fix = "call step() once all gradients are there, where by_slices() is false"});
  }
  const auto [cpu, place] = owner.order.at(slice);
  if (cpu) return step_with_kernels(owner.settings, {&owner.on_cpu[place], 1}, grad_scale, num_steps());
  step_with_torch(owner.settings, {&owner.elsewhere[place], 1}, {.value = grad_scale}, num_steps());
}

void Optimizer::step(const at::Tensor& grad_scale) {
  const at::NoGradGuard no_grad;
  step_.add_(1);
  left_out_.count(grad_scale);
  for (Group& group : groups_) {
    WEFT_CHECK(group.on_cpu.empty());
    step_with_torch(group.settings, group.elsewhere,
                    {.tensor = grad_scale, .left_out = left_out_.flag(), .num_left_out = left_out_.total()},
                    num_asked_for(), {group.num_parameters, add_});
  }
}

// What the device's own count is subtracted from. That count only grows, so nobody has to set it back.
int64_t Optimizer::num_asked_for() const { return *step_.const_data_ptr<int64_t>() + num_known_left_out_; }

void Optimizer::settle() {
  const int64_t count = left_out_.known();
  step_.sub_(count - std::exchange(num_known_left_out_, count));
}

int64_t Optimizer::num_left_out() { return left_out_.known(); }

int64_t Optimizer::num_steps() {
  settle();
  return *step_.const_data_ptr<int64_t>();
}

void Optimizer::set_betas(size_t group, Betas betas) { std::visit(PutBetas{betas}, groups_.at(group).settings); }

void Optimizer::follow(const Schedule& schedule) {
  const int64_t step = num_steps();
  for (size_t i = 0; i < groups_.size(); ++i) {
    set_lr(i, lr_at(schedule, step, groups_[i].base_lr, i));
    const auto betas = betas_at(schedule, step, i);
    if (!betas || std::visit(PutBetas{*betas}, groups_[i].settings)) continue;
    if (step == 0) log_warn("cycle_momentum has no effect: the optimizer has no betas");
  }
}

void Optimizer::set_grad(size_t group, size_t slice, at::Tensor grad) {
  Group& owner = groups_.at(group);
  const auto [cpu, place] = owner.order.at(slice);
  FlatSlice& target = (cpu ? owner.on_cpu : owner.elsewhere)[place].slice;
  check_beside(grad, target.param);
  target.grad = std::move(grad);
}

NamedState Optimizer::state() {
  settle();
  NamedState out;
  for (const Group& group : groups_) {
    const StateNames names = std::visit(NamesOf{}, group.settings);
    for (const auto& [cpu, place] : group.order) {
      const SliceState& state = (cpu ? group.on_cpu : group.elsewhere)[place];
      if (state.momentum.defined()) out.emplace_back(cat(state.slice.name, ".", names.momentum), state.momentum);
      if (state.variance.defined()) out.emplace_back(cat(state.slice.name, ".", names.variance), state.variance);
    }
  }
  out.emplace_back("step", step_);
  return out;
}

int64_t Optimizer::state_bytes() const {
  int64_t bytes = 0;
  for (const Group& group : groups_) {
    for (const SliceState& state : group.on_cpu) bytes += moment_bytes(state);
    for (const SliceState& state : group.elsewhere) bytes += moment_bytes(state);
  }
  return bytes;
}

}  // namespace weft::optim
