// One rank of NCCL: that every operation reaches it and comes back, and that streams are kept in order.
#include "weft/comm/c10d/nccl_group.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "weft/comm/c10d/c10d_test_impl.h"

namespace weft::comm {
namespace {

class NcclGroup : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_nccl()) GTEST_SKIP() << "this build has no nccl";
    if (!at::hasCUDA()) GTEST_SKIP() << "no CUDA device";
    group_ = make_nccl_group({"world", 0, 1, 30}, Store::in_process(), 0, Deadline::after(60.0));
  }
  static at::Tensor device_data(int64_t count, at::ScalarType type) {
    return data_of(0, count, type).to(at::Device(at::kCUDA, 0));
  }

  std::shared_ptr<Group> group_;
};

TEST(NcclGroupAbsent, IsAClearError) {
  if (has_nccl()) GTEST_SKIP() << "this build has nccl";
  try {
    make_nccl_group({"world", 0, 1, 30}, Store::in_process(), 0, Deadline::after(1.0));
    ADD_FAILURE() << "made one";
  } catch (const Error& error) {
    EXPECT_EQ(error.text().title, "this build of weft has no nccl");
    EXPECT_NE(error.text().fix.find("gloo"), std::string::npos);
  }
}

TEST_F(NcclGroup, EveryOperationOfOneRankIsACopy) {
  for (const auto type :
       {at::kFloat, at::kHalf, at::kBFloat16, at::kDouble, at::kChar, at::kInt, at::kLong, at::kByte}) {
    for (const int64_t count : {0, 1, 1009}) {
      const at::Tensor expected = data_of(0, count, type), data = device_data(count, type);
      const at::Tensor output = group_->allocate(count, type);
      const auto check = [&](const at::Tensor& result) {
        EXPECT_TRUE(same_bits(result.cpu(), expected)) << c10::toString(type) << " x " << count;
        output.zero_();
      };
      group_->all_reduce(data, ReduceOp::kMean), check(data);
      group_->reduce(data, 0), check(data);
      group_->broadcast(data, 0), check(data);
      group_->reduce_scatter(data, output, ReduceOp::kMax), check(output);
      group_->all_gather(data, output), check(output);
      group_->all_to_all(data, output), check(output);
      group_->gather(data, output, 0), check(output);
      group_->scatter(data, output, 0), check(output);
    }
  }
  group_->barrier();
}

// A product of large matrices keeps the stream busy for many milliseconds, and only then the input is written.
TEST_F(NcclGroup, CallsGoBehindWhatTheStreamWasGivenAndAheadOfWhatFollows) {
  const at::Tensor input = group_->allocate(1 << 20, at::kFloat), output = group_->allocate(1 << 20, at::kFloat);
  const at::Tensor factor = at::ones({8192, 8192}, input.options()) / 8192;
  const auto write_late = [&] {
    at::Tensor product = factor;
    for (int i = 0; i < 20; ++i) product = at::mm(product, factor);
    input.fill_(product[0][0] * 8192 * 3);
  };
  // The first time kernels are loaded and memory is taken, which waits for the device.
  write_late();
  group_->all_gather(input, output);
  output.zero_();
  for (const bool to_itself : {false, true}) {
    SCOPED_TRACE(to_itself ? "all_to_all" : "all_gather");
    input.zero_();
    write_late();
    const Work work = group_->start(to_itself ? all_to_all(input, output) : all_gather(input, output));
    EXPECT_FALSE(work.done());
    work.wait();
    EXPECT_NEAR(output.min().item<float>(), 3.0, 0.05);
    EXPECT_NEAR(output.max().item<float>(), 3.0, 0.05);
    EXPECT_TRUE(work.done());
    EXPECT_GT(work.finished_ns(), 0);
    output.zero_();
  }
}

TEST_F(NcclGroup, WhatNcclCannotDoIsRefused) {
  const auto title_of = [&](const Collective& call) {
    try {
      group_->run(call);
    } catch (const Error& error) {
      return error.text().title;
    }
    return std::string();
  };
  EXPECT_EQ(title_of(all_reduce(at::zeros({4}))), "this tensor is on cpu, the nccl group is on cuda:0");
  EXPECT_EQ(title_of(all_reduce(group_->allocate(4, at::kShort))), "nccl does not add 16-bit whole numbers");
}

}  // namespace
}  // namespace weft::comm
