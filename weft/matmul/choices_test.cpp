#include "weft/matmul/choices.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

namespace weft::matmul {
namespace {

constexpr Shape kShape = {.rows = 64, .columns = 96, .inner = 200, .a_row_stride = 200, .b_row_stride = 96};

// Right but for the last bit of one number.
void multiply_wrongly(const Product& product, float* scratch) {
  portable_kernel().multiply(product, scratch);
  reinterpret_cast<uint32_t&>(product.c[product.columns + 1]) ^= 1U;
}

class OneThread {
 public:
  OneThread() { at::set_num_threads(1); }
  ~OneThread() { at::set_num_threads(before_); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  const int before_ = at::get_num_threads();
};

TEST(MatmulChoices, AnotherBitIsEnoughToRefuseAKernel) {
  const OneThread alone;
  for (const bool adds : {false, true}) {
    Shape shape = kShape;
    shape.adds = adds;
    const Choice choice = tried(shape, {"wrong", multiply_wrongly});
    EXPECT_FALSE(choice.is_same);
    EXPECT_FALSE(choice.is_ours);
  }
}

TEST(MatmulChoices, ASlowKernelIsRefusedWhateverItsBits) {
  const OneThread alone;
  const Choice choice = tried(kShape, portable_kernel());
  EXPECT_FALSE(choice.is_ours);
  if (choice.is_same) {
    EXPECT_GT(choice.ours_us, choice.torch_us);
  }
}

TEST(MatmulChoices, AShapeIsTriedTheThirdTime) {
  if (fast_kernel() == nullptr) GTEST_SKIP() << "no vectors of 512 bits here";
  const OneThread alone;
  Choices choices;
  EXPECT_FALSE(choices.is_ours(kShape));
  EXPECT_FALSE(choices.is_ours(kShape));
  EXPECT_TRUE(choices.all().empty());
  const bool is_ours = choices.is_ours(kShape);
  ASSERT_EQ(choices.all().size(), 1U);
  EXPECT_EQ(choices.all()[0].shape, kShape);
  EXPECT_EQ(choices.all()[0].is_ours, is_ours);
  EXPECT_EQ(choices.is_ours(kShape), is_ours);
}

TEST(MatmulChoices, ShapesAreKeptToALimit) {
  if (fast_kernel() == nullptr) GTEST_SKIP() << "no vectors of 512 bits here";
  Choices choices;
  Shape shape = kShape;
  for (size_t i = 0; i < Choices::kMost; ++i) {
    shape.rows = 1000 + static_cast<int64_t>(i);
    EXPECT_FALSE(choices.is_ours(shape));
  }
  for (int i = 0; i < 2 * Choices::kSightings; ++i) EXPECT_FALSE(choices.is_ours(kShape));
  EXPECT_TRUE(choices.all().empty());
}

TEST(MatmulChoices, ThreadsShareAProduct) {
  if (fast_kernel() == nullptr) GTEST_SKIP() << "no vectors of 512 bits here";
  const int before = at::get_num_threads();
  at::set_num_threads(3);
  std::vector<float> a(300 * 70, 0.1F), b(70 * 500, 0.3F), c(300 * 500), alone(300 * 500);
  for (size_t i = 0; i < a.size(); ++i) a[i] /= static_cast<float>(i + 1);
  Product product{.rows = 300, .columns = 500, .inner = 70, .a = {a.data(), 70, 1}, .b = {b.data(), 500, 1}};
  product.c_row_stride = 500;
  product.c = c.data();
  multiply(product, *fast_kernel());
  product.c = alone.data();
  portable_kernel().multiply(product, nullptr);
  EXPECT_EQ(c, alone);
  at::set_num_threads(before);
}

}  // namespace
}  // namespace weft::matmul
