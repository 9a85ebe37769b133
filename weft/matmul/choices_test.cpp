#include "weft/matmul/choices.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <mutex>
#include <set>
#include <thread>

namespace weft::matmul {
namespace {

constexpr Shape kShape = {.rows = 64, .columns = 96, .inner = 200, .a_row_stride = 200, .b_row_stride = 96};

// Right but for the last bit of one number.
void multiply_wrongly(const Product& product, float* scratch) {
  portable_kernel().multiply(product, scratch);
  reinterpret_cast<uint32_t&>(product.c[product.columns + 1]) ^= 1U;
}

class Threads {
 public:
  explicit Threads(int count) { at::set_num_threads(count); }
  ~Threads() { at::set_num_threads(before_); }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

 private:
  const int before_ = at::get_num_threads();
};

TEST(MatmulChoices, AnotherBitIsEnoughToRefuseAKernel) {
  const Threads one(1);
  for (const bool adds : {false, true}) {
    Shape shape = kShape;
    shape.adds = adds;
    const Choice choice = tried(shape, {"wrong", multiply_wrongly});
    EXPECT_FALSE(choice.is_same);
    EXPECT_FALSE(choice.is_ours);
  }
}

TEST(MatmulChoices, ASlowKernelIsRefusedWhateverItsBits) {
  const Threads one(1);
  const Choice choice = tried(kShape, portable_kernel());
  EXPECT_FALSE(choice.is_ours);
  if (choice.is_same) {
    EXPECT_GT(choice.ours_us, choice.torch_us);
  }
}

TEST(MatmulChoices, AShapeIsTriedTheThirdTime) {
  if (fast_kernel() == nullptr) GTEST_SKIP() << "no vectors of 512 bits here";
  const Threads one(1);
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

// 512 GiB would be hard to miss.
TEST(MatmulChoices, ProductsTooLargeForATrialAreTorchs) {
  if (fast_kernel() == nullptr) GTEST_SKIP() << "no vectors of 512 bits here";
  Choices choices;
  const Shape huge{.rows = 1 << 18, .columns = 1 << 18, .inner = 200, .a_row_stride = 200, .b_row_stride = 1 << 18};
  for (int i = 0; i < 2 * Choices::kSightings; ++i) EXPECT_FALSE(choices.is_ours(huge));
  EXPECT_TRUE(choices.all().empty());
}

// Sentences of every length, say: what came once makes room for what comes again.
TEST(MatmulChoices, ShapesThatDoNotComeAgainMakeRoom) {
  if (fast_kernel() == nullptr) GTEST_SKIP() << "no vectors of 512 bits here";
  Choices choices;
  Shape shape = kShape;
  for (size_t i = 0; i < Choices::kMost; ++i) {
    shape.rows = 1000 + static_cast<int64_t>(i);
    EXPECT_FALSE(choices.is_ours(shape));
  }
  for (int i = 0; i < Choices::kSightings; ++i) choices.is_ours(kShape);
  EXPECT_EQ(choices.all().size(), 1U);
}

// 4 PiB are not to be had: torch's way, not an error.
TEST(MatmulChoices, ATrialWithoutMemoryIsTorchs) {
  Shape shape = kShape;
  shape.a_row_stride = int64_t{1} << 44;
  const Choice choice = tried(shape, portable_kernel());
  EXPECT_FALSE(choice.is_same);
  EXPECT_FALSE(choice.is_ours);
}

std::mutex mutex;
std::set<std::thread::id> callers;

void multiply_and_tell_who(const Product& product, float* scratch) {
  portable_kernel().multiply(product, scratch);
  const std::lock_guard lock(mutex);
  callers.insert(std::this_thread::get_id());
}

// By columns and by rows; every number is made, and each thread makes some.
TEST(MatmulChoices, ThreadsShareAProduct) {
  const Threads three(3);
  for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>(30, 500), {300, 70}}) {
    std::vector<float> a(static_cast<size_t>(rows) * 70, 0.1F), b(static_cast<size_t>(columns) * 70, 0.3F);
    for (size_t i = 0; i < a.size(); ++i) a[i] /= static_cast<float>(i + 1);
    for (size_t i = 0; i < b.size(); ++i) b[i] /= static_cast<float>(i % 97 + 1);
    std::vector<float> c(static_cast<size_t>(rows * columns)), alone(c.size());
    Product product{.rows = rows, .columns = columns, .inner = 70, .a = {a.data(), 70, 1}, .b = {b.data(), columns, 1}};
    product.c_row_stride = columns;
    product.c = alone.data();
    portable_kernel().multiply(product, nullptr);
    product.c = c.data();
    callers.clear();
    multiply(product, {"telling", multiply_and_tell_who});
    EXPECT_EQ(c, alone);
    EXPECT_EQ(callers.size(), 3U) << rows << " x " << columns;
  }
}

}  // namespace
}  // namespace weft::matmul
