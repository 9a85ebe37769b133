#include "examples/gpt/gpt.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <c10/core/GradMode.h>

#include <cmath>
#include <string>

namespace examples {

namespace nn = torch::nn;

namespace {

// Not layer->forward(): for a batch of sequences the C++ front end multiplies first and adds the bias in a second pass over
// memory; at::linear does both in one, as torch.nn.Linear does in Python, with the same bits.
at::Tensor project(const nn::Linear& layer, const at::Tensor& x) { return at::linear(x, layer->weight, layer->bias); }

}  // namespace

int64_t GptShape::num_params() const {
  const int64_t block = 12 * dim * dim + 13 * dim;
  const int64_t tables = (vocab * (tied ? 1 : 2) + seq) * dim;
  return layers * block + tables + 2 * dim;
}

GptBlock::GptBlock(const GptShape& shape)
    : heads_(shape.heads),
      norm1_(nn::LayerNormOptions({shape.dim})),
      norm2_(nn::LayerNormOptions({shape.dim})),
      qkv_(shape.dim, 3 * shape.dim),
      out_(shape.dim, shape.dim),
      up_(shape.dim, 4 * shape.dim),
      down_(4 * shape.dim, shape.dim) {
  register_module("norm1", norm1_);
  register_module("qkv", qkv_);
  register_module("out", out_);
  register_module("norm2", norm2_);
  register_module("up", up_);
  register_module("down", down_);
}

at::Tensor GptBlock::attend(const at::Tensor& x) {
  const int64_t batch = x.size(0), seq = x.size(1), dim = x.size(2);
  // [batch, seq, 3, heads, dim/heads] -> three of [batch, heads, seq, dim/heads]
  const auto parts = project(qkv_, x).view({batch, seq, 3, heads_, dim / heads_}).permute({2, 0, 3, 1, 4}).unbind(0);
  const auto mixed = at::scaled_dot_product_attention(parts[0], parts[1], parts[2], {}, 0.0, /*is_causal=*/true);
  return project(out_, mixed.transpose(1, 2).reshape({batch, seq, dim}));
}

at::Tensor GptBlock::forward(const at::Tensor& x) {
  const auto attended = x + attend(norm1_(x));
  return attended + project(down_, at::gelu(project(up_, norm2_(attended))));
}

Gpt::Gpt(const GptShape& shape)
    : shape_(shape),
      token_(shape.vocab, shape.dim),
      position_(shape.seq, shape.dim),
      norm_(nn::LayerNormOptions({shape.dim})) {
  register_module("token", token_);
  register_module("position", position_);
  for (int64_t i = 0; i < shape.layers; ++i) {
    blocks_.push_back(register_module("block" + std::to_string(i), std::make_shared<GptBlock>(shape)));
  }
  register_module("norm", norm_);
  if (!shape.tied) head_ = register_module("head", nn::Linear(nn::LinearOptions(shape.dim, shape.vocab).bias(false)));
  init_weights();
}

// GPT-2's recipe: normal(0, 0.02), zero biases, and the two projections that write into the residual stream scaled down by
// sqrt(2 * layers), so that its variance does not grow with depth.
void Gpt::init_weights() {
  const at::NoGradGuard no_grad;
  const double residual_std = 0.02 / std::sqrt(2.0 * static_cast<double>(shape_.layers));
  for (auto& entry : named_parameters()) {
    const std::string& name = entry.key();
    auto& value = entry.value();
    const bool is_norm = name.find("norm") != std::string::npos;
    const bool writes_residual = name.ends_with("out.weight") || name.ends_with("down.weight");
    if (name.ends_with("bias")) {
      value.zero_();
    } else if (!is_norm) {
      value.normal_(0.0, writes_residual ? residual_std : 0.02);
    }
  }
}

at::Tensor Gpt::forward(const at::Tensor& tokens) {
  auto x = token_(tokens) + position_(at::arange(tokens.size(1), tokens.options()));
  for (auto& block : blocks_) x = block->forward(x);
  return at::linear(norm_(x), head_ ? head_->weight : token_->weight);
}

at::Tensor Gpt::loss(const at::Tensor& tokens, const at::Tensor& targets) {
  // In fp32 whatever the model's type: a loss in bf16 has steps of half a percent.
  return at::cross_entropy_loss(forward(tokens).view({-1, shape_.vocab}).to(at::kFloat), targets.reshape({-1}));
}

}  // namespace examples
