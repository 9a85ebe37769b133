#include "weft/matmul/choices.h"

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/addmm_cpu_dispatch.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/mm_cpu_dispatch.h>

#include <algorithm>
#include <cstring>
#include <mutex>

#include "weft/base/clock.h"
#include "weft/base/for_blocks.h"
#include "weft/base/log.h"
#include "weft/base/text.h"

namespace weft::matmul {
namespace {

constexpr int kRuns = 5;
// Less than this is not worth a second way to do it.
constexpr double kQuicker = 0.95;
// Rows or columns for one thread at a time: whole tiles of every kernel.
constexpr int64_t kStrip = 48;

// Numbers in -1 to 1 with all bits of a float in use, always the same.
std::vector<float> made_up(int64_t count, uint32_t seed) {
  std::vector<float> out(static_cast<size_t>(count));
  for (float& value : out) {
    seed = seed * 1664525U + 1013904223U;
    value = static_cast<float>(static_cast<int32_t>(seed)) * 0x1p-31F;
  }
  return out;
}

int64_t extent(int64_t rows, int64_t row_stride, int64_t columns, int64_t column_stride) {
  return (rows - 1) * row_stride + (columns - 1) * column_stride + 1;
}

int64_t floats_of_a(const Shape& shape) {
  return extent(shape.rows, shape.a_row_stride, shape.inner, shape.a_column_stride);
}
int64_t floats_of_b(const Shape& shape) {
  return extent(shape.inner, shape.b_row_stride, shape.columns, shape.b_column_stride);
}

// A trial must not be what a run that just fits into its memory ends by.
bool is_too_large(const Shape& shape) {
  const int64_t floats = floats_of_a(shape) + floats_of_b(shape) + 2 * shape.rows * shape.columns;
  return floats > Choices::kMostBytes / static_cast<int64_t>(sizeof(float));
}

class Trial {
 public:
  Trial(const Shape& shape, const Kernel& kernel)
      : shape_(shape),
        kernel_(kernel),
        a_(made_up(floats_of_a(shape), 1)),
        b_(made_up(floats_of_b(shape), 2)),
        start_(made_up(shape.columns, 3)),
        ours_(static_cast<size_t>(shape.rows * shape.columns)),
        torchs_(ours_.size()) {}

  bool gives_same_bits() {
    multiply_ours();
    multiply_torchs();
    return std::memcmp(ours_.data(), torchs_.data(), ours_.size() * sizeof(float)) == 0;
  }

  // In turn, so that both meet the same neighbours; the quickest of each.
  void time(Choice& choice) {
    for (int run = 0; run < kRuns; ++run) {
      const double torch_us = us_of([&] { multiply_torchs(); }), ours_us = us_of([&] { multiply_ours(); });
      choice.torch_us = run == 0 ? torch_us : std::min(choice.torch_us, torch_us);
      choice.ours_us = run == 0 ? ours_us : std::min(choice.ours_us, ours_us);
    }
  }

 private:
  static double us_of(const auto& work) {
    const Stopwatch watch;
    work();
    return watch.elapsed_s() * 1e6;
  }

  void multiply_ours() {
    for (int64_t row = 0; shape_.adds && row < shape_.rows; ++row)
      std::ranges::copy(start_, ours_.begin() + row * shape_.columns);
    multiply({.rows = shape_.rows,
              .columns = shape_.columns,
              .inner = shape_.inner,
              .a = {a_.data(), shape_.a_row_stride, shape_.a_column_stride},
              .b = {b_.data(), shape_.b_row_stride, shape_.b_column_stride},
              .c = ours_.data(),
              .c_row_stride = shape_.columns,
              .adds = shape_.adds},
             kernel_);
  }

  void multiply_torchs() {
    const at::Tensor a = tensor(a_, {shape_.rows, shape_.inner}, {shape_.a_row_stride, shape_.a_column_stride}),
                     b = tensor(b_, {shape_.inner, shape_.columns}, {shape_.b_row_stride, shape_.b_column_stride});
    at::Tensor out = tensor(torchs_, {shape_.rows, shape_.columns}, {shape_.columns, 1});
    if (shape_.adds)
      at::cpu::addmm_out(out, tensor(start_, {shape_.columns}, {1}), a, b);
    else
      at::cpu::mm_out(out, a, b);
  }

  static at::Tensor tensor(std::vector<float>& values, at::IntArrayRef sizes, at::IntArrayRef strides) {
    return at::from_blob(values.data(), sizes, strides, at::kFloat);
  }

  const Shape shape_;
  const Kernel& kernel_;
  std::vector<float> a_, b_, start_, ours_, torchs_;
};

float* scratch(size_t count) {
  thread_local std::vector<float> memory;
  if (memory.size() < count) memory.resize(count);
  return memory.data();
}

std::string text_of(const Choice& choice) {
  if (!choice.is_same) return "torch's way, whose bits the kernel does not have";
  return cat(choice.is_ours ? "the kernel" : "torch's way", "; it takes ", choice.ours_us, " us, torch ",
             choice.torch_us);
}

int num_threads() { return at::in_parallel_region() ? 1 : at::get_num_threads(); }

}  // namespace

void multiply(const Product& product, const Kernel& kernel) {
  const bool by_rows = product.rows > product.columns;
  const int64_t lines = by_rows ? product.rows : product.columns;
  // One part for each thread, so that operands are packed as seldom as can be.
  const int64_t strips = (lines + kStrip - 1) / kStrip, part = (strips + num_threads() - 1) / num_threads() * kStrip;
  for_blocks(static_cast<size_t>(lines), static_cast<size_t>(part), [&](size_t first, size_t size) {
    const auto begin = static_cast<int64_t>(first), end = begin + static_cast<int64_t>(size);
    const Product mine = by_rows ? rows_of(product, begin, end) : columns_of(product, begin, end);
    kernel.multiply(mine, scratch(scratch_floats(mine)));
  });
}

Shape shape_of(const Product& product) {
  return {.rows = product.rows,
          .columns = product.columns,
          .inner = product.inner,
          .a_row_stride = product.a.row_stride,
          .a_column_stride = product.a.column_stride,
          .b_row_stride = product.b.row_stride,
          .b_column_stride = product.b.column_stride,
          .adds = product.adds,
          .threads = num_threads()};
}

Choice tried(const Shape& shape, const Kernel& kernel) {
  Trial trial(shape, kernel);
  Choice out{.shape = shape, .is_same = trial.gives_same_bits()};
  if (!out.is_same) return out;
  trial.time(out);
  out.is_ours = out.ours_us < kQuicker * out.torch_us;
  return out;
}

Choices& Choices::of_process() {
  static Choices choices;
  return choices;
}

bool Choices::is_ours(const Shape& shape) {
  {
    const std::shared_lock lock(mutex_);
    const auto found = known_.find(shape);
    if (found != known_.end() && found->second.is_tried) return found->second.choice.is_ours;
  }
  if (!is_time_to_try(shape)) return false;
  const Choice choice = tried(shape, *fast_kernel());
  log_debug("products of ", shape.rows, " x ", shape.inner, " x ", shape.columns, ": ", text_of(choice));
  const std::unique_lock lock(mutex_);
  known_[shape] = {.sightings = kSightings, .is_tried = true, .choice = choice};
  return choice.is_ours;
}

bool Choices::is_time_to_try(const Shape& shape) {
  if (is_too_large(shape)) return false;
  const std::unique_lock lock(mutex_);
  const auto found = known_.find(shape);
  if (found != known_.end()) return ++found->second.sightings >= kSightings;
  if (known_.size() < kMost) known_[shape].sightings = 1;
  return false;
}

std::vector<Choice> Choices::all() const {
  const std::shared_lock lock(mutex_);
  std::vector<Choice> out;
  for (const auto& [shape, known] : known_) {
    if (known.is_tried) out.push_back(known.choice);
  }
  return out;
}

}  // namespace weft::matmul
