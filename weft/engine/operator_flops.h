// How many floating-point operations an operator is, from the shapes of what goes in and, for convolutions, of what comes out. A
// multiplication and an addition are two.
//
//   const FlopKind kind = flop_kind_of(function.name());
//   const OperatorFlops flops = flops_before(kind, function.inputs());      // arguments are gone when the output is there
//   ... flops_after(flops, function.outputs()) ...
//
// Values and pure functions, any thread. Failure: none; arguments that are not as expected count 0.
#pragma once

#include <ATen/core/ivalue.h>

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace weft::engine {

enum class FlopKind {
  kNone,
  kProduct,
  kAddedProduct,
  kLinear,
  kAttention,
  kAttentionBackward,
  kConvolution,
  kConvolutionBackward,
  kRnnLayer,
  kRnnLayerBackward,
  kRnn,
  kRnnBackward
};

FlopKind flop_kind_of(std::string_view operator_name);

struct OperatorFlops {
  int64_t known = 0;
  bool needs_output = false;  // and then of what:
  bool transposed = false;
  std::vector<int64_t> input = {}, weight = {};
};

OperatorFlops flops_before(FlopKind kind, c10::ArrayRef<const c10::IValue> inputs);
int64_t flops_after(const OperatorFlops& flops, const std::vector<c10::IValue>& outputs);

// Which arguments may be weights, the likeliest first: a model multiplies what flows by what it has learnt, and not the other way round.
std::span<const size_t> weight_arguments(FlopKind kind);

}  // namespace weft::engine
