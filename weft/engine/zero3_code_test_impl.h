// For this room's tests of stage 3: models whose code is not a plain chain of operators.
// Requires: tests/support/ranks.h and engine_test_impl.h, included before.
#pragma once

#include <ATen/ops/ones.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/jit/api/module.h>

#include "weft/engine/zero3_nets_test_impl.h"

namespace weft {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Saves the parameter itself, and reads it in backward by an operator of its own.
struct ScaledMm : torch::autograd::Function<ScaledMm> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& weight) {
    ctx->save_for_backward({x, weight});
    return at::mm(x, weight) * 2;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    return {at::mm(grads[0], saved[1].t()) * 2, at::mm(saved[0].t(), grads[0]) * 2};
  }
};

inline Net custom_function() {
  return {{parameter({12, 16}, 1), parameter({16, 16}, 2), parameter({16, 4}, 3)}, [](const Net& net, int64_t sample) {
            const auto& p = net.parameters;
            at::Tensor x = ScaledMm::apply(input(net, sample, {5, 12}).set_requires_grad(true), p[0]).tanh();
            x = ScaledMm::apply(x, p[1]).tanh();
            return ScaledMm::apply(x, p[2]).pow(2).mean();
          }};
}

// Keeps the input of a block alone, and runs the block again in backward.
using Block = std::function<at::Tensor(const at::Tensor& x)>;
struct Recomputed : torch::autograd::Function<Recomputed> {
  // `anchor` requires a gradient, so that there is a backward whatever the input is.
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& /*anchor*/,
                            const Block* block) {
    ctx->save_for_backward({x});
    ctx->saved_data["block"] = reinterpret_cast<int64_t>(block);
    return (*block)(x);
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto* const block = reinterpret_cast<const Block*>(ctx->saved_data["block"].toInt());
    const at::AutoGradMode with_grad(true);
    const at::Tensor x = ctx->get_saved_variables()[0].detach().set_requires_grad(true);
    torch::autograd::backward({(*block)(x)}, {grads[0]});
    return {x.grad(), at::Tensor(), at::Tensor()};
  }
};

inline Net recomputed() {
  Net made{{parameter({12, 12}, 1), parameter({12}, 2), parameter({12, 12}, 3), parameter({12, 12}, 4)}, {}};
  const auto blocks = std::make_shared<std::vector<Block>>();
  for (const size_t first : {0, 2}) {
    const at::Tensor a = made.parameters[first], b = made.parameters[first + 1];
    blocks->emplace_back([a, b](const at::Tensor& x) {
      return (b.dim() == 1 ? at::mm(x, a) + b : at::mm(at::mm(x, a).tanh(), b)).tanh();
    });
  }
  made.loss = [blocks](const Net& net, int64_t sample) {
    at::Tensor x = input(net, sample, {5, 12});
    for (const Block& block : *blocks)
      x = Recomputed::apply(x, at::ones({1}, x.options()).set_requires_grad(true), &block);
    return x.pow(2).mean();
  };
  return made;
}

inline Net scripted() {
  const auto script = std::make_shared<torch::jit::Module>("Scripted");
  Net made{{parameter({12, 16}, 1), parameter({16}, 2), parameter({16, 16}, 3)}, {}};
  for (size_t i = 0; i < made.parameters.size(); ++i)
    script->register_parameter(cat("p", i), made.parameters[i], false);
  script->define(R"(
    def forward(self, x):
        x = torch.tanh(torch.mm(x, self.p0) + self.p1)
        for i in range(2):
            x = torch.tanh(torch.mm(x, self.p2))
        return torch.mean(torch.pow(x, 2))
  )");
  made.loss = [script](const Net& net, int64_t sample) {
    return script->forward({input(net, sample, {5, 12})}).toTensor();
  };
  return made;
}

// A hook of backward that reads a parameter which backward has no use for.
inline Net hooked() {
  return {{parameter({12, 16}, 1), parameter({16, 16}, 2), parameter({40}, 3)}, [](const Net& net, int64_t sample) {
            const auto p = net.parameters;
            const at::Tensor x = at::mm(input(net, sample, {5, 12}), p[0]).tanh();
            const at::Tensor y = at::mm(x, p[1]);
            y.register_hook(
                [p](const at::Tensor& grad) { return grad * (1 + p[2].detach().mean() + p[0].detach().mean()); });
            return y.pow(2).mean() + p[2].sum();
          }};
}

inline constexpr NetKind kCodeKinds[] = {
    {"custom_function", custom_function}, {"recomputed", recomputed}, {"scripted", scripted}, {"hooked", hooked}};

}  // namespace weft
