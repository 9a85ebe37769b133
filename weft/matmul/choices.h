// For every shape of a product: torch's own way, or the kernel of product.h. The kernel is taken where it gave the same bits on made-up
// numbers, tiny ones among them, and took less time; nothing about the processor or the version of torch is assumed. So a choice changes no result, and ranks
// may choose differently.
//
//   if (Choices::of_process().is_ours(shape_of(product))) multiply(product, *fast_kernel());
//
// A shape is tried when it is seen for the third time: one that never comes again is not worth it. Thread-safe; two threads may try the
// same shape at once. No failure but std::bad_alloc, of multiply().
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <shared_mutex>
#include <vector>

#include "weft/matmul/product.h"

namespace weft::matmul {

// What the way to multiply may depend on.
struct Shape {
  int64_t rows = 0, columns = 0, inner = 0;
  int64_t a_row_stride = 0, a_column_stride = 1, b_row_stride = 0, b_column_stride = 1;
  bool adds = false;
  int threads = 1;
  int precision = 0;  // at::Float32Precision of matrix products on CPUs: what torch may do with fp32

  auto operator<=>(const Shape&) const = default;
};

struct Choice {
  Shape shape;
  bool is_same = false, is_ours = false;  // the bits; and the time too
  double torch_us = 0, ours_us = 0;
};

class Choices {
 public:
  static Choices& of_process();

  // Requires: a fast_kernel().
  bool is_ours(const Shape& shape);
  std::vector<Choice> all() const;  // that were tried

  static constexpr int kSightings = 3;
  static constexpr size_t kMost = 4096;                      // shapes; further ones are torch's
  static constexpr int64_t kMostBytes = int64_t{512} << 20;  // of a trial's matrices; larger products are torch's

 private:
  struct Known {
    int sightings = 0;
    bool is_tried = false;
    Choice choice = {};
  };

  bool is_time_to_try(const Shape& shape);

  mutable std::shared_mutex mutex_;
  std::map<Shape, Known> known_;
};

// With as many threads as torch has; alone where it is called by one of them.
void multiply(const Product& product, const Kernel& kernel);
Shape shape_of(const Product& product);
// Both ways, compared and timed.
Choice tried(const Shape& shape, const Kernel& kernel);

}  // namespace weft::matmul
