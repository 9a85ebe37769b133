#include "weft/matmul/fast_products.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/addmm_cpu_dispatch.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/mm_cpu_dispatch.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <ATen/record_function.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "weft/matmul/choices.h"

namespace weft::matmul {
namespace {

// A matrix somewhere in memory: any alignment, either way round, lines with or without gaps.
at::Tensor any_matrix(int64_t rows, int64_t columns, std::mt19937& random) {
  const auto gap = static_cast<int64_t>(random() % 2 * (random() % 9)), start = static_cast<int64_t>(random() % 17);
  const bool lies_across = random() % 2 == 0;
  const int64_t lines = lies_across ? rows : columns, length = lies_across ? columns : rows;
  const at::Tensor memory = at::randn({start + lines * (length + gap)}).slice(0, start);
  const at::Tensor out = memory.view({lines, length + gap}).slice(1, 0, length);
  return lies_across ? out : out.t();
}

int64_t any_size(std::mt19937& random) {
  constexpr int64_t kSizes[] = {2, 16, 33, 48, 64, 100, 128, 193, 256, 384, 500};
  return kSizes[random() % std::size(kSizes)];
}

bool was_ours(int64_t rows, int64_t columns, int64_t inner) {
  const std::vector<Choice> all = Choices::of_process().all();
  return std::ranges::any_of(all, [&](const Choice& one) {
    return one.is_ours && one.shape.rows == rows && one.shape.columns == columns && one.shape.inner == inner;
  });
}

// Calls as often as it takes until a shape is tried, and once more.
at::Tensor last_of(const auto& call) {
  at::Tensor out;
  for (int i = 0; i <= Choices::kSightings; ++i) out = call();
  return out;
}

// Unlike at::equal, which takes -0 for +0.
bool has_bits_of(const at::Tensor& a, const at::Tensor& b) {
  return at::equal(a.contiguous().view(at::kInt), b.contiguous().view(at::kInt));
}

class FastProductsTest : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    at::set_num_threads(GetParam());
    at::manual_seed(1);
  }
  void TearDown() override { at::set_num_threads(before_); }

 private:
  const int before_ = at::get_num_threads();
};

TEST_P(FastProductsTest, HaveTheBitsOfTorchsOwn) {
  const FastProducts fast;
  std::mt19937 random(3);
  for (int i = 0; i < 120; ++i) {
    const int64_t rows = any_size(random), columns = any_size(random), inner = any_size(random);
    const at::Tensor a = any_matrix(rows, inner, random), b = any_matrix(inner, columns, random);
    const at::Tensor start = random() % 2 == 0 ? at::randn({columns}) : at::randn({rows, columns});
    ASSERT_TRUE(has_bits_of(last_of([&] { return at::mm(a, b); }), at::cpu::mm(a, b)))
        << rows << " x " << inner << " x " << columns;
    ASSERT_TRUE(has_bits_of(last_of([&] { return at::addmm(start, a, b); }), at::cpu::addmm(start, a, b)))
        << "addmm " << rows << " x " << inner << " x " << columns;
  }
}

// Gradients that vanish, say: a chain of products too small for a float ends in a zero of either sign, or in a denormal.
TEST_P(FastProductsTest, HaveTorchsZerosAndDenormals) {
  const FastProducts fast;
  for (const int64_t inner : {320, 800}) {
    const at::Tensor a = at::randn({128, inner}), b = at::randn({inner, 640}), start = at::zeros({640});
    for (const double scale : {1.0, 1e-19, 1e-21, 1e-23, 1e-25}) {
      const at::Tensor small = at::mul(a, scale), smaller = at::mul(b, scale);
      EXPECT_TRUE(has_bits_of(last_of([&] { return at::mm(small, smaller); }), at::cpu::mm(small, smaller))) << scale;
      EXPECT_TRUE(
          has_bits_of(last_of([&] { return at::addmm(start, small, smaller); }), at::cpu::addmm(start, small, smaller)))
          << scale;
    }
  }
}

// One way to ask for less says nothing of the other.
TEST_P(FastProductsTest, FollowAPrecisionThatIsSetForCpusAlone) {
  const FastProducts fast;
  const at::Tensor a = at::randn({64, 260}), b = at::randn({260, 96});
  auto& context = at::globalContext();
  for (const auto precision : {at::Float32Precision::IEEE, at::Float32Precision::BF16, at::Float32Precision::NONE}) {
    context.setFloat32Precision(at::Float32Backend::MKLDNN, at::Float32Op::MATMUL, precision);
    EXPECT_TRUE(has_bits_of(last_of([&] { return at::mm(a, b); }), at::cpu::mm(a, b))) << static_cast<int>(precision);
  }
}

TEST_P(FastProductsTest, ServeForwardAndBackwardOfALayer) {
  const at::Tensor x = at::randn({2, 64, 384}), given = at::randn({2, 64, 512}), bias = at::randn({512});
  const at::Tensor weight = at::randn({512, 384}).requires_grad_(), mine = weight.detach().clone().requires_grad_();
  at::linear(x, weight, bias).backward(given);
  const FastProducts fast;
  const at::Tensor y = last_of([&] {
    mine.mutable_grad() = at::Tensor();
    const at::Tensor out = at::linear(x, mine, bias);
    out.backward(given);
    return out;
  });
  EXPECT_TRUE(at::equal(y, at::linear(x, weight, bias)));
  EXPECT_TRUE(at::equal(mine.grad(), weight.grad()));
}

TEST_P(FastProductsTest, LeaveOtherProductsToTorch) {
  const FastProducts fast;
  const at::Tensor a = at::randn({64, 128}), b = at::randn({128, 96}), start = at::randn({96});
  EXPECT_TRUE(at::equal(last_of([&] { return at::mm(a.to(at::kDouble), b.to(at::kDouble)); }),
                        at::cpu::mm(a.to(at::kDouble), b.to(at::kDouble))));
  EXPECT_TRUE(at::equal(last_of([&] { return at::addmm(start, a, b, 2, 0.5); }), at::cpu::addmm(start, a, b, 2, 0.5)));
  EXPECT_EQ(last_of([&] { return at::mm(a.slice(1, 0, 0), b.slice(0, 0, 0)); }).sizes(), at::IntArrayRef({64, 96}));
  EXPECT_THROW(at::mm(a, a), c10::Error);
  EXPECT_THROW(at::addmm(at::randn({95}), a, b), c10::Error);
  const at::Tensor strided = at::randn({64, 256}).slice(1, 0, 256, 2);
  EXPECT_TRUE(at::equal(last_of([&] { return at::mm(strided, b); }), at::cpu::mm(strided, b)));
}

TEST_P(FastProductsTest, WriteWhereTheyAreTold) {
  const FastProducts fast;
  const at::Tensor a = at::randn({64, 128}), b = at::randn({128, 96}), start = at::randn({64, 96});
  at::Tensor out = at::randn({64, 96}), turned = at::randn({96, 64}).t(), same = start.clone();
  last_of([&] { return at::mm_out(out, a, b); });
  EXPECT_TRUE(at::equal(out, at::cpu::mm(a, b)));
  last_of([&] { return at::mm_out(turned, a, b); });
  EXPECT_TRUE(at::equal(turned, at::cpu::mm(a, b)));
  last_of([&] { return at::addmm_out(same, same.copy_(start), a, b); });
  EXPECT_TRUE(at::equal(same, at::cpu::addmm(start, a, b)));
}

TEST_P(FastProductsTest, AreTorchsWhereNobodyHoldsThem) {
  const at::Tensor a = at::randn({130, 260}), b = at::randn({260, 70});
  last_of([&] { return at::mm(a, b); });
  EXPECT_FALSE(was_ours(130, 70, 260));
}

// Asked for less than fp32 after shapes were tried, torch gives what it gives.
TEST_P(FastProductsTest, FollowAChangeOfPrecision) {
  const FastProducts fast;
  const at::Tensor a = at::randn({64, 256}), b = at::randn({256, 96});
  const at::Tensor whole = last_of([&] { return at::mm(a, b); });
  for (const char* precision : {"medium", "high", "highest"}) {
    at::globalContext().setFloat32MatmulPrecision(precision);
    EXPECT_TRUE(at::equal(last_of([&] { return at::mm(a, b); }), at::cpu::mm(a, b))) << precision;
  }
  EXPECT_TRUE(at::equal(at::mm(a, b), whole));
}

std::vector<std::string> seen;

// The gate goes by the operators a model calls: the same on every rank, whatever was chosen there.
TEST_P(FastProductsTest, AreOneOperatorWhicheverWayTheyGo) {
  const FastProducts fast;
  const at::Tensor a = at::randn({64, 128}), b = at::randn({128, 96}), start = at::randn({96});
  const auto watch = at::addThreadLocalCallback(
      at::RecordFunctionCallback([](const at::RecordFunction& call) -> std::unique_ptr<at::ObserverContext> {
        seen.emplace_back(call.name());
        return nullptr;
      }).scopes({at::RecordScope::FUNCTION}));
  for (const bool is_large : {true, false}) {
    const at::Tensor part = is_large ? a : a.slice(0, 0, 2);
    seen.clear();  // of the slice
    last_of([&] { return at::addmm(start, part, b); });
    EXPECT_EQ(seen, std::vector<std::string>(Choices::kSightings + 1, "aten::addmm")) << is_large;
  }
  at::removeCallback(watch);
}

INSTANTIATE_TEST_SUITE_P(Threads, FastProductsTest, testing::Values(1, 2));

// The point of it all, where it is known to hold: MKL on a processor of AMD with vectors of 512 bits. Half the time is hard to miss
// by a busy machine; for eight shapes in a row it is not missed.
TEST(FastProducts, AreOursOnProcessorsOfAmd) {
  if (fast_kernel() == nullptr || !__builtin_cpu_is("amd")) GTEST_SKIP() << "not such a processor";
  const int before = at::get_num_threads();
  at::set_num_threads(1);
  const FastProducts fast;
  bool is_any_ours = false;
  for (int64_t columns = 640; columns < 648; ++columns) {
    const at::Tensor a = at::randn({128, 320}), b = at::randn({320, columns});
    last_of([&] { return at::mm(a, b); });
    is_any_ours = is_any_ours || was_ours(128, columns, 320);
  }
  EXPECT_TRUE(is_any_ours);
  at::set_num_threads(before);
}

}  // namespace
}  // namespace weft::matmul
