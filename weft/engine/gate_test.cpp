#include "weft/engine/gate.h"

#include <ATen/TensorIndexing.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/add.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/index.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <ATen/record_function.h>
#include <gtest/gtest.h>
#include <torch/library.h>

#include <algorithm>
#include <stdexcept>
#include <thread>

#include "weft/base/text.h"

namespace weft::engine {
namespace {

class GateTest : public testing::Test {
 protected:
  // Touched since the last call.
  std::vector<int> touched() { return std::exchange(touched_, {}); }

  at::Tensor a_ = at::zeros({16}), b_ = at::zeros({16});
  std::vector<int> touched_;
  Gate gate_{{a_, b_}, {.touched = [this](const GateTouch& touch) { touched_.push_back(touch.number); }}};
};

using TensorNumbers = std::vector<int>;

TEST_F(GateTest, TheFirstTouchOfEachIsTold) {
  gate_.close();
  EXPECT_EQ(touched(), TensorNumbers{});
  const at::Tensor other = at::ones({16}) + 1;
  EXPECT_EQ(touched(), TensorNumbers{}) << "the others are not followed";
  const at::Tensor sum = other + b_;
  EXPECT_EQ(touched(), TensorNumbers{1});
  const at::Tensor again = other + b_;
  EXPECT_EQ(touched(), TensorNumbers{});
  const at::Tensor last = a_ * 2;
  EXPECT_EQ(touched(), TensorNumbers{0});
}

TEST_F(GateTest, TheValueIsThereBeforeTheOperatorRuns) {
  Gate filling({a_}, {.touched = [this](const GateTouch&) { a_.fill_(3); }});
  filling.close();
  EXPECT_EQ((a_ + 1).sum().item<float>(), 64);
}

TEST_F(GateTest, ViewsAndSavedTensorsCount) {
  const at::Tensor view = a_.narrow(0, 4, 4).view({2, 2});
  const at::Tensor weight = b_.narrow(0, 0, 4).view({2, 2}).detach().set_requires_grad(true);
  const at::Tensor input = at::ones({2, 2}).set_requires_grad(true);
  const at::Tensor out = at::mm(input, weight).sum();
  gate_.close();
  EXPECT_EQ(view.numel(), 4);
  EXPECT_EQ(touched(), TensorNumbers{}) << "a size is not read from memory";
  EXPECT_EQ(at::mm(view, view).sum().item<float>(), 0);
  EXPECT_EQ(touched(), TensorNumbers{0});
  out.backward();
  EXPECT_EQ(touched(), TensorNumbers{1}) << "autograd saved it before the gate was closed";
}

TEST_F(GateTest, ListsAreLookedInto) {
  gate_.close();
  at::cat({at::ones({2}), b_});
  EXPECT_EQ(touched(), TensorNumbers{1});
  at::ones({20}).index({a_.to(at::kLong)});
  EXPECT_EQ(touched(), TensorNumbers{0});
}

TEST_F(GateTest, OpenAgainNobodyIsTold) {
  gate_.close();
  gate_.open();
  EXPECT_EQ((a_ + b_).sum().item<float>(), 0);
  EXPECT_EQ(touched(), TensorNumbers{});
  gate_.close();
  EXPECT_EQ((a_ + b_).sum().item<float>(), 0);
  EXPECT_EQ(touched(), (TensorNumbers{0, 1})) << "and it can be closed once more";
}

TEST_F(GateTest, OtherThreadsAreSeenAndThoseThatDoNotWatchAreNot) {
  gate_.close();
  std::thread([&] {
    const at::DisableRecordFunctionGuard unwatched;
    a_.add_(1);
  }).join();
  EXPECT_EQ(touched(), TensorNumbers{});
  std::thread([&] { a_.add_(1); }).join();
  EXPECT_EQ(touched(), TensorNumbers{0});
}

TEST_F(GateTest, EveryTouchIsToldUntilItIsSettled) {
  bool settled = false;
  int num_touches = 0;
  Gate gate({a_, b_}, {.touched = [&](const GateTouch&) { ++num_touches; }, .settled = [&](int) { return settled; }});
  gate.close();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(a_.sum().item<float>(), 0);
  EXPECT_GE(num_touches, 3);
  settled = true;
  num_touches = 0;
  for (int i = 0; i < 3; ++i) EXPECT_EQ(at::add(a_, b_).numel(), 16);
  EXPECT_EQ(num_touches, 2) << "each once more, and the gate is open";
}

TEST_F(GateTest, AFailureIsKeptForTheOwner) {
  Gate failing({a_}, {.touched = [](const GateTouch&) { throw std::runtime_error("a peer is gone"); }});
  failing.close();
  failing.rethrow();
  EXPECT_NO_THROW(a_ + 1);
  EXPECT_THROW(failing.rethrow(), std::runtime_error);
}

// Every touch, from before the operator until after it, and whether it has written.
class GateThatStays : public testing::Test {
 protected:
  std::vector<std::string> events() { return std::exchange(events_, {}); }

  at::Tensor a_ = at::zeros({16}), b_ = at::zeros({16});
  std::vector<std::string> events_;
  Gate gate_{
      {a_, b_},
      {.touched =
           [this](const GateTouch& touch) {
             events_.push_back(cat(touch.is_first ? "" : "also ", "touch ", touch.number));
           },
       .passed = [this](int number, bool writes) { events_.push_back(cat(writes ? "wrote " : "read ", number)); }}};
};

using Events = std::vector<std::string>;

TEST_F(GateThatStays, EveryOperatorIsTold) {
  gate_.close();
  for (int i = 0; i < 2; ++i) {
    const at::Tensor sum = at::add(a_, b_);
    EXPECT_EQ(events(), (Events{"touch 0", "also touch 1", "read 0", "read 1"}));
  }
}

TEST_F(GateThatStays, WritesAreTold) {
  gate_.close();
  a_.add_(b_);
  EXPECT_EQ(events(), (Events{"touch 0", "also touch 1", "wrote 0", "read 1"}));
  at::Tensor other = at::ones({16});
  events();
  other.copy_(a_);
  EXPECT_EQ(events(), (Events{"touch 0", "read 0"}));
  at::mul_out(a_, other, other);
  EXPECT_EQ(events(), (Events{"touch 0", "wrote 0"}));
  const std::vector<at::Tensor> both = {a_, b_};
  at::_foreach_add_(both, 1);
  const Events got = events();
  EXPECT_NE(std::ranges::find(got, "wrote 0"), got.end());
  EXPECT_NE(std::ranges::find(got, "wrote 1"), got.end());
}

// An operator of a user's own, whose name does not tell.
void scale(at::Tensor x, const at::Tensor& y) { x.mul_(y); }
TORCH_LIBRARY(weft_gate_test, library) {
  library.def("scale(Tensor(a!) x, Tensor y) -> ()");
  library.impl("scale", torch::dispatch(c10::DispatchKey::CompositeExplicitAutograd, scale));
}

TEST_F(GateThatStays, TheSchemaSaysWhatIsWritten) {
  const auto op = c10::Dispatcher::singleton()
                      .findSchemaOrThrow("weft_gate_test::scale", "")
                      .typed<void(at::Tensor, const at::Tensor&)>();
  for (int twice = 0; twice < 2; ++twice) {
    gate_.close();
    op.call(a_, b_);
    const Events got = events();
    ASSERT_GE(got.size(), 2U);
    EXPECT_EQ(got[got.size() - 2], "wrote 0");
    EXPECT_EQ(got.back(), "read 1");
    gate_.open();
  }
}

TEST_F(GateThatStays, ComposedOperatorsHoldUntilTheirEnd) {
  gate_.close();
  const at::Tensor in = at::ones({2, 4});
  at::linear(in, a_.narrow(0, 0, 8).view({2, 4}));
  const Events got = events();
  EXPECT_EQ(std::ranges::count(got, "touch 0"), std::ranges::count(got, "read 0"));
  EXPECT_EQ(got.back(), "read 0");
}

}  // namespace
}  // namespace weft::engine
