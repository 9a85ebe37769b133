#include "weft/optim/optimizer.h"

#include <ATen/Parallel.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>

#include <cmath>

#include "weft/base/error.h"
#include "weft/optim/optimizer_impl.h"

namespace weft::optim {
namespace {

struct Named {
  std::string_view name;
  UpdateSettings settings;
};

std::vector<Named> all_settings() {
  return {{"adamw", AdamSettings{.weight_decay = 0.1}},
          {"adam", AdamSettings{.weight_decay = 0.1, .decoupled = false}},
          {"adam without correction", AdamSettings{.bias_correction = false}},
          {"sgd", SgdSettings{.lr = 0.1, .weight_decay = 0.1}},
          {"sgd nesterov", SgdSettings{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.1, .nesterov = true}},
          {"sgd dampened", SgdSettings{.lr = 0.1, .momentum = 0.9, .dampening = 0.3}},
          {"lion", LionSettings{.weight_decay = 0.1}},
          {"adagrad", AdagradSettings{}},
          {"adagrad decayed", AdagradSettings{.lr_decay = 0.1, .weight_decay = 0.1, .initial_sum = 0.5}}};
}

FlatSlice slice_of(int64_t count, std::string name = "s") {
  return {.name = std::move(name), .param = at::randn({count}), .grad = at::randn({count})};
}

FlatSlice cloned(const FlatSlice& slice) {
  return {.name = slice.name, .param = slice.param.clone(), .grad = slice.grad.clone()};
}

void expect_equal_state(Optimizer& a, Optimizer& b, std::string_view what) {
  const NamedState left = a.state(), right = b.state();
  ASSERT_EQ(left.size(), right.size());
  for (size_t i = 0; i < left.size(); ++i) {
    EXPECT_EQ(left[i].first, right[i].first);
    EXPECT_TRUE(at::equal(left[i].second, right[i].second)) << what << " " << left[i].first;
  }
}

// What other devices run is run here on the CPU, where torch's kernels have the same order of operations (in whole
// vectors). Adagrad takes its square root from a library there that does not round correctly.
TEST(Optimizer, KernelsGiveTheBitsOfTorchsFusedOnes) {
  for (const auto& [name, settings] : all_settings()) {
    const FlatSlice start = slice_of(4096);
    const auto* const sgd = std::get_if<SgdSettings>(&settings);
    const auto state = [&] {
      const at::Tensor momentum = sgd != nullptr && sgd->momentum == 0 ? at::Tensor() : at::zeros({4096});
      return std::vector<SliceState>{{cloned(start), momentum, sgd != nullptr ? at::Tensor() : at::zeros({4096})}};
    };
    auto ours = state(), torchs = state();
    for (int64_t step = 1; step <= 5; ++step) {
      ours[0].slice.grad = at::randn({4096});
      torchs[0].slice.grad = ours[0].slice.grad.clone();
      step_with_kernels(settings, ours, 0.5, step);
      step_with_torch(settings, torchs, {.value = 0.5}, step);
    }
    const bool exact = !std::holds_alternative<AdagradSettings>(settings);
    const at::Tensor &a = ours[0].slice.param, &b = torchs[0].slice.param;
    EXPECT_TRUE(exact ? at::equal(a, b) : at::allclose(a, b, 1e-6, 1e-7)) << name;
    if (!exact) continue;
    for (const auto part : {&SliceState::momentum, &SliceState::variance}) {
      if (!(ours[0].*part).defined()) continue;
      EXPECT_TRUE(at::equal(ours[0].*part, torchs[0].*part)) << name;
    }
  }
}

TEST(Optimizer, ThreadsAndCutsDoNotChangeTheBits) {
  const int threads = at::get_num_threads();
  for (const auto& [name, settings] : all_settings()) {
    const FlatSlice start = slice_of(300'001);
    std::vector<at::Tensor> results;
    for (const int num_threads : {1, 2, 3}) {
      at::set_num_threads(num_threads);
      const FlatSlice whole = cloned(start);
      Optimizer optimizer({{settings, {whole}}});
      for (int i = 0; i < 3; ++i) optimizer.step();
      results.push_back(whole.param);
    }
    const FlatSlice cut = cloned(start);
    const auto part = [&](int64_t first, int64_t size, std::string part_name) {
      return FlatSlice{std::move(part_name), cut.param.narrow(0, first, size), cut.grad.narrow(0, first, size)};
    };
    Optimizer optimizer({{settings, {part(0, 77'777, "a"), part(77'777, 222'224, "b")}}});
    for (int i = 0; i < 3; ++i) optimizer.step();
    results.push_back(cut.param);
    for (const at::Tensor& result : results) EXPECT_TRUE(at::equal(result, results.front())) << name;
  }
  at::set_num_threads(threads);
}

TEST(Optimizer, AResumedOneGoesOnWithTheSameBits) {
  for (const auto& [name, settings] : all_settings()) {
    const FlatSlice whole = slice_of(1000), saved = cloned(whole);
    Optimizer all({{settings, {whole}}}), first({{settings, {saved}}});
    for (int i = 0; i < 3; ++i) all.step(), first.step();
    const FlatSlice resumed = cloned(saved);
    Optimizer second({{settings, {resumed}}});
    const NamedState from = first.state(), into = second.state();
    for (size_t i = 0; i < from.size(); ++i) into[i].second.copy_(from[i].second);
    EXPECT_EQ(second.num_steps(), 3);
    for (int i = 0; i < 3; ++i) all.step(), second.step();
    EXPECT_TRUE(at::equal(whole.param, resumed.param)) << name;
    expect_equal_state(all, second, name);
  }
}

TEST(Optimizer, NamesItsState) {
  const auto names = [](const UpdateSettings& settings) {
    std::vector<std::string> out;
    for (const auto& [name, tensor] : Optimizer({{settings, {slice_of(3, "w")}}}).state()) out.push_back(name);
    return out;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(names(AdamSettings{}), (Names{"w.exp_avg", "w.exp_avg_sq", "step"}));
  EXPECT_EQ(names(LionSettings{}), (Names{"w.exp_avg", "step"}));
  EXPECT_EQ(names(SgdSettings{.momentum = 0.9}), (Names{"w.momentum_buffer", "step"}));
  EXPECT_EQ(names(SgdSettings{}), (Names{"step"}));
  EXPECT_EQ(names(AdagradSettings{}), (Names{"w.sum", "step"}));
  EXPECT_EQ(Optimizer({{AdamSettings{}, {slice_of(3)}}}).state_bytes(), 24);
}

TEST(Optimizer, AdagradsSumStartsWhereItIsTold) {
  Optimizer optimizer({{AdagradSettings{.initial_sum = 0.25}, {slice_of(3, "w")}}});
  EXPECT_TRUE(at::equal(optimizer.state().front().second, at::full({3}, 0.25)));
}

TEST(Optimizer, FollowsASchedule) {
  const FlatSlice slice = slice_of(8);
  Optimizer optimizer({{AdamSettings{.lr = 0.5}, {slice}}});
  const Schedule schedule = LinearLr{.start_factor = 0.5, .end_factor = 1, .total_iters = 2};
  for (const double expected : {0.25, 0.375, 0.5, 0.5}) {
    optimizer.follow(schedule);
    EXPECT_EQ(optimizer.lr(0), expected);
    optimizer.step();
  }
  optimizer.follow(OneCycle{.min_lr = 1, .max_lr = 2});
  EXPECT_GE(optimizer.lr(0), 1);
}

TEST(Optimizer, MixedPrecisionTakesHalfGradientsAndWritesHalfCopies) {
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf, at::kFloat}) {
    FlatSlice slice = slice_of(5000);
    slice.grad = slice.grad.to(type);
    slice.copy = at::zeros({5000}, type);
    const FlatSlice wide = {"s", slice.param.clone(), slice.grad.to(at::kFloat)};
    Optimizer a({{AdamSettings{}, {slice}}}), b({{AdamSettings{}, {wide}}});
    a.step(0.25), b.step(0.25);
    EXPECT_TRUE(at::equal(slice.param, wide.param));
    EXPECT_TRUE(at::equal(slice.copy, wide.param.to(type)));
  }
}

TEST(Optimizer, ParametersInBf16AreUpdatedInFp32AndRounded) {
  for (const at::ScalarType states : {at::kFloat, at::kBFloat16}) {
    const FlatSlice start = slice_of(4096);
    const FlatSlice narrow = {"s", start.param.to(at::kBFloat16), start.grad.to(at::kBFloat16)};
    Optimizer optimizer({{.settings = AdamSettings{.weight_decay = 0.1}, .slices = {narrow}, .state_type = states}});
    EXPECT_EQ(optimizer.state_bytes(), 2 * 4096 * (states == at::kFloat ? 4 : 2));
    std::vector<SliceState> wide = {
        {{"s", narrow.param.to(at::kFloat), narrow.grad.to(at::kFloat)}, at::zeros({4096}), at::zeros({4096})}};
    for (int64_t step = 1; step <= 5; ++step) {
      optimizer.step();
      step_with_torch(AdamSettings{.weight_decay = 0.1}, wide, {}, step);
      const auto round = [](at::Tensor& tensor, at::ScalarType type) { tensor = tensor.to(type).to(at::kFloat); };
      round(wide[0].slice.param, at::kBFloat16), round(wide[0].momentum, states), round(wide[0].variance, states);
    }
    EXPECT_TRUE(at::equal(narrow.param.to(at::kFloat), wide[0].slice.param));
    const NamedState state = optimizer.state();
    EXPECT_TRUE(at::equal(state[0].second.to(at::kFloat), wide[0].momentum)) << state[0].first;
    EXPECT_TRUE(at::equal(state[1].second.to(at::kFloat), wide[0].variance)) << state[1].first;
  }
}

TEST(Optimizer, RefusesNarrowParametersWhereItCannotUpdateThem) {
  const FlatSlice start = slice_of(64);
  FlatSlice narrow = {"s", start.param.to(at::kBFloat16), start.grad, {}, {{.first = 0, .count = 64}}};
  EXPECT_THROW(Optimizer({{LambSettings{}, {narrow}, 1}}), Error);
  EXPECT_THROW(Optimizer({{.settings = AdamSettings{}, .slices = {start}, .state_type = at::kBFloat16}}), Error);
  narrow.param = start.param.to(at::kHalf);
  EXPECT_THROW(Optimizer({{AdamSettings{}, {narrow}}}), Error);
}

TEST(Optimizer, TakesAnotherGradientTensor) {
  const FlatSlice slice = slice_of(100), other = cloned(slice);
  const at::Tensor grad = at::randn({100});
  Optimizer a({{AdamSettings{}, {slice}}}), b({{AdamSettings{}, {other}}});
  a.set_grad(0, 0, grad);
  other.grad.copy_(grad);
  a.step(), b.step();
  EXPECT_TRUE(at::equal(slice.param, other.param));
  EXPECT_THROW(a.set_grad(0, 0, at::randn({99})), Error);
}

TEST(Optimizer, RefusesShapesThatDoNotFit) {
  FlatSlice slice = slice_of(10);
  slice.grad = at::randn({11});
  EXPECT_THROW(Optimizer({{AdamSettings{}, {slice}}}), Error);
  slice = slice_of(10);
  slice.param = slice.param.to(at::kDouble);
  EXPECT_THROW(Optimizer({{AdamSettings{}, {slice}}}), Error);
}

TEST(Optimizer, AnEmptySliceIsNoTrouble) {
  Optimizer optimizer({{AdamSettings{}, {slice_of(0)}}, {LionSettings{}, {}}});
  optimizer.step();
  EXPECT_EQ(optimizer.num_steps(), 1);
}

// As on a rank that owns nothing of a group.
TEST(Optimizer, AGroupWithoutSlicesTakesAFactorOfTheDeviceToo) {
  Optimizer optimizer({{AdamSettings{}, {}}, {SgdSettings{}, {}}, {AdagradSettings{}, {}}});
  optimizer.step(at::scalar_tensor(0.5));
  optimizer.step(at::scalar_tensor(NAN));
  EXPECT_EQ(optimizer.num_steps(), 1) << "what was left out is none";
  EXPECT_EQ(optimizer.num_left_out(), 1);
}

TEST(Optimizer, AnUpdateLeftOutMovesNeitherScheduleNorSavedStep) {
  const Schedule schedule = LinearLr{.start_factor = 0.25, .end_factor = 1, .total_iters = 3};
  Optimizer optimizer({{AdamSettings{.lr = 1}, {}}});
  std::vector<double> rates;
  const auto step = [&](double factor) {
    optimizer.follow(schedule);
    rates.push_back(optimizer.lr(0));
    optimizer.step(at::scalar_tensor(factor));
  };
  for (const double factor : {1.0, static_cast<double>(NAN), static_cast<double>(INFINITY), 1.0}) step(factor);
  EXPECT_EQ(rates, (std::vector<double>{0.25, 0.5, 0.5, 0.5}));
  EXPECT_EQ(optimizer.state().back().second.item<int64_t>(), 2);
  optimizer.state().back().second.fill_(0);  // a state is loaded: counting goes on from there
  step(1);
  step(NAN);
  step(1);
  EXPECT_EQ(rates[4], 0.25);
  EXPECT_EQ(rates[6], 0.5);
  EXPECT_EQ(optimizer.num_left_out(), 3);
}

// A slice that joins later is stepped as one that begins now: what it would be in an optimizer of its own.
TEST(Optimizer, ASliceThatJoinsLaterCountsFromThere) {
  for (const auto& [name, settings] : all_settings()) {
    const FlatSlice early = slice_of(1'000, "early"), late = slice_of(500, "late"), same = cloned(late),
                    other = cloned(early);
    Optimizer first({{settings, {early}}}), alone({{settings, {same}}}), all_along({{settings, {other}}});
    for (int i = 0; i < 4; ++i) first.step(0.5);
    FlatSlice joining = late;
    joining.since = 4;
    Optimizer both({{settings, {joining, early}}});
    EXPECT_EQ(both.state().size(), 2 * first.state().size() - 1);
    for (const auto& [key, tensor] : first.state()) {
      for (const auto& [into, target] : both.state()) {
        if (into == key) target.copy_(tensor);
      }
    }
    for (int i = 0; i < 4; ++i) all_along.step(0.5);
    for (int i = 0; i < 3; ++i) both.step(0.5), alone.step(0.5), all_along.step(0.5);
    EXPECT_TRUE(at::equal(joining.param, same.param)) << name;
    EXPECT_TRUE(at::equal(early.param, other.param)) << name;
  }
}

TEST(Optimizer, TorchsKernelsCountForEachSliceToo) {
  for (const auto& [name, settings] : all_settings()) {
    const FlatSlice start = slice_of(4096);
    const auto* const sgd = std::get_if<SgdSettings>(&settings);
    const auto state = [&](int64_t since) {
      SliceState out{cloned(start), sgd != nullptr && sgd->momentum == 0 ? at::Tensor() : at::zeros({4096}),
                     sgd != nullptr ? at::Tensor() : at::zeros({4096})};
      out.slice.since = since;
      return out;
    };
    std::vector<SliceState> together = {state(0), state(0), state(7)}, young = {state(0)};
    step_with_torch(settings, together, {.value = 0.5}, 8);
    step_with_torch(settings, young, {.value = 0.5}, 1);
    EXPECT_TRUE(at::equal(together[2].slice.param, young[0].slice.param)) << name;
    EXPECT_TRUE(at::equal(together[0].slice.param, together[1].slice.param)) << name;
  }
}

TEST(Optimizer, TorchsOperatorsTakeSlicesWithoutElements) {
  const UpdateSettings all[] = {AdamSettings{}, AdamSettings{.decoupled = false}, SgdSettings{.momentum = 0.9},
                                LionSettings{}, AdagradSettings{}};
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    for (const UpdateSettings& settings : all) {
      const at::Tensor one = at::ones({1}), none = at::zeros({0});
      std::vector<SliceState> slices;
      for (const at::Tensor& param : {none, one}) {
        slices.push_back({{.name = "s", .param = param, .grad = at::ones_like(param).to(type)},
                          at::zeros_like(param),
                          at::zeros_like(param)});
      }
      step_with_torch(settings, slices, {.value = 0.5}, 1);
      step_with_torch(settings, std::span(slices).first(1), {.value = 0.5}, 2);
      EXPECT_LT(one.item<float>(), 1);
    }
  }
}

TEST(SumOfSquares, DoesNotDependOnThreads) {
  const at::Tensor grad = at::randn({500'003});
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const double one = sum_of_squares(grad).value();
  at::set_num_threads(3);
  EXPECT_EQ(sum_of_squares(grad).value(), one);
  at::set_num_threads(threads);
  EXPECT_NEAR(one, grad.to(at::kDouble).square().sum().item<double>(), 1e-9 * one);
  EXPECT_EQ(sum_of_squares(at::zeros({0})).value(), 0);
  ExactSum cut = sum_of_squares(grad.slice(0, 0, 32 * 77));
  cut.add(sum_of_squares(grad.slice(0, 32 * 77)));
  EXPECT_EQ(cut.value(), one);
}

}  // namespace
}  // namespace weft::optim
