#include "weft/engine/module_flops.h"

#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/lstm.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>

#include <map>
#include <set>

#include "tests/support/ranks.h"
#include "weft/engine/autocast.h"
#include "weft/engine/engine_test_impl.h"
#include "weft/engine/zero3_test_impl.h"

namespace weft::engine {
namespace {

namespace nn = torch::nn;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int64_t kBatch = 3, kSeq = 8, kHeads = 2, kDim = 16, kTokens = kBatch * kSeq;
constexpr int64_t kSquare = 2 * kTokens * kDim * kDim;        // of a layer that keeps the size
constexpr int64_t kMixing = 4 * kBatch * kSeq * kSeq * kDim;  // of attention

at::Tensor heads(const at::Tensor& x) { return x.view({kBatch, kSeq, kHeads, kDim / kHeads}).transpose(1, 2); }

at::Tensor attention(const at::Tensor& x) {
  return at::scaled_dot_product_attention(heads(x), heads(x), heads(x)).transpose(1, 2).reshape({kBatch, kSeq, kDim});
}

struct Block : nn::Module {
  nn::Linear in{nullptr}, out{nullptr};
  Block() {
    in = register_module("in", nn::Linear(kDim, kDim));
    out = register_module("out", nn::Linear(kDim, kDim));
  }
  at::Tensor forward(const at::Tensor& x) {
    return x + at::linear(attention(at::linear(x, in->weight, in->bias)), out->weight, out->bias);
  }
};

struct Net : nn::Module {
  std::vector<std::shared_ptr<Block>> blocks;
  nn::Linear head{nullptr};
  Net() {
    for (const char* name : {"first", "second"}) blocks.push_back(register_module(name, std::make_shared<Block>()));
    head = register_module("head", nn::Linear(nn::LinearOptions(kDim, 5).bias(false)));
  }
  at::Tensor forward(at::Tensor x) {
    for (const auto& block : blocks) x = block->forward(x);
    return at::linear(x, head->weight);
  }
};

at::Tensor input() { return at::rand({kBatch, kSeq, kDim}).requires_grad_(); }

FlopCount count_of(const ModelTensors& model, const std::function<void()>& what) {
  FlopCounter counter(&model);
  what();
  FlopCount count = counter.end();
  EXPECT_EQ(count.modules.at(0).flops.total() + count.elsewhere.total(), count.total);
  return count;
}

const ModuleRow& row(const FlopCount& count, const std::string& name) {
  for (const ModuleRow& one : count.modules)
    if (one.name == name) return one;
  ADD_FAILURE() << "no module " << name;
  return count.modules.at(0);
}

void expect_parts(const FlopCount& count, const std::string& name, int64_t forward, int64_t backward,
                  int64_t recomputed = 0) {
  const FlopParts& flops = row(count, name).flops;
  EXPECT_EQ(flops.forward, forward) << name;
  EXPECT_EQ(flops.backward, backward) << name;
  EXPECT_EQ(flops.recomputed, recomputed) << name;
}

void expect_blocks(const FlopCount& count, int64_t recomputed = 0) {
  for (const std::string block : {"first", "second"}) {
    for (const char* const layer : {".in", ".out"})
      expect_parts(count, block + layer, kSquare, 2 * kSquare, recomputed * kSquare);
    const int64_t whole = 2 * kSquare + kMixing;
    expect_parts(count, block, whole, 2 * whole, recomputed * whole);
  }
}

// What rule 3 rests on.
struct SeenNumbers {
  std::set<std::pair<uint64_t, int64_t>> products, nodes;
};
SeenNumbers& seen() {
  static SeenNumbers it;
  return it;
}

TEST(ModuleFlops, NodesHaveTheNumbersOfTheirOperators) {
  seen() = {};
  const auto handle = at::addGlobalCallback(
      at::RecordFunctionCallback([](const at::RecordFunction& function) -> std::unique_ptr<at::ObserverContext> {
        const std::string_view name = function.name();
        if (name == "aten::mm" && function.seqNr() >= 0) seen().products.emplace(function.threadId(), function.seqNr());
        if (name == "MmBackward0") seen().nodes.emplace(function.forwardThreadId(), function.seqNr());
        return nullptr;
      }));
  const at::Tensor a = at::rand({4, 4}).requires_grad_(), b = at::rand({4, 4}).requires_grad_();
  (at::mm(at::relu(at::mm(a, b)), b) + a).sum().backward();
  at::removeCallback(handle);
  EXPECT_EQ(seen().products.size(), 2U);
  EXPECT_EQ(seen().products, seen().nodes);
}

TEST(ModuleFlops, GivesProductsToTheirLayersAndAttentionToItsBlock) {
  Net net;
  const at::Tensor x = input();
  const FlopCount count = count_of(tensors_of(net), [&] { net.forward(x).sum().backward(); });
  expect_blocks(count);
  expect_parts(count, "head", 2 * kTokens * kDim * 5, 4 * kTokens * kDim * 5);
  EXPECT_EQ(count.elsewhere.total(), 0);
  EXPECT_EQ(row(count, "first.in").type, "Linear");
  EXPECT_EQ(row(count, "first").type, "Block");
  EXPECT_EQ(row(count, "first").num_parameters, 2 * (kDim * kDim + kDim));
  EXPECT_EQ(count.modules[static_cast<size_t>(row(count, "first.in").parent)].name, "first");
}

TEST(ModuleFlops, CountsEveryMicroStep) {
  Net net;
  const FlopCount count = count_of(tensors_of(net), [&] {
    for (int i = 0; i < 2; ++i) net.forward(input()).sum().backward();
  });
  expect_parts(count, "first.in", 2 * kSquare, 4 * kSquare);
  expect_parts(count, "second", 2 * (2 * kSquare + kMixing), 4 * (2 * kSquare + kMixing));
}

TEST(ModuleFlops, FollowsTheNarrowCopiesOfAutocast) {
  Net net;
  const at::Tensor x = input();
  const FlopCount count = count_of(tensors_of(net), [&] {
    at::Tensor y;
    {
      const Autocast narrow(at::kCPU, at::kBFloat16);
      y = at::mm(net.forward(x).view({kTokens, 5}).transpose(0, 1), x.detach().view({kTokens, kDim}));
    }
    y.sum().backward();
  });
  expect_blocks(count);
  EXPECT_GT(count.modules[0].flops.forward, row(count, "first").flops.forward * 2 + row(count, "head").flops.forward)
      << "the product after the last layer is the model's own";
  EXPECT_EQ(count.elsewhere.total(), 0);
}

TEST(ModuleFlops, GivesTiedWeightsToTheFirstOfThem) {
  const at::Tensor weight = at::rand({kDim, kDim}).requires_grad_(), x = at::rand({kTokens, kDim});
  const ModelTensors model{{{"token.weight", weight}, {"head.weight", weight}}, {}};
  const FlopCount count = count_of(model, [&] { at::linear(x, weight).sum().backward(); });
  expect_parts(count, "token", kSquare, kSquare);
  expect_parts(count, "head", 0, 0);
  EXPECT_EQ(count.modules[0].num_parameters, kDim * kDim);
  EXPECT_EQ(row(count, "head").num_parameters, 0);
}

TEST(ModuleFlops, FollowsWhatIsComputedFromWeightsAlone) {
  const at::Tensor direction = at::rand({kDim, kDim}).requires_grad_(), size = at::rand({kDim, 1}).requires_grad_();
  const ModelTensors model{{{"a.other", at::rand({2}).requires_grad_()}, {"b.v", direction}, {"b.g", size}}, {}};
  const at::Tensor x = at::rand({kTokens, kDim}).requires_grad_();
  const FlopCount count =
      count_of(model, [&] { at::linear(x, direction * size / direction.norm(2, 1, true)).sum().backward(); });
  expect_parts(count, "b", kSquare, 2 * kSquare);
}

// Fused or not.
TEST(ModuleFlops, GivesRecurrentLayersToTheirModule) {
  const at::Tensor x = at::rand({kSeq, kBatch, kDim}).requires_grad_();
  const at::Tensor first = at::rand({1, kBatch, kDim}).requires_grad_();
  std::vector<at::Tensor> weights;
  ModelTensors model;
  for (const int64_t columns : {kDim, kDim}) {
    weights.push_back(at::rand({4 * kDim, columns}).requires_grad_());
    model.parameters.emplace_back(cat("rnn.", weights.size()), weights.back());
  }
  const FlopCount count = count_of(model, [&] {
    std::get<0>(at::lstm(x, {first, first}, weights, false, 1, 0.0, true, false, false)).sum().backward();
  });
  expect_parts(count, "rnn", 8 * kSquare, 16 * kSquare);
}

// A parameter is found by where it lies in its bucket, a part of it too.
TEST(ModuleFlops, TellsParametersOfOneBucketApart) {
  const at::Tensor flat = at::rand({3 * kDim * kDim});
  const auto part = [&](int64_t i) { return flat.narrow(0, i * kDim * kDim, kDim * kDim).view({kDim, kDim}); };
  const ModelTensors model{{{"a.weight", part(0)}, {"b.weight", part(1)}}, {}};
  const at::Tensor x = at::rand({kTokens, kDim}).requires_grad_();
  const FlopCount count = count_of(model, [&] {
    at::mm(x, part(0).t());
    at::mm(x, part(1).narrow(0, 4, 8).t());
    at::mm(x, part(2).t());
    flat.mul(2);
  });
  expect_parts(count, "a", kSquare, 0);
  expect_parts(count, "b", kSquare / 2, 0);
  EXPECT_EQ(count.modules[0].flops.total(), 5 * kSquare / 2);
}

// As torch.utils.checkpoint does it.
struct Recomputed : torch::autograd::Function<Recomputed> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, std::function<at::Tensor(at::Tensor)> what) {
    ctx->save_for_backward({x});
    const at::Tensor y = what(x);
    ctx->saved_data["again"] = static_cast<int64_t>(kept().size());
    kept().push_back(std::move(what));
    return y;
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const at::Tensor x = ctx->get_saved_variables()[0].detach().requires_grad_();
    const at::AutoGradMode with_gradients(true);
    const at::Tensor y = kept()[static_cast<size_t>(ctx->saved_data["again"].toInt())](x);
    torch::autograd::backward({y}, {gradients[0]});
    return {x.grad(), at::Tensor()};
  }
  static std::vector<std::function<at::Tensor(at::Tensor)>>& kept() {
    static std::vector<std::function<at::Tensor(at::Tensor)>> all;
    return all;
  }
};

TEST(ModuleFlops, TellsWhatIsComputedAgain) {
  Net net;
  const at::Tensor x = input();
  const FlopCount count = count_of(tensors_of(net), [&] {
    at::Tensor y = x;
    for (const auto& block : net.blocks)
      y = Recomputed::apply(y, [block](const at::Tensor& it) { return block->forward(it); });
    at::linear(y, net.head->weight).sum().backward();
  });
  expect_blocks(count, 1);
  expect_parts(count, "head", 2 * kTokens * kDim * 5, 4 * kTokens * kDim * 5);
  EXPECT_EQ(count.elsewhere.total(), 0);
  Recomputed::kept().clear();
}

// A layer whose backward is the user's own.
struct OwnLinear : torch::autograd::Function<OwnLinear> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& weight) {
    ctx->save_for_backward({x, weight});
    return at::mm(x, weight);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const auto saved = ctx->get_saved_variables();
    return {at::mm(gradients[0], saved[1].t()), at::mm(saved[0].t(), gradients[0])};
  }
};

TEST(ModuleFlops, KnowsFunctionsOfTheUsersOwn) {
  Net net;
  const at::Tensor x = at::rand({kTokens, kDim}).requires_grad_();
  const FlopCount count = count_of(tensors_of(net), [&] {
    OwnLinear::apply(at::linear(x, net.blocks[0]->in->weight), net.blocks[0]->out->weight).sum().backward();
  });
  expect_parts(count, "first.in", kSquare, 2 * kSquare);
  expect_parts(count, "first.out", kSquare, 2 * kSquare);
}

TEST(ModuleFlops, LeavesProductsOfAnOptimizerElsewhere) {
  Net net;
  const at::Tensor x = input();
  const FlopCount count = count_of(tensors_of(net), [&] {
    net.forward(x).sum().backward();
    const at::NoGradGuard without;
    for (const auto& block : net.blocks) {
      const at::Tensor& gradient = block->in->weight.grad();
      block->in->weight.add_(at::mm(gradient, gradient), -1e-3);
    }
  });
  expect_blocks(count);
  EXPECT_EQ(count.elsewhere.forward, 2 * 2 * kDim * kDim * kDim);
}

TEST(ModuleFlops, HasRowsForFunctionsOverNamedTensors) {
  const Model model;
  const FlopCount count = count_of(model.tensors(), [&] { model.loss(1).backward(); });
  expect_parts(count, "first", 2 * 5 * 24 * 40, 2 * 5 * 24 * 40);
  expect_parts(count, "second", 2 * 5 * 40 * 8, 2 * 2 * 5 * 40 * 8);
  EXPECT_EQ(row(count, "first").depth, 1);
  EXPECT_EQ(count.modules[0].name, "");
}

TEST(ModuleFlops, FindsParametersOfWhichRanksHaveSlices) {
  const std::string run = fresh_run();
  test::run_ranks_as_threads(2, [&](test::RankContext& ctx) {
    const Model model;
    Engine engine(model.tensors(), settings(2, 1, kTight), world(run, ctx.rank(), 2));
    const auto step = [&](int64_t sample) {
      engine.backward(model.loss(sample));
      engine.step();
    };
    for (int i = 0; i < 3; ++i) step(i);
    if (ctx.rank() != 0) return step(3);
    const FlopCount count = count_of(model.tensors(), [&] { step(3); });  // the other rank's are elsewhere
    expect_parts(count, "first", 2 * 5 * 24 * 40, 2 * 5 * 24 * 40);
    expect_parts(count, "second", 2 * 5 * 40 * 8, 2 * 2 * 5 * 40 * 8);
  });
}

TEST(ModuleTree, FollowsFromNames) {
  const at::Tensor one = at::rand({1});
  const ModuleTree tree(ModelTensors{{{"a.x.w", one}, {"b.w", one}, {"a.y.w", one}}, {{"c", one}}});
  std::vector<std::string> names;
  for (const int number : tree.in_order()) names.push_back(tree.modules()[static_cast<size_t>(number)].name);
  EXPECT_EQ(names, (std::vector<std::string>{"", "a", "a.x", "a.y", "b", "c"}));
  EXPECT_EQ(tree.common(tree.owner_of("a.x.w"), tree.owner_of("a.y.w")), 1);
  EXPECT_EQ(tree.common(tree.owner_of("a.x.w"), tree.owner_of("b.w")), ModuleTree::kModel);
}

TEST(ModuleTree, ShortensTypes) {
  EXPECT_EQ(short_type("torch::nn::LinearImpl"), "Linear");
  EXPECT_EQ(short_type("mine::Block"), "Block");
  EXPECT_EQ(short_type("Impl"), "Impl");
  EXPECT_EQ(short_type("mine::Box<torch::nn::LinearImpl>"), "Box<torch::nn::LinearImpl>");
}

}  // namespace
}  // namespace weft::engine
