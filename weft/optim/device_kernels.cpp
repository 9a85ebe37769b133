#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <map>
#include <type_traits>

#include "weft/base/text.h"
#include "weft/optim/device_kernels_impl.h"

namespace weft::optim {
namespace {

using on_device::Batch;
using on_device::ByStep;
using on_device::kChunk;
using on_device::Kind;

// Slices of the same types, which one program is for.
using ByTypes = std::map<DeviceTypes, std::vector<on_device::Slice>>;

bool is_aligned(const void* data, Element type) {
  return reinterpret_cast<uintptr_t>(data) % (4 * element_bytes(type)) == 0;
}

void add(ByTypes& to, const SliceState& state) {
  const Slice s = kernel_slice(state, 1);
  // No copy: the type that most have, so that there are few programs.
  const DeviceTypes types = {s.param_type, s.state_type, s.grad_type, s.copy == nullptr ? s.grad_type : s.copy_type};
  const bool aligned = is_aligned(s.param, types.param) && is_aligned(s.grad, types.grad) &&
                       is_aligned(s.copy, types.copy) && is_aligned(s.momentum, types.state) &&
                       is_aligned(s.variance, types.state);
  to[types].push_back({.param = s.param,
                       .grad = s.grad,
                       .momentum = s.momentum,
                       .variance = s.variance,
                       .copy = s.copy,
                       .count = static_cast<long long>(s.count),
                       .aligned = aligned});
}

void add(ByTypes& to, const at::Tensor& grad) {
  const Element type = element_of(grad);
  to[{.grad = type, .copy = type}].push_back(
      {.grad = grad.const_data_ptr(), .count = grad.numel(), .aligned = is_aligned(grad.const_data_ptr(), type)});
}

template <typename Parts>
ByTypes by_types(const Parts& parts) {
  ByTypes out;
  for (const auto& part : parts) add(out, part);
  return out;
}

// Calls launch(batch, chunks) as often as needed. Slices of nothing are left out.
template <typename Launch>
void for_batches(const std::vector<on_device::Slice>& slices, Launch launch) {
  Batch batch;
  uint32_t num_chunks = 0;
  const auto flush = [&] {
    if (batch.num_slices > 0) launch(batch, num_chunks);
    batch.num_slices = 0;
    num_chunks = 0;
  };
  for (on_device::Slice slice : slices) {
    if (slice.count == 0) continue;
    if (batch.num_slices == on_device::kMaxSlices) flush();
    slice.first_chunk = num_chunks;
    num_chunks += static_cast<uint32_t>((slice.count + kChunk - 1) / kChunk);
    batch.slices[batch.num_slices++] = slice;
  }
  flush();
}

struct NameOf {
  const char* operator()(const AdamSettings&) const { return "Adam"; }
  const char* operator()(const SgdSettings&) const { return "Sgd"; }
  const char* operator()(const LionSettings&) const { return "Lion"; }
  const char* operator()(const AdagradSettings&) const { return "Adagrad"; }
  const char* operator()(const LambSettings&) const { return nullptr; }
};

struct ByStepOf {
  ByStep operator()(const AdamSettings& s) const {
    return {.lr = s.lr, .beta1 = s.beta1, .beta2 = s.beta2, .bias_correction = s.bias_correction};
  }
  ByStep operator()(const SgdSettings&) const { return {.kind = Kind::kSgd}; }
  ByStep operator()(const AdagradSettings& s) const {
    return {.lr = s.lr, .lr_decay = s.lr_decay, .kind = Kind::kAdagrad};
  }
  ByStep operator()(const auto&) const { return {.kind = Kind::kLion}; }
};

// Where a pointer lies that a kernel takes.
template <typename T>
const void* address_of(T* const& pointer) {
  return static_cast<const void*>(&pointer);
}

// What is known only on the device, for a whole step.
struct Known {
  on_device::OnDevice there;
  at::Tensor by_step;  // owns what there.by_step is
};

Known known_on_device(const DeviceProgram& program, const UpdateSettings& settings, const TorchScale& by,
                      int64_t step) {
  Known out;
  if (by.tensor.defined()) out.there.grad_scale = by.tensor.const_data_ptr<float>();
  if (by.left_out.defined()) out.there.left_out = by.left_out.const_data_ptr<float>();
  if (!by.num_left_out.defined()) return out;
  ByStep numbers = std::visit(ByStepOf{}, settings);
  numbers.step = step;
  out.by_step = at::empty({2}, by.num_left_out.options());
  const auto* const num_left_out = by.num_left_out.const_data_ptr<float>();
  auto* const into = out.by_step.mutable_data_ptr<float>();
  program.launch("prepare", 1, 1, {&numbers, address_of(num_left_out), address_of(into)});
  out.there.by_step = into;
  return out;
}

struct Update {
  const DeviceProgram& program;
  const std::vector<on_device::Slice>& slices;
  const Known& known;
  float grad_scale;
  int64_t step;

  void operator()(const AdamSettings& s) const { run(adam_factors(s, step)); }
  void operator()(const SgdSettings& s) const { run(sgd_factors(s, step)); }
  void operator()(const LionSettings& s) const { run(lion_factors(s)); }
  void operator()(const AdagradSettings& s) const { run(adagrad_factors(s, step)); }
  void operator()(const LambSettings&) const {}

  template <typename Factors>
  void run(const Factors& factors) const {
    static_assert(std::is_trivially_copyable_v<Factors>);
    for_batches(slices, [&](const Batch& batch, uint32_t num_chunks) {
      program.launch("update", num_chunks, on_device::kThreads, {&batch, &factors, &grad_scale, &known.there});
    });
  }
};

std::string define(const char* name, Element type) { return cat("-DWEFT_", name, "=", static_cast<int>(type)); }

}  // namespace

const DeviceProgram* device_kernels(c10::Device device, const UpdateSettings& settings, DeviceTypes types) {
  const char* const name = std::visit(NameOf{}, settings);
  if (name == nullptr || !device.is_cuda()) return nullptr;
  return device_program(device, kDeviceKernels,
                        {cat("-DWEFT_UPDATE=", name), define("PARAM", types.param), define("STATE", types.state),
                         define("GRAD", types.grad), define("COPY", types.copy)});
}

bool step_with_device_kernels(const UpdateSettings& settings, std::span<SliceState> slices, const TorchScale& by,
                              int64_t step) {
  const c10::Device device = slices.front().slice.param.device();
  const ByTypes all = by_types(slices);
  for (const auto& [types, some] : all) {
    if (device_kernels(device, settings, types) == nullptr) return false;
  }
  const Known known = known_on_device(*device_kernels(device, settings, all.begin()->first), settings, by, step);
  for (const auto& [types, some] : all) {
    const DeviceProgram& program = *device_kernels(device, settings, types);
    std::visit(Update{program, some, known, static_cast<float>(by.value), step}, settings);
  }
  return true;
}

at::Tensor sum_with_device_kernels(at::TensorList parts) {
  at::Tensor total = at::zeros({}, parts.front().options().dtype(at::kDouble));
  auto* const into = total.mutable_data_ptr<double>();
  for (const auto& [types, some] : by_types(parts)) {
    const DeviceProgram* const program = device_kernels(parts.front().device(), AdamSettings(), types);
    if (program == nullptr) return {};
    for_batches(some, [&](const Batch& batch, uint32_t num_chunks) {
      const at::Tensor sums = at::empty({num_chunks}, total.options());
      auto* const each = sums.mutable_data_ptr<double>();
      const int64_t count = num_chunks;
      program->launch("squares", num_chunks, on_device::kThreads, {&batch, address_of(each)});
      program->launch("add_up", 1, on_device::kSumThreads, {address_of(each), &count, address_of(into)});
    });
  }
  return total;
}

}  // namespace weft::optim
