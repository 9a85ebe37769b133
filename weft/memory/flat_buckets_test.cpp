#include "weft/memory/flat_buckets.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

namespace weft::memory {
namespace {

struct Model {
  std::vector<at::Tensor> tensors;
  plan::ParameterTable table;
};

at::Tensor numbers(int64_t count, float first) {
  return at::arange(count, at::kFloat).add_(first).set_requires_grad(true);
}

Model three_parameters() {
  std::vector<at::Tensor> tensors = {numbers(6, 0).detach().view({2, 3}).clone().set_requires_grad(true),
                                     numbers(5, 100), numbers(1, 7)};
  return {tensors, plan::ParameterTable(
                       {{.name = "a", .shape = {2, 3}}, {.name = "b", .shape = {5}}, {.name = "c", .shape = {1}}})};
}

plan::Plan plan_for(const plan::ParameterTable& table, int64_t bucket_elements = 1000) {
  return make_plan(table, {.layout = {.world = 2, .bucket_elements = bucket_elements, .first_bucket_bytes = 0}});
}

FlatOptions plain_memory() {
  return {.allocate_gradients = [](int64_t count, at::ScalarType type) { return at::zeros({count}, type); }};
}

bool same(const at::Tensor& a, const at::Tensor& b) { return a.equal(b); }

TEST(FlatBuckets, ParametersKeepTheirValuesAndIdentity) {
  auto model = three_parameters();
  std::vector<at::Tensor> before;
  for (const auto& tensor : model.tensors) before.push_back(tensor.detach().clone());
  FlatBuckets buckets(plan_for(model.table), model.tensors, plain_memory());
  buckets.fill();
  buckets.lay_in();
  for (int i = 0; i < 3; ++i) {
    const auto& tensor = model.tensors[static_cast<size_t>(i)];
    EXPECT_TRUE(same(tensor.detach(), before[static_cast<size_t>(i)]));
    EXPECT_TRUE(tensor.requires_grad());
    EXPECT_EQ(tensor.const_data_ptr(), buckets.parameter_view(i).const_data_ptr());
  }
  buckets.parameters(0).fill_(3);
  EXPECT_TRUE(same(model.tensors[0].detach(), at::ones({2, 3}).mul_(3)));
}

using Attached = FlatBuckets::Attached;

TEST(FlatBuckets, TheFirstGradientIsCopiedInAndAutogradAddsTheNext) {
  auto model = three_parameters();
  FlatBuckets buckets(plan_for(model.table), model.tensors, plain_memory());
  buckets.fill();
  buckets.lay_in();
  for (int step = 0; step < 2; ++step) {
    model.tensors[0].mul(model.tensors[0]).sum().backward();
    EXPECT_FALSE(buckets.is_in_place(0));
    EXPECT_EQ(buckets.attach_gradient(0), Attached::kNow);
    model.tensors[0].mul(model.tensors[0]).sum().backward();
    EXPECT_EQ(buckets.attach_gradient(0), Attached::kBefore);
    EXPECT_TRUE(same(buckets.gradient_view(0), model.tensors[0].detach().mul(4)));
    buckets.forget_gradients();
    EXPECT_FALSE(model.tensors[0].grad().defined());
  }
}

TEST(FlatBuckets, AnAbsentGradientIsZeros) {
  auto model = three_parameters();
  FlatBuckets buckets(plan_for(model.table), model.tensors, plain_memory());
  buckets.fill();
  buckets.lay_in();
  buckets.gradients(0).fill_(3);  // of the step before
  EXPECT_EQ(buckets.attach_gradient(1), Attached::kAbsent);
  EXPECT_EQ(buckets.gradient_view(1).abs().sum().item<float>(), 0);
  EXPECT_EQ(buckets.gradient_view(0).sum().item<float>(), 18);
}

TEST(FlatBuckets, ASparseGradientBecomesDense) {
  auto model = three_parameters();
  FlatBuckets buckets(plan_for(model.table), model.tensors, plain_memory());
  buckets.fill();
  buckets.lay_in();
  at::Tensor dense = at::zeros({5});
  dense[3] = 9;
  model.tensors[1].mutable_grad() = dense.to_sparse();
  EXPECT_EQ(buckets.attach_gradient(1), Attached::kSparse);
  EXPECT_TRUE(same(buckets.gradient_view(1), dense));
  EXPECT_EQ(buckets.attach_gradient(1), Attached::kBefore);
}

TEST(FlatBuckets, AParameterThatWasGivenOtherMemoryIsSeen) {
  auto model = three_parameters();
  FlatBuckets buckets(plan_for(model.table), model.tensors, plain_memory());
  EXPECT_FALSE(buckets.holds_parameter(2));
  buckets.fill();
  buckets.lay_in();
  EXPECT_TRUE(buckets.holds_parameter(2));
  model.tensors[2].set_data(at::ones({1}));
  EXPECT_FALSE(buckets.holds_parameter(2));
}

void pack(FlatBuckets& buckets, int bucket) {
  buckets.begin_packing(bucket);
  for (const auto& place : buckets.layout().bucket(bucket).places) buckets.pack_gradient(place.parameter);
}

TEST(FlatBuckets, PackedGradientsGoInAndComeBack) {
  auto model = three_parameters();
  FlatBuckets buckets(plan_for(model.table, 6), model.tensors, plain_memory());
  buckets.fill();
  buckets.lay_in();
  model.tensors[0].mutable_grad() = at::ones({2, 3});
  for (int bucket = 0; bucket < buckets.size(); ++bucket) {
    pack(buckets, bucket);
    buckets.gradients(bucket).mul_(5);
    buckets.unpack_gradients(bucket);
  }
  EXPECT_TRUE(same(model.tensors[0].grad(), at::ones({2, 3}).mul_(5)));
  EXPECT_FALSE(model.tensors[1].grad().defined());
}

TEST(FlatBuckets, AGradientThatComesAgainIsAddedAsAutogradDoes) {
  const at::Tensor parameter = at::ones({5}, at::kBFloat16).set_requires_grad(true);
  const plan::ParameterTable table({{.name = "a", .shape = {5}, .dtype = plan::Dtype::kBf16}});
  FlatBuckets buckets(plan_for(table), {parameter}, plain_memory());
  const at::Tensor first = at::ones({5}, at::kBFloat16), again = first.div(256);
  parameter.mutable_grad() = first;
  pack(buckets, 0);
  buckets.forget_gradient(0);
  parameter.mutable_grad() = again;
  buckets.take_back_gradient(0);
  EXPECT_TRUE(same(parameter.grad(), first.add(again))) << "rounded to bf16, as a sum of two is";
}

TEST(FlatBuckets, BucketsTakeTurnsInBuffers) {
  auto model = three_parameters();
  auto options = plain_memory();
  options.num_buffers = 2;
  FlatBuckets buckets(plan_for(model.table, 1), model.tensors, options);
  ASSERT_EQ(buckets.size(), 3);
  EXPECT_EQ(buckets.num_buffers(), 2);
  EXPECT_EQ(buckets.buffer(0), buckets.buffer(2));
  EXPECT_NE(buckets.buffer(0), buckets.buffer(1));
  EXPECT_EQ(buckets.gradients(0).const_data_ptr(), buckets.gradients(2).const_data_ptr());
  buckets.gradients(0).fill_(8);  // of another bucket
  for (const auto& tensor : model.tensors) tensor.mutable_grad() = at::ones_like(tensor.detach());
  pack(buckets, 2);
  const int64_t used = buckets.layout().bucket(2).used_elements();
  EXPECT_EQ(buckets.gradients(2).sum().item<float>(), static_cast<float>(used)) << "nothing else is left in the buffer";
  buckets.forget_gradients(2);
  EXPECT_FALSE(model.tensors[0].grad().defined());
  EXPECT_TRUE(model.tensors[1].grad().defined());
}

TEST(FlatBuckets, GradientsComeAndGo) {
  auto model = three_parameters();
  FlatOptions options = plain_memory();
  options.gradients_come_and_go = true;
  FlatBuckets buckets(plan_for(model.table), model.tensors, options);
  const auto has_memory = [&] {
    return buckets.gradients(0).storage().unsafeGetStorageImpl()->_mutable_data_ptr_no_checks().get() != nullptr;
  };
  EXPECT_FALSE(has_memory());
  const at::Tensor slice = slice_of(buckets.gradients(0), 0, 2);
  for (int step = 0; step < 2; ++step) {
    model.tensors[1].mutable_grad() = at::ones({5});
    EXPECT_EQ(buckets.attach_gradient(1), Attached::kNow);
    EXPECT_EQ(buckets.attach_gradient(0), Attached::kAbsent);
    EXPECT_EQ(buckets.attach_gradient(2), Attached::kAbsent);
    EXPECT_EQ(buckets.gradients(0).sum().item<float>(), 5) << "what lies between parameters is zero";
    EXPECT_EQ(slice.const_data_ptr(), buckets.gradients(0).const_data_ptr()) << "views follow";
    buckets.forget_gradients();
    EXPECT_FALSE(has_memory());
    EXPECT_FALSE(model.tensors[1].grad().defined());
  }
}

TEST(FlatBuckets, ParametersAreLaidInInTheTypeOfThePlan) {
  const at::Tensor weight = numbers(40, 0.3F);
  const plan::ParameterTable table({{.name = "w", .shape = {40}, .dtype = plan::Dtype::kBf16}});
  FlatBuckets buckets(plan_for(table), {weight}, plain_memory());
  const at::Tensor before = weight.detach().clone();
  buckets.fill();
  buckets.lay_in();
  EXPECT_EQ(weight.scalar_type(), at::kBFloat16);
  EXPECT_TRUE(weight.detach().equal(before.to(at::kBFloat16)));
  weight.pow(2).sum().backward();
  EXPECT_EQ(weight.grad().scalar_type(), at::kBFloat16);
  EXPECT_EQ(buckets.attach_gradient(0), Attached::kNow);
}

TEST(FlatBuckets, AutogradAddsToAWidenedGradientInItsType) {
  const at::Tensor weight = numbers(4, 1);
  const plan::ParameterTable table({{.name = "w", .shape = {4}, .dtype = plan::Dtype::kBf16}});
  FlatBuckets buckets(make_plan(table, {.layout = {.world = 2}, .gradient_dtype = plan::Dtype::kFp32}), {weight},
                      plain_memory());
  buckets.fill();
  buckets.lay_in();
  weight.sum().backward();
  buckets.widen_gradient(0);
  weight.mul(1.0 / 512).sum().backward();
  EXPECT_TRUE(same(weight.grad(), at::ones({4}).mul_(1 + 1.0 / 512))) << "bf16 would have lost it";
}

TEST(FlatBuckets, SlicesLieSideBySide) {
  auto model = three_parameters();
  FlatBuckets buckets(plan_for(model.table), model.tensors, plain_memory());
  const int64_t size = buckets.layout().bucket(0).slice_elements;
  ASSERT_EQ(buckets.gradients(0).numel(), 2 * size);
  slice_of(buckets.gradients(0), 1, 2).fill_(1);
  EXPECT_EQ(buckets.gradients(0).slice(0, 0, size).sum().item<float>(), 0);
  EXPECT_EQ(buckets.gradients(0).sum().item<float>(), static_cast<float>(size));
  slice_of(buckets.parameters(0), 0, 2).fill_(2);
  EXPECT_EQ(buckets.parameters(0).sum().item<float>(), 2 * static_cast<float>(size));
}

}  // namespace
}  // namespace weft::memory
