// A GPT, written as any libtorch user would write it: pre-norm blocks, biases, learned positions, GELU, causal attention.
// `weft train` trains this same model. Nothing in it knows about weft.
//
// tests/reference/gpt.py is its twin in Python: same parameter names, same operators in the same order, the same bits.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace examples {

struct GptShape {
  int64_t vocab = 256;
  int64_t seq = 128;  // the longest sequence, in tokens
  int64_t dim = 128;
  int64_t layers = 4;
  int64_t heads = 4;
  bool tied = false;  // the output head is the token embedding

  int64_t num_params() const;
};

class GptBlock : public torch::nn::Module {
 public:
  explicit GptBlock(const GptShape& shape);
  at::Tensor forward(const at::Tensor& x);

 private:
  at::Tensor attend(const at::Tensor& x);

  int64_t heads_;
  torch::nn::LayerNorm norm1_, norm2_;
  torch::nn::Linear qkv_, out_, up_, down_;
};

class Gpt : public torch::nn::Module {
 public:
  // Weights are drawn from torch's default generator: seed it first. Requires: dim is a multiple of heads.
  explicit Gpt(const GptShape& shape);

  // tokens: [batch, t] of int64, t <= seq. Returns logits [batch, t, vocab].
  at::Tensor forward(const at::Tensor& tokens);

  // Mean cross entropy, in nats, of predicting targets [batch, t] from tokens [batch, t].
  at::Tensor loss(const at::Tensor& tokens, const at::Tensor& targets);

  const GptShape& shape() const { return shape_; }

 private:
  void init_weights();

  GptShape shape_;
  torch::nn::Embedding token_, position_;
  std::vector<std::shared_ptr<GptBlock>> blocks_;
  torch::nn::LayerNorm norm_;
  torch::nn::Linear head_{nullptr};  // null when tied
};

}  // namespace examples
