#include "weft/matmul/choices.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/addmm_cpu_dispatch.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/mm_cpu_dispatch.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

#include "weft/base/clock.h"
#include "weft/base/for_blocks.h"
#include "weft/base/log.h"
#include "weft/base/text.h"

namespace weft::matmul {
namespace {

constexpr int kRuns = 5;
// A trial that has taken this long times nothing more: a step waits for it, and long products need no repeats.
constexpr double kLongS = 0.2;
// Less than this is not worth a second way to do it.
constexpr double kQuicker = 0.95;
// Rows or columns for one thread at a time: whole tiles of every kernel.
constexpr int64_t kStrip = 48;
constexpr int64_t kRowsAtATime = 384;

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
  const int64_t floats = floats_of_a(shape) + floats_of_b(shape) + shape.rows * shape.columns;
  return floats > Choices::kMostBytes / static_cast<int64_t>(sizeof(float));
}

// Memory that whoever touches it first gets near: a thread's part of a scratch, say.
class Floats {
 public:
  explicit Floats(int64_t count)
      : memory_(new(std::align_val_t(kAlignment)) float[static_cast<size_t>(count)]), count_(count) {}
  float* data() const { return memory_.get(); }
  int64_t count() const { return count_; }

 private:
  static constexpr size_t kAlignment = 64;
  struct Free {
    void operator()(float* memory) const { ::operator delete[](memory, std::align_val_t(kAlignment)); }
  };

  std::unique_ptr<float[], Free> memory_;
  int64_t count_;
};

// Matrices of a shape with made-up numbers, and both ways to multiply them.
class Trial {
 public:
  Trial(const Shape& shape, const Kernel& kernel)
      : shape_(shape),
        kernel_(kernel),
        a_(made_up(floats_of_a(shape), 1)),
        b_(made_up(floats_of_b(shape), 2)),
        start_(made_up(shape.columns, 3)),
        c_(shape.rows * shape.columns + kShift) {}

  // Where lines of the cache begin, and beside that: parameters are views that begin anywhere. And with products below what a float can
  // hold, where a zero may have either sign.
  bool gives_same_bits() {
    if (!is_same_at(0) || !is_same_at(kShift)) return false;
    scale(kTiny);
    const bool is_same = is_same_at(0);
    scale(1 / kTiny);
    return is_same;
  }

  // In turn, so that both meet the same neighbours; the quickest of each.
  void time(Choice& choice) {
    for (int run = 0; run == 0 || (run < kRuns && spent_.elapsed_s() < kLongS); ++run) {
      const double torch_us = us_of([&] { multiply_torchs(); }), ours_us = us_of([&] { multiply_ours(); });
      choice.torch_us = run == 0 ? torch_us : std::min(choice.torch_us, torch_us);
      choice.ours_us = run == 0 ? ours_us : std::min(choice.ours_us, ours_us);
    }
  }

 private:
  static constexpr int64_t kShift = 1;
  static constexpr float kTiny = 0x1p-83F;  // no number below loses a bit by it, no product of two is left

  // Numbers in -1 to 1 with all bits of a float in use, always the same.
  static Floats made_up(int64_t count, uint32_t seed) {
    Floats out(count + kShift);
    for (int64_t i = 0; i < count + kShift; ++i) {
      seed = seed * 1664525U + 1013904223U;
      out.data()[i] = static_cast<float>(static_cast<int32_t>(seed)) * 0x1p-31F;
    }
    return out;
  }

  void scale(float factor) {
    for (const Floats* const numbers : {&a_, &b_})
      for (int64_t i = 0; i < numbers->count(); ++i) numbers->data()[i] *= factor;
  }

  static double us_of(const auto& work) {
    const Stopwatch watch;
    work();
    return watch.elapsed_s() * 1e6;
  }

  // Some rows at a time, so that there is one matrix of the result's size only.
  bool is_same_at(int64_t shift) {
    shift_ = shift;
    multiply_torchs();
    std::vector<float> mine(static_cast<size_t>(std::min(kRowsAtATime, shape_.rows) * shape_.columns));
    bool is_same = true;
    for (int64_t row = 0; is_same && row < shape_.rows; row += kRowsAtATime) {
      Product part = rows_of(product(), row, std::min(shape_.rows, row + kRowsAtATime));
      const float* const torchs = std::exchange(part.c, mine.data());
      multiply_ours(part);
      is_same = std::memcmp(torchs, mine.data(), static_cast<size_t>(part.rows * part.columns) * sizeof(float)) == 0;
    }
    return is_same;
  }

  Product product() const {
    return {.rows = shape_.rows,
            .columns = shape_.columns,
            .inner = shape_.inner,
            .a = {a_.data() + shift_, shape_.a_row_stride, shape_.a_column_stride},
            .b = {b_.data() + shift_, shape_.b_row_stride, shape_.b_column_stride},
            .c = c_.data() + shift_,
            .c_row_stride = shape_.columns,
            .adds = shape_.adds};
  }

  void multiply_ours() const { multiply_ours(product()); }
  void multiply_ours(const Product& part) const {
    for (int64_t row = 0; part.adds && row < part.rows; ++row)
      std::copy_n(start_.data() + shift_, part.columns, part.c + row * part.columns);
    multiply(part, kernel_);
  }

  void multiply_torchs() const {
    const at::Tensor a = tensor(a_, {shape_.rows, shape_.inner}, {shape_.a_row_stride, shape_.a_column_stride}),
                     b = tensor(b_, {shape_.inner, shape_.columns}, {shape_.b_row_stride, shape_.b_column_stride});
    at::Tensor out = tensor(c_, {shape_.rows, shape_.columns}, {shape_.columns, 1});
    if (shape_.adds)
      at::cpu::addmm_out(out, tensor(start_, {shape_.columns}, {1}), a, b);
    else
      at::cpu::mm_out(out, a, b);
  }

  at::Tensor tensor(const Floats& floats, at::IntArrayRef sizes, at::IntArrayRef strides) const {
    return at::from_blob(floats.data() + shift_, sizes, strides, at::kFloat);
  }

  const Shape shape_;
  const Kernel& kernel_;
  const Floats a_, b_, start_, c_;
  int64_t shift_ = 0;
  const Stopwatch spent_;
};

float* scratch(int64_t count) {
  thread_local Floats memory(0);
  if (memory.count() < count) {
    memory = Floats(0);  // first, not both at a time
    memory = Floats(count);
  }
  return memory.data();
}

std::string text_of(const Choice& choice) {
  if (!choice.is_same) return "torch's way, whose bits the kernel does not have";
  return cat(choice.is_ours ? "the kernel" : "torch's way", "; it takes ", choice.ours_us, " us, torch ",
             choice.torch_us);
}

int precision() {
  return static_cast<int>(at::globalContext().float32Precision(at::Float32Backend::MKLDNN, at::Float32Op::MATMUL));
}

int num_threads() { return at::in_parallel_region() ? 1 : at::get_num_threads(); }

}  // namespace

void multiply(const Product& product, const Kernel& kernel) {
  const bool by_rows = product.rows > product.columns;
  const int64_t lines = by_rows ? product.rows : product.columns;
  // One part for each thread, so that operands are packed as seldom as can be; all their scratch from here, where it may fail.
  const int64_t strips = (lines + kStrip - 1) / kStrip, part = (strips + num_threads() - 1) / num_threads() * kStrip;
  const auto part_of = [&](int64_t begin) {
    const int64_t end = std::min(lines, begin + part);
    return by_rows ? rows_of(product, begin, end) : columns_of(product, begin, end);
  };
  const auto each = static_cast<int64_t>(scratch_floats(part_of(0)));
  float* const all = scratch(each * ((lines + part - 1) / part));
  for_blocks(static_cast<size_t>(lines), static_cast<size_t>(part), [&](size_t first, size_t) {
    const auto begin = static_cast<int64_t>(first);
    kernel.multiply(part_of(begin), all + begin / part * each);
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
          .threads = num_threads(),
          .precision = precision()};
}

Choice tried(const Shape& shape, const Kernel& kernel) {
  Choice out{.shape = shape};
  try {
    Trial trial(shape, kernel);
    out.is_same = trial.gives_same_bits();
    if (out.is_same) trial.time(out);
  } catch (const std::bad_alloc&) {
    return {.shape = shape};  // torch's way needs none of that memory
  }
  out.is_ours = out.is_same && out.ours_us < kQuicker * out.torch_us;
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
  // Where shapes change all the time, those that did not come again make room.
  if (known_.size() >= kMost) std::erase_if(known_, [](const auto& one) { return !one.second.is_tried; });
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
