// For this room's tests of stage 3: small models of the kinds there are.
// Requires: tests/support/ranks.h and engine_test_impl.h, included before.
#pragma once

#include <ATen/ops/batch_norm.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/lstm.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/zeros.h>

#include "weft/engine/zero3_test_impl.h"

namespace weft {

// In the type that the engine has given the parameters.
inline at::Tensor input(const Net& net, int64_t sample, std::vector<int64_t> shape) {
  return numbers(std::move(shape), 100 + sample).to(net.parameters[0].scalar_type());
}
inline at::Tensor tokens(int64_t sample, int64_t count, int64_t vocabulary) {
  return at::arange(count, at::kLong).mul(7).add(sample * 3).remainder(vocabulary);
}

// --- Models ----------------------------------------------------------------------------------------------------------

inline Net layers() {
  return {{parameter({16, 24}, 1), parameter({24}, 2), parameter({24, 24}, 3), parameter({24, 8}, 4)},
          [](const Net& net, int64_t sample) {
            const auto& p = net.parameters;
            const at::Tensor hidden = (at::mm(input(net, sample, {5, 16}), p[0]) + p[1]).tanh();
            return at::mm(at::mm(hidden, p[2]).tanh(), p[3]).pow(2).mean();
          }};
}

// The embedding's own weight is the head, and it is used outside of any module.
inline Net tied_head() {
  return {{parameter({32, 12}, 1), parameter({12, 12}, 2), parameter({12}, 3), parameter({12}, 4)},
          [](const Net& net, int64_t sample) {
            const auto& p = net.parameters;
            at::Tensor x = at::embedding(p[0], tokens(sample, 9, 32));
            x = at::gelu(at::linear(at::layer_norm(x, {12}, p[2], p[3]), p[1]));
            return at::linear(x, p[0]).pow(2).mean();
          }};
}

inline Net convolutions() {
  return {
      {parameter({6, 3, 3, 3}, 1), parameter({6}, 2), parameter({6}, 3), parameter({6}, 4), parameter({4, 6 * 36}, 5)},
      [](const Net& net, int64_t sample) {
        const auto& p = net.parameters;
        at::Tensor x = at::conv2d(input(net, sample, {2, 3, 8, 8}), p[0], p[1]);
        x = at::relu(at::batch_norm(x, p[2], p[3], {}, {}, true, 0.1, 1e-5, false));
        return at::linear(x.reshape({2, -1}), p[4]).pow(2).mean();
      }};
}

inline Net lstm() {
  return {{parameter({4 * 8, 5}, 1), parameter({4 * 8, 8}, 2), parameter({4 * 8}, 3), parameter({4 * 8}, 4),
           parameter({3, 8}, 5)},
          [](const Net& net, int64_t sample) {
            const auto& p = net.parameters;
            const at::Tensor zeros = at::zeros({1, 2, 8}, p[0].options().requires_grad(false));
            const auto [out, h, c] = at::lstm(input(net, sample, {6, 2, 5}), {zeros, zeros}, {p[0], p[1], p[2], p[3]},
                                              true, 1, 0.0, true, false, false);
            return at::linear(out, p[4]).pow(2).mean();
          }};
}

// One layer several times, and one that never.
inline Net recurrent() {
  return {{parameter({10, 10}, 1), parameter({10}, 2), parameter({40}, 3)}, [](const Net& net, int64_t sample) {
            at::Tensor x = input(net, sample, {4, 10});
            for (int i = 0; i < 4; ++i) x = (at::mm(x, net.parameters[0]) + net.parameters[1]).tanh();
            return x.pow(2).mean();
          }};
}

// Another way through the model for every third sample.
inline Net conditional() {
  return {{parameter({12, 12}, 1), parameter({12, 12}, 2), parameter({12, 12}, 3), parameter({12}, 4)},
          [](const Net& net, int64_t sample) {
            const auto& p = net.parameters;
            at::Tensor x = at::mm(input(net, sample, {4, 12}), p[0]).tanh();
            x = at::mm(x, sample / 2 % 3 == 0 ? p[1] : p[2]);
            if (sample / 2 % 2 == 1) x = x * p[3];
            return x.pow(2).mean();
          }};
}

inline Net frozen_part() {
  Net net = layers();
  net.parameters[2].set_requires_grad(false);
  return net;
}

// Views, aliases and detached copies of parameters.
inline Net aliases() {
  return {{parameter({8, 12}, 1), parameter({30}, 2)}, [](const Net& net, int64_t sample) {
            const at::Tensor transposed = net.parameters[0].t();
            const at::Tensor rows = net.parameters[1].view({5, 6}).narrow(0, 1, 2).reshape({12});
            const at::Tensor shadow = net.parameters[1].detach();
            at::Tensor x = at::mm(input(net, sample, {4, 12}) * rows, transposed);
            return (x * shadow.sum()).pow(2).mean();
          }};
}

// The same kept over steps: after the first step parameters stay where they are.
inline Net kept_aliases() {
  struct Kept {
    int64_t num_calls = 0;
    at::Tensor transposed, shadow;
  };
  const auto kept = std::make_shared<Kept>();
  return {{parameter({8, 12}, 1), parameter({12}, 2), parameter({12}, 3)}, [kept](const Net& net, int64_t sample) {
            const auto& p = net.parameters;
            if (++kept->num_calls == 4) *kept = {4, p[0].t(), p[1].detach()};
            const bool is_first = !kept->shadow.defined();
            const at::Tensor x = input(net, sample, {4, 12}) * p[2] * (is_first ? p[1].detach() : kept->shadow);
            return at::mm(x, is_first ? p[0].t() : kept->transposed).pow(2).mean() + p[1].pow(2).mean();
          }};
}

// Every rank has its own expert for each sample.
inline Net experts() {
  return {{parameter({12, 12}, 1), parameter({12, 12}, 2), parameter({12, 12}, 3), parameter({12, 4}, 4)},
          [](const Net& net, int64_t sample) {
            const auto& p = net.parameters;
            return at::mm(at::mm(input(net, sample, {4, 12}), p[static_cast<size_t>(sample % 3)]).tanh(), p[3])
                .pow(2)
                .mean();
          }};
}

struct NetKind {
  const char* name;
  Net (*make)();
};

inline constexpr NetKind kNetKinds[] = {{"layers", layers},
                                        {"tied_head", tied_head},
                                        {"convolutions", convolutions},
                                        {"lstm", lstm},
                                        {"recurrent", recurrent},
                                        {"conditional", conditional},
                                        {"frozen_part", frozen_part},
                                        {"aliases", aliases},
                                        {"kept_aliases", kept_aliases}};

}  // namespace weft
