#include "weft/engine/flop_counter.h"

#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>

#include <atomic>
#include <mutex>
#include <string_view>
#include <unordered_map>

#include "weft/base/check.h"

namespace weft::engine {
namespace {

using Inputs = c10::ArrayRef<const c10::IValue>;
using Shape = c10::IntArrayRef;

// Of an argument that is a tensor; empty for any other.
Shape shape_of(Inputs inputs, size_t at) {
  if (at >= inputs.size() || !inputs[at].isTensor()) return {};
  const at::Tensor& tensor = inputs[at].toTensor();
  return tensor.defined() ? tensor.sizes() : Shape();
}

int64_t product(Shape shape) {
  int64_t out = 1;
  for (const int64_t size : shape) out *= size;
  return out;
}

// [..., m, k] times [..., k, n], as many as the first has in front. A vector is a matrix with one column.
int64_t flops_of_product(Shape left, Shape right) {
  if (left.empty() || right.empty()) return 0;
  const int64_t columns = right.size() > 1 ? right.back() : 1;
  return 2 * product(left) * columns;
}

// Scores, and values mixed by them: query [batch, heads, from, size], key and value [batch, heads, to, size].
int64_t flops_of_attention(Shape query, Shape key, Shape value) {
  if (query.size() != 4 || key.size() != 4 || value.size() != 4) return 0;
  return 2 * query[0] * query[1] * query[2] * key[2] * (query[3] + value[3]);
}

// Each element of the output is a sum over the weights of its channel; transposed, each of the input is spread over them.
int64_t flops_of_convolution(Shape input, Shape weight, Shape output, bool transposed) {
  if (weight.empty() || weight[0] == 0) return 0;
  return 2 * product(transposed ? input : output) * (product(weight) / weight[0]);
}

enum class Kind {
  kNone,
  kProduct,
  kAddedProduct,
  kLinear,
  kAttention,
  kAttentionBackward,
  kConvolution,
  kConvolutionBackward
};

Kind kind_of(std::string_view name) {
  static const std::unordered_map<std::string_view, Kind> kKinds = {
      {"aten::mm", Kind::kProduct},
      {"aten::bmm", Kind::kProduct},
      {"aten::mv", Kind::kProduct},
      {"aten::_scaled_mm", Kind::kProduct},
      {"aten::addmm", Kind::kAddedProduct},
      {"aten::_addmm_activation", Kind::kAddedProduct},
      {"aten::addmv", Kind::kAddedProduct},
      {"aten::baddbmm", Kind::kAddedProduct},
      {"aten::addbmm", Kind::kAddedProduct},
      {"aten::mkldnn_linear", Kind::kLinear},
      {"aten::_scaled_dot_product_flash_attention", Kind::kAttention},
      {"aten::_scaled_dot_product_flash_attention_for_cpu", Kind::kAttention},
      {"aten::_scaled_dot_product_efficient_attention", Kind::kAttention},
      {"aten::_scaled_dot_product_cudnn_attention", Kind::kAttention},
      {"aten::_scaled_dot_product_flash_attention_backward", Kind::kAttentionBackward},
      {"aten::_scaled_dot_product_flash_attention_for_cpu_backward", Kind::kAttentionBackward},
      {"aten::_scaled_dot_product_efficient_attention_backward", Kind::kAttentionBackward},
      {"aten::_scaled_dot_product_cudnn_attention_backward", Kind::kAttentionBackward},
      {"aten::convolution", Kind::kConvolution},
      {"aten::convolution_backward", Kind::kConvolutionBackward}};
  const auto found = kKinds.find(name);
  return found == kKinds.end() ? Kind::kNone : found->second;
}

// convolution_backward(grad_output, input, weight, bias_sizes, stride, padding, dilation, transposed, output_padding, groups, mask).
int64_t flops_of_convolution_backward(Inputs inputs) {
  if (inputs.size() < 11 || !inputs[7].isBool() || !inputs[10].isBoolList()) return 0;
  const int64_t once =
      flops_of_convolution(shape_of(inputs, 1), shape_of(inputs, 2), shape_of(inputs, 0), inputs[7].toBool());
  const auto wanted = inputs[10].toBoolList();
  return once * ((wanted.get(0) ? 1 : 0) + (wanted.get(1) ? 1 : 0));
}

int64_t flops_of(Kind kind, Inputs inputs) {
  switch (kind) {
    case Kind::kNone: return 0;
    case Kind::kProduct: return flops_of_product(shape_of(inputs, 0), shape_of(inputs, 1));
    case Kind::kAddedProduct: return flops_of_product(shape_of(inputs, 1), shape_of(inputs, 2));
    case Kind::kLinear: {
      const Shape weight = shape_of(inputs, 1);
      return weight.empty() ? 0 : 2 * product(shape_of(inputs, 0)) * weight[0];
    }
    case Kind::kAttention: return flops_of_attention(shape_of(inputs, 0), shape_of(inputs, 1), shape_of(inputs, 2));
    case Kind::kAttentionBackward:
      return 2 * flops_of_attention(shape_of(inputs, 1), shape_of(inputs, 2), shape_of(inputs, 3));
    case Kind::kConvolution: return 0;  // its output says how many: after_operator()
    case Kind::kConvolutionBackward: return flops_of_convolution_backward(inputs);
  }
  return 0;
}

struct Counting {
  std::mutex mutex;
  FlopCount count;
  std::atomic<bool> is_on = false;

  static Counting& it() {
    static Counting one;
    return one;
  }
};

void add(const char* name, int64_t flops, int64_t calls) {
  Counting& counting = Counting::it();
  const std::scoped_lock lock(counting.mutex);
  counting.count.total += flops;
  counting.count.by_operator[name] += flops;
  counting.count.calls[name] += calls;
}

// A convolution under way: its arguments are gone when its output is there.
struct UnderWay final : at::ObserverContext {
  std::vector<int64_t> input, weight;
  bool transposed = false;
};

std::unique_ptr<at::ObserverContext> before_operator(const at::RecordFunction& function) {
  const Kind kind = kind_of(function.name());
  if (kind == Kind::kNone) return nullptr;
  const Inputs inputs = function.inputs();
  add(function.name(), flops_of(kind, inputs), 1);
  // convolution(input, weight, bias, stride, padding, dilation, transposed, ...)
  if (kind != Kind::kConvolution || inputs.size() < 7 || !inputs[6].isBool()) return nullptr;
  auto out = std::make_unique<UnderWay>();
  out->input = shape_of(inputs, 0).vec();
  out->weight = shape_of(inputs, 1).vec();
  out->transposed = inputs[6].toBool();
  return out;
}

void after_operator(const at::RecordFunction& function, at::ObserverContext* context) {
  const auto* const one = static_cast<UnderWay*>(context);
  if (one == nullptr || function.outputs().empty() || !function.outputs()[0].isTensor()) return;
  const Shape output = function.outputs()[0].toTensor().sizes();
  add(function.name(), flops_of_convolution(one->input, one->weight, output, one->transposed), 0);
}

}  // namespace

FlopCounter::FlopCounter() {
  Counting& counting = Counting::it();
  WEFT_CHECK(!counting.is_on.exchange(true));
  {
    const std::scoped_lock lock(counting.mutex);
    counting.count = {};
  }
  handle_ = at::addGlobalCallback(at::RecordFunctionCallback(&before_operator, &after_operator)
                                      .needsInputs(true)
                                      .needsOutputs(true)
                                      .scopes({at::RecordScope::FUNCTION}));
}

FlopCounter::~FlopCounter() { end(); }

FlopCount FlopCounter::end() {
  if (handle_ == 0) return {};
  at::removeCallback(handle_);
  handle_ = 0;
  Counting& counting = Counting::it();
  const std::scoped_lock lock(counting.mutex);
  counting.is_on = false;
  return std::exchange(counting.count, {});
}

}  // namespace weft::engine
