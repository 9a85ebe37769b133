#include "weft/engine/operator_flops.h"

#include <ATen/core/Tensor.h>

#include <array>
#include <unordered_map>

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

int64_t flops_of_linear(Shape input, Shape weight) { return weight.empty() ? 0 : 2 * product(input) * weight[0]; }

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

// convolution_backward(grad_output, input, weight, bias_sizes, stride, padding, dilation, transposed, output_padding, groups, mask).
int64_t flops_of_convolution_backward(Inputs inputs) {
  if (inputs.size() < 11 || !inputs[7].isBool() || !inputs[10].isBoolList()) return 0;
  const int64_t once =
      flops_of_convolution(shape_of(inputs, 1), shape_of(inputs, 2), shape_of(inputs, 0), inputs[7].toBool());
  const auto wanted = inputs[10].toBoolList();
  return once * ((wanted.get(0) ? 1 : 0) + (wanted.get(1) ? 1 : 0));
}

int64_t matrix_elements(Shape shape) { return shape.size() < 2 ? 0 : product(shape); }

// Every step of every sequence is multiplied by all matrices: input [steps, batch, size], or packed [all steps, size].
int64_t flops_of_rnn(Shape input, int64_t num_weights) {
  return input.empty() || input.back() == 0 ? 0 : 2 * (product(input) / input.back()) * num_weights;
}

// mkldnn_rnn_layer(input, weight_ih, weight_hh, bias_ih, bias_hh, ...).
int64_t flops_of_rnn_layer(Inputs inputs) {
  return flops_of_rnn(shape_of(inputs, 0), matrix_elements(shape_of(inputs, 1)) + matrix_elements(shape_of(inputs, 2)));
}

// _cudnn_rnn(input, weights, ...): of all layers and directions, biases among them.
int64_t flops_of_whole_rnn(Inputs inputs) {
  if (inputs.size() < 2 || !inputs[1].isTensorList()) return 0;
  int64_t num_weights = 0;
  for (const at::Tensor& one : inputs[1].toTensorVector())
    num_weights += one.defined() ? matrix_elements(one.sizes()) : 0;
  return flops_of_rnn(shape_of(inputs, 0), num_weights);
}

// Gradients go back through time whoever wants them; those of the weights are asked for: the last of the mask, the last argument.
int64_t flops_of_whole_rnn_backward(Inputs inputs) {
  const bool of_weights = inputs.empty() || !inputs.back().isBoolList() || inputs.back().toBoolList().get(3);
  return flops_of_whole_rnn(inputs) * (of_weights ? 2 : 1);
}

}  // namespace

FlopKind flop_kind_of(std::string_view operator_name) {
  static const std::unordered_map<std::string_view, FlopKind> kKinds = {
      {"aten::mm", FlopKind::kProduct},
      {"aten::bmm", FlopKind::kProduct},
      {"aten::mv", FlopKind::kProduct},
      {"aten::_scaled_mm", FlopKind::kProduct},
      {"aten::addmm", FlopKind::kAddedProduct},
      {"aten::_addmm_activation", FlopKind::kAddedProduct},
      {"aten::addmv", FlopKind::kAddedProduct},
      {"aten::baddbmm", FlopKind::kAddedProduct},
      {"aten::addbmm", FlopKind::kAddedProduct},
      {"aten::mkldnn_linear", FlopKind::kLinear},
      {"aten::_scaled_dot_product_flash_attention", FlopKind::kAttention},
      {"aten::_scaled_dot_product_flash_attention_for_cpu", FlopKind::kAttention},
      {"aten::_scaled_dot_product_efficient_attention", FlopKind::kAttention},
      {"aten::_scaled_dot_product_cudnn_attention", FlopKind::kAttention},
      {"aten::_scaled_dot_product_flash_attention_backward", FlopKind::kAttentionBackward},
      {"aten::_scaled_dot_product_flash_attention_for_cpu_backward", FlopKind::kAttentionBackward},
      {"aten::_scaled_dot_product_efficient_attention_backward", FlopKind::kAttentionBackward},
      {"aten::_scaled_dot_product_cudnn_attention_backward", FlopKind::kAttentionBackward},
      {"aten::convolution", FlopKind::kConvolution},
      {"aten::convolution_backward", FlopKind::kConvolutionBackward},
      {"aten::mkldnn_rnn_layer", FlopKind::kRnnLayer},
      {"aten::mkldnn_rnn_layer_backward", FlopKind::kRnnLayerBackward},
      {"aten::_cudnn_rnn", FlopKind::kRnn},
      {"aten::_cudnn_rnn_backward", FlopKind::kRnnBackward}};
  const auto found = kKinds.find(operator_name);
  return found == kKinds.end() ? FlopKind::kNone : found->second;
}

OperatorFlops flops_before(FlopKind kind, Inputs inputs) {
  const auto shape = [&](size_t at) { return shape_of(inputs, at); };
  switch (kind) {
    case FlopKind::kNone: return {};
    case FlopKind::kProduct: return {flops_of_product(shape(0), shape(1))};
    case FlopKind::kAddedProduct: return {flops_of_product(shape(1), shape(2))};
    case FlopKind::kLinear: return {flops_of_linear(shape(0), shape(1))};
    case FlopKind::kAttention: return {flops_of_attention(shape(0), shape(1), shape(2))};
    case FlopKind::kAttentionBackward: return {2 * flops_of_attention(shape(1), shape(2), shape(3))};
    case FlopKind::kConvolution:  // (input, weight, bias, stride, padding, dilation, transposed, ...)
      if (inputs.size() < 7 || !inputs[6].isBool()) return {};
      return {
          .needs_output = true, .transposed = inputs[6].toBool(), .input = shape(0).vec(), .weight = shape(1).vec()};
    case FlopKind::kConvolutionBackward: return {flops_of_convolution_backward(inputs)};
    case FlopKind::kRnnLayer: return {flops_of_rnn_layer(inputs)};
    case FlopKind::kRnnLayerBackward: return {2 * flops_of_rnn_layer(inputs)};
    case FlopKind::kRnn: return {flops_of_whole_rnn(inputs)};
    case FlopKind::kRnnBackward: return {flops_of_whole_rnn_backward(inputs)};
  }
  return {};
}

int64_t flops_after(const OperatorFlops& flops, const std::vector<c10::IValue>& outputs) {
  if (!flops.needs_output || outputs.empty() || !outputs[0].isTensor()) return flops.known;
  const at::Tensor& output = outputs[0].toTensor();
  if (!output.defined()) return flops.known;
  return flops.known + flops_of_convolution(flops.input, flops.weight, output.sizes(), flops.transposed);
}

std::span<const size_t> weight_arguments(FlopKind kind) {
  static constexpr std::array<size_t, 2> kRightThenLeft = {1, 0}, kAdded = {2, 1};
  static constexpr std::array<size_t, 1> kSecond = {1}, kThird = {2};
  switch (kind) {
    case FlopKind::kNone:
    case FlopKind::kAttention:
    case FlopKind::kAttentionBackward: return {};
    case FlopKind::kProduct: return kRightThenLeft;
    case FlopKind::kAddedProduct: return kAdded;
    case FlopKind::kConvolutionBackward: return kThird;
    case FlopKind::kLinear:
    case FlopKind::kConvolution:
    case FlopKind::kRnnLayer:
    case FlopKind::kRnnLayerBackward:
    case FlopKind::kRnn:
    case FlopKind::kRnnBackward: return kSecond;
  }
  return {};
}

}  // namespace weft::engine
