// Collectives on device tensors through host transports, several ranks on one device: results, and that the calls are ordered
// with the stream they were made from. Without a device every case is skipped.
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gtest/gtest.h>

#include "tests/comm/groups.h"
#include "tests/support/ranks.h"
#include "weft/base/text.h"
#include "weft/comm/c10d/gloo_group.h"
#include "weft/comm/shm_group.h"

namespace weft::comm {
namespace {

using test::RankContext;

bool has_device() { return at::hasCUDA() && c10::impl::VirtualGuardImpl(c10::DeviceType::CUDA).deviceCount() > 0; }
at::TensorOptions on_device(at::ScalarType type = at::kFloat) {
  return at::TensorOptions().device(at::kCUDA).dtype(type);
}

void with_groups(const std::string& transport, int world, const std::function<void(Group&)>& body) {
  const std::string run = fresh_run_id();
  const Store store = Store::in_process();
  test::run_ranks_as_threads(world, [&](RankContext& ctx) {
    if (transport == "shm") {
      return body(*make_shm_group({.run_id = run, .rank = ctx.rank(), .world = world, .deadline_s = kLimitS}));
    }
    const GroupIdentity self{.name = "world", .rank = ctx.rank(), .world = world, .deadline_s = kLimitS};
    body(*make_gloo_group(self, store, Deadline::after(kLimitS)));
  });
}

// Keeps the current stream busy for a while, so that what follows is late.
void delay() {
  at::Tensor a = at::full({4096, 4096}, 1e-4, on_device());
  for (int i = 0; i < 60; ++i) a = at::mm(a, a);
}

class CudaTensors : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (!has_device()) GTEST_SKIP() << "there is no CUDA device";
  }
};

TEST_P(CudaTensors, EveryOperation) {
  with_groups(GetParam(), 2, [](Group& group) {
    const int rank = group.rank(), other = 1 - rank;
    for (const at::ScalarType type : {at::kFloat, at::kHalf, at::kBFloat16, at::kLong}) {
      at::Tensor data = at::full({1001}, rank + 1, on_device(type));
      group.all_reduce(data);
      EXPECT_TRUE(data.eq(3).all().item<bool>());
      at::Tensor part = at::zeros({rank == 0 ? 501 : 500}, on_device(type));
      group.reduce_scatter(data, part);
      EXPECT_TRUE(part.eq(6).all().item<bool>());
      group.all_gather(part, data);
      EXPECT_TRUE(data.eq(6).all().item<bool>());
      data.fill_(rank);
      group.broadcast(data, 1);
      EXPECT_TRUE(data.eq(1).all().item<bool>());
      const at::Tensor from = at::full({10}, rank, on_device(type)), into = at::empty_like(from);
      group.all_to_all(from, into);
      EXPECT_EQ(into.sum().item<double>(), 5);
      const at::Tensor in = at::empty_like(from);
      const Work sent = group.start(send(from, other)), got = group.start(recv(in, other));
      got.wait();
      sent.wait();
      EXPECT_TRUE(in.eq(other).all().item<bool>());
    }
  });
}

TEST_P(CudaTensors, ACallSeesWhatItsStreamWasGivenBefore) {
  with_groups(GetParam(), 2, [](Group& group) {
    at::Tensor data = at::zeros({1 << 20}, on_device());
    for (int i = 0; i < 3; ++i) {
      delay();
      data.fill_(group.rank() + 1);  // still queued when the call is made
      const Work work = group.start(all_reduce(data));
      work.wait();
      EXPECT_TRUE(data.eq(3).all().item<bool>());
    }
  });
}

TEST_P(CudaTensors, WhatFollowsAWaitSeesTheResult) {
  with_groups(GetParam(), 2, [](Group& group) {
    const c10::impl::VirtualGuardImpl device(c10::DeviceType::CUDA);
    const c10::Stream side = device.getStreamFromGlobalPool(c10::Device(at::kCUDA, 0), false);
    at::Tensor data = at::full({1 << 22}, group.rank() + 1, on_device());
    const Work work = group.start(all_reduce(data));
    // Waited for on another stream than the one it was made from.
    const c10::StreamGuard on_side(side);
    work.wait();
    EXPECT_TRUE(data.add(1).eq(4).all().item<bool>());
  });
}

TEST_P(CudaTensors, MemoryMayBeDroppedWhileTheCallRuns) {
  with_groups(GetParam(), 2, [](Group& group) {
    for (int i = 0; i < 20; ++i) {
      {
        const at::Tensor data = at::full({1 << 20}, 1.0F, on_device());
        group.start(all_reduce(data));
      }
      const at::Tensor fresh = at::full({1 << 20}, 7.0F, on_device());
      EXPECT_TRUE(fresh.eq(7).all().item<bool>());
    }
    group.barrier();
  });
}

INSTANTIATE_TEST_SUITE_P(Transports, CudaTensors, testing::Values("shm", "gloo"),
                         [](const auto& one) { return one.param; });

}  // namespace
}  // namespace weft::comm
