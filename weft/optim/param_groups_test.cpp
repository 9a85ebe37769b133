// Several parameter groups in one optimizer: each has its own settings, rate, betas and schedule values.
#include <ATen/Context.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <array>

#include "weft/base/error.h"
#include "weft/base/text.h"
#include "weft/config/hjson.h"
#include "weft/optim/core/schedule_settings.h"
#include "weft/optim/optimizer.h"

namespace weft::optim {
namespace {

constexpr size_t kNumGroups = 4;

// As usual: decay for matrices, none for the rest, another rate for a head; and another optimizer, since nothing forbids it.
std::array<UpdateSettings, kNumGroups> settings() {
  return {AdamSettings{.lr = 0.1, .weight_decay = 0.1}, AdamSettings{.lr = 0.1},
          AdamSettings{.lr = 0.02, .beta1 = 0.8, .eps = 1e-6}, SgdSettings{.lr = 0.5, .momentum = 0.9}};
}

std::vector<FlatSlice> slices() {
  at::manual_seed(7);
  std::vector<FlatSlice> out;
  for (size_t i = 0; i < kNumGroups; ++i) {
    out.push_back({.name = cat("s", i), .param = at::randn({1'000}), .grad = at::randn({1'000})});
  }
  return out;
}

Optimizer together(const std::vector<FlatSlice>& of) {
  std::vector<ParamGroup> groups;
  for (size_t i = 0; i < kNumGroups; ++i) groups.push_back({settings()[i], {of[i]}});
  return Optimizer(std::move(groups));
}

std::vector<Optimizer> apart(const std::vector<FlatSlice>& of) {
  std::vector<Optimizer> out;
  for (size_t i = 0; i < kNumGroups; ++i) out.push_back(Optimizer({{settings()[i], {of[i]}}}));
  return out;
}

void expect_equal(const std::vector<FlatSlice>& a, const std::vector<FlatSlice>& b) {
  for (size_t i = 0; i < kNumGroups; ++i) EXPECT_TRUE(at::equal(a[i].param, b[i].param)) << "group " << i;
}

Schedule schedule_of(std::string_view type, std::string_view params, size_t num_groups) {
  const auto source = std::make_shared<const config::Source>("params", std::string(params));
  return read_schedule({.type = std::string(type), .params = config::parse_hjson(source)}, num_groups);
}

TEST(ParamGroups, AreEachAnOptimizerOfTheirOwn) {
  const auto a = slices(), b = slices();
  Optimizer one = together(a);
  std::vector<Optimizer> several = apart(b);
  for (int i = 0; i < 5; ++i) {
    one.step(0.5);
    for (Optimizer& each : several) each.step(0.5);
  }
  expect_equal(a, b);
  EXPECT_FALSE(at::equal(a[0].param, slices()[0].param));
}

TEST(ParamGroups, SliceBySliceInAnyOrderIsTheSame) {
  const auto a = slices(), b = slices();
  Optimizer whole = together(a), by_slice = together(b);
  for (int i = 0; i < 3; ++i) {
    whole.step();
    by_slice.begin_step();
    for (const size_t group : {2, 0, 3, 1}) by_slice.step_slice(group, 0);
  }
  expect_equal(a, b);
}

TEST(ParamGroups, AScheduleMovesEachFromItsOwnRate) {
  const auto of = slices();
  Optimizer optimizer = together(of);
  const Schedule schedule = LinearLr{.start_factor = 0.5, .end_factor = 1, .total_iters = 2};
  for (const double factor : {0.5, 0.75, 1.0}) {
    optimizer.follow(schedule);
    for (size_t i = 0; i < kNumGroups; ++i) EXPECT_DOUBLE_EQ(optimizer.lr(i), factor * lr_of(settings()[i])) << i;
    optimizer.step();
  }
}

TEST(ParamGroups, AScheduleMayHaveAValueForEach) {
  const auto a = slices(), b = slices();
  Optimizer one = together(a);
  std::vector<Optimizer> several = apart(b);
  const Schedule all = schedule_of(
      "WarmupLR", "{warmup_num_steps: 4, warmup_min_lr: [0, 1e-3, 2e-3, 3e-3], warmup_max_lr: [0.1, 0.2, 0.3, 0.4]}",
      kNumGroups);
  for (int step = 0; step < 6; ++step) {
    one.follow(all);
    for (size_t i = 0; i < kNumGroups; ++i) {
      several[i].follow(WarmupLr{.min_lr = 1e-3 * static_cast<double>(i),
                                 .max_lr = PerGroup(std::array{0.1, 0.2, 0.3, 0.4}[i]),
                                 .warmup = {.num_steps = 4}});
      EXPECT_EQ(one.lr(i), several[i].lr(0)) << "step " << step << " group " << i;
      several[i].step();
    }
    one.step();
  }
  EXPECT_EQ(one.lr(3), 0.4);
  expect_equal(a, b);
}

TEST(ParamGroups, BetasOfACycleMayDifferToo) {
  const auto a = slices(), b = slices();
  Optimizer one = together(a), other = together(b);
  const Schedule cycle = schedule_of("OneCycle",
                                     "{cycle_min_lr: 0.01, cycle_max_lr: 0.1, cycle_first_step_size: 3, "
                                     "cycle_min_mom: [0.5, 0.6, 0.7, 0.8], cycle_max_mom: [0.9, 0.9, 0.95, 0.9]}",
                                     kNumGroups);
  for (int step = 0; step < 4; ++step) {
    one.follow(cycle);
    for (size_t i = 0; i < kNumGroups; ++i) {
      other.set_lr(i, lr_at(cycle, step, 0, i));
      other.set_betas(i, *betas_at(cycle, step, i));
    }
    one.step(), other.step();
  }
  expect_equal(a, b);
  EXPECT_NE(betas_at(cycle, 1, 0)->first, betas_at(cycle, 1, 2)->first);
}

TEST(ParamGroups, AreResumedTogether) {
  const auto a = slices(), b = slices();
  const Schedule schedule = LinearLr{.start_factor = 0.5, .end_factor = 1, .total_iters = 4};
  const auto steps = [&](Optimizer& optimizer) {
    for (int i = 0; i < 3; ++i) optimizer.follow(schedule), optimizer.step();
  };
  Optimizer whole = together(a), first = together(b);
  steps(whole), steps(first);
  Optimizer second = together(b);
  const NamedState from = first.state(), into = second.state();
  ASSERT_EQ(from.size(), 2U * 3 + 1 + 1);
  for (size_t i = 0; i < from.size(); ++i) into[i].second.copy_(from[i].second);
  steps(whole), steps(second);
  expect_equal(a, b);
}

TEST(ParamGroups, ListsOfAnotherLengthAreRefused) {
  EXPECT_THROW(schedule_of("WarmupLR", "{warmup_max_lr: [0.1, 0.2]}", kNumGroups), Error);
}

TEST(ParamGroups, TwoSlicesOfOneNameAreRefused) {
  const FlatSlice slice = {.name = "s", .param = at::zeros({3}), .grad = at::zeros({3})};
  EXPECT_THROW(Optimizer({{AdamSettings{}, {slice}}, {SgdSettings{}, {slice}}}), Error);
}

}  // namespace
}  // namespace weft::optim
