// For this room's tests of stage 3: models of torch::nn as users write them.
// Requires: tests/support/ranks.h and engine_test_impl.h, included before.
#pragma once

#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <c10/core/GradMode.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/nn/modules/rnn.h>

#include "weft/engine/zero3_nets_test_impl.h"

namespace weft {

namespace nn = torch::nn;

// With values out of a counter: ranks that are threads share torch's random numbers.
inline void set_values(const nn::Module& module) {
  const at::NoGradGuard no_grad;
  int64_t number = 0;
  for (const at::Tensor& one : module.parameters()) one.copy_(numbers(one.sizes().vec(), ++number) * 0.4);
}

template <typename Module>
Net net_of(const std::shared_ptr<Module>& module) {
  set_values(*module);
  Net net;
  net.parameters = module->parameters();
  for (const auto& entry : module->named_buffers()) net.buffers.emplace_back(entry.key(), entry.value());
  net.loss = [module](const Net& one, int64_t sample) { return module->loss(one, sample); };
  return net;
}

// Pre-norm, learned positions, causal attention, a head of its own.
struct GptBlock : nn::Module {
  explicit GptBlock(int64_t dim) {
    norm_1 = register_module("norm_1", nn::LayerNorm(nn::LayerNormOptions({dim})));
    qkv = register_module("qkv", nn::Linear(dim, 3 * dim));
    out = register_module("out", nn::Linear(dim, dim));
    norm_2 = register_module("norm_2", nn::LayerNorm(nn::LayerNormOptions({dim})));
    up = register_module("up", nn::Linear(dim, 4 * dim));
    down = register_module("down", nn::Linear(4 * dim, dim));
  }
  at::Tensor forward(at::Tensor x) {
    const int64_t seq = x.size(0), dim = x.size(1);
    const auto heads = qkv(norm_1(x)).view({seq, 3, 2, dim / 2}).permute({1, 2, 0, 3}).unsqueeze(1);
    const at::Tensor mixed = at::scaled_dot_product_attention(heads[0], heads[1], heads[2], {}, 0.0, true);
    x = x + out(mixed.squeeze(0).transpose(0, 1).reshape({seq, dim}));
    return x + down(at::gelu(up(norm_2(x))));
  }

  nn::LayerNorm norm_1{nullptr}, norm_2{nullptr};
  nn::Linear qkv{nullptr}, out{nullptr}, up{nullptr}, down{nullptr};
};

struct SmallGpt : nn::Module {
  static constexpr int64_t kDim = 8, kVocabulary = 24, kSeq = 6;
  SmallGpt() {
    words = register_module("words", nn::Embedding(kVocabulary, kDim));
    places = register_module("places", nn::Embedding(kSeq, kDim));
    block = register_module("block", std::make_shared<GptBlock>(kDim));
    norm = register_module("norm", nn::LayerNorm(nn::LayerNormOptions({kDim})));
    head = register_module("head", nn::Linear(nn::LinearOptions(kDim, kVocabulary).bias(false)));
  }
  at::Tensor loss(const Net& /*net*/, int64_t sample) {
    const at::Tensor text = tokens(sample, kSeq + 1, kVocabulary);
    at::Tensor x = words(text.narrow(0, 0, kSeq)) + places(at::arange(kSeq, at::kLong));
    x = norm(block->forward(x));
    return at::cross_entropy_loss(head(x), text.narrow(0, 1, kSeq));
  }

  nn::Embedding words{nullptr}, places{nullptr};
  std::shared_ptr<GptBlock> block;
  nn::LayerNorm norm{nullptr};
  nn::Linear head{nullptr};
};

struct LstmModel : nn::Module {
  LstmModel() {
    lstm = register_module("lstm", nn::LSTM(nn::LSTMOptions(5, 6).num_layers(2)));
    head = register_module("head", nn::Linear(6, 3));
  }
  at::Tensor loss(const Net& net, int64_t sample) {
    return head(std::get<0>(lstm(input(net, sample, {3, 2, 5})))).pow(2).mean();
  }

  nn::LSTM lstm{nullptr};
  nn::Linear head{nullptr};
};

// Running statistics, and every third sample is also looked at as in evaluation; what that gives is part of the loss' value.
struct ConvModel : nn::Module {
  ConvModel() {
    conv_1 = register_module("conv_1", nn::Conv2d(nn::Conv2dOptions(2, 4, 3)));
    norm_1 = register_module("norm_1", nn::BatchNorm2d(4));
    conv_2 = register_module("conv_2", nn::Conv2d(nn::Conv2dOptions(4, 4, 3).bias(false)));
    norm_2 = register_module("norm_2", nn::BatchNorm2d(4));
    head = register_module("head", nn::Linear(16, 3));
  }
  at::Tensor forward(const at::Tensor& image) {
    const at::Tensor x = at::relu(norm_1(conv_1(image)));
    return head(at::relu(norm_2(conv_2(x))).reshape({image.size(0), -1}));
  }
  at::Tensor loss(const Net& net, int64_t sample) {
    at::Tensor out = forward(input(net, sample, {3, 2, 6, 6})).pow(2).mean();
    if (sample % 3 != 2) return out;
    eval();
    const at::NoGradGuard no_grad;
    const at::Tensor seen = forward(input(net, 1000 + sample, {3, 2, 6, 6})).pow(2).mean();
    train();
    const at::AutoGradMode with_grad(true);
    return out + seen;
  }

  nn::Conv2d conv_1{nullptr}, conv_2{nullptr};
  nn::BatchNorm2d norm_1{nullptr}, norm_2{nullptr};
  nn::Linear head{nullptr};
};

// One tensor under two names: the embedding's weight, and the head's.
struct TiedModel : nn::Module {
  TiedModel() {
    words = register_module("words", nn::Embedding(20, 8));
    middle = register_module("middle", nn::Linear(8, 8));
    head = register_parameter("head", words->weight);
  }
  at::Tensor loss(const Net& /*net*/, int64_t sample) {
    const at::Tensor text = tokens(sample, 7, 20);
    return at::cross_entropy_loss(at::linear(middle(words(text)).tanh(), head), text);
  }

  nn::Embedding words{nullptr};
  nn::Linear middle{nullptr};
  at::Tensor head;
};

// As cuDNN does it: all weights are parts of one memory.
inline void flatten_weights(const std::vector<at::Tensor>& weights) {
  const at::NoGradGuard no_grad;
  int64_t count = 0;
  for (const at::Tensor& one : weights) count += one.numel();
  const at::Tensor flat = at::empty({count});
  count = 0;
  for (at::Tensor one : weights) {
    const at::Tensor inside = flat.narrow(0, count, one.numel()).view(one.sizes());
    inside.copy_(one);
    one.set_(flat.storage(), count, one.sizes(), one.strides());
    count += one.numel();
  }
}

inline Net gpt() { return net_of(std::make_shared<SmallGpt>()); }
inline Net lstm_module() { return net_of(std::make_shared<LstmModel>()); }
inline Net conv_module() { return net_of(std::make_shared<ConvModel>()); }
inline Net tied_module() { return net_of(std::make_shared<TiedModel>()); }
inline Net flattened_lstm() {
  const auto module = std::make_shared<LstmModel>();
  Net net = net_of(module);
  flatten_weights(module->lstm->parameters());
  return net;
}

inline constexpr NetKind kModuleKinds[] = {{"gpt", gpt},
                                           {"lstm_module", lstm_module},
                                           {"flattened_lstm", flattened_lstm},
                                           {"conv_module", conv_module},
                                           {"tied_module", tied_module}};

}  // namespace weft
