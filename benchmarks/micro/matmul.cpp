// Products of fp32 matrices by weft's kernel beside torch's own: alternately, in one process, on the same memory. Prints a table in
// Markdown.
//
//   ninja -C build/release bench_matmul && build/release/bin/bench_matmul [THREADS [ROUNDS]]
//
// The shapes are those of a GPT's layers (dim 384, vocabulary 8192, 128 tokens) and of a wider one: forward x W^T + b, the gradient of x
// and the gradient of W. The limit is what fused multiply-adds of 512 bits reach on as many threads with nothing to load. Rates are of
// medians over rounds. The bits of both are compared first.
#include <ATen/Parallel.h>
#include <ATen/ops/addmm_cpu_dispatch.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/mm_cpu_dispatch.h>
#include <ATen/ops/randn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "weft/base/clock.h"
#include "weft/base/for_blocks.h"
#include "weft/matmul/choices.h"

// multiply_adds.cpp: this many fused multiply-adds of 16 floats each; the result is of no interest.
float multiply_adds(int64_t count);

namespace {

using weft::matmul::Product;

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

double seconds_of(const std::function<void()>& body) {
  const weft::Stopwatch watch;
  body();
  return watch.elapsed_s();
}

weft::matmul::Matrix matrix_of(const at::Tensor& tensor) {
  return {tensor.const_data_ptr<float>(), tensor.stride(0), tensor.stride(1)};
}

// GFLOP/s of all threads.
double limit(int threads) {
  constexpr int64_t kCount = 1 << 22;
  std::vector<double> times;
  for (int round = 0; round < 9; ++round) {
    times.push_back(seconds_of(
        [&] { weft::for_blocks(static_cast<size_t>(threads), 1, [](size_t, size_t) { multiply_adds(kCount); }); }));
  }
  return 2.0 * 16 * kCount * threads / median(times) / 1e9;
}

struct Work {
  std::string name;
  at::Tensor a, b, start;  // start: undefined where the product is not added to it
};

void measure(const Work& work, int rounds, double limit_gflops) {
  const int64_t rows = work.a.size(0), columns = work.b.size(1), inner = work.a.size(1);
  at::Tensor torchs = at::empty({rows, columns}), ours = at::empty({rows, columns});
  const auto by_torch = [&] {
    if (work.start.defined())
      at::cpu::addmm_out(torchs, work.start, work.a, work.b);
    else
      at::cpu::mm_out(torchs, work.a, work.b);
  };
  const auto by_us = [&] {
    if (work.start.defined()) ours.copy_(work.start);
    Product product{.rows = rows, .columns = columns, .inner = inner, .a = matrix_of(work.a), .b = matrix_of(work.b)};
    product.c = ours.mutable_data_ptr<float>();
    product.c_row_stride = columns;
    product.adds = work.start.defined();
    weft::matmul::multiply(product, *weft::matmul::fast_kernel());
  };
  by_torch();
  by_us();
  const bool is_same = at::equal(torchs, ours);
  std::vector<double> torch_s, our_s;
  for (int round = 0; round < rounds; ++round) {
    torch_s.push_back(seconds_of(by_torch));
    our_s.push_back(seconds_of(by_us));
  }
  const double gflop = 2.0 * static_cast<double>(rows * columns * inner) / 1e9;
  const double torch_rate = gflop / median(torch_s), our_rate = gflop / median(our_s);
  std::printf("| %s | %ld x %ld x %ld | %.0f | %.0f | %.2f | %.2f | %s |\n", work.name.c_str(), rows, inner, columns,
              torch_rate, our_rate, torch_rate / our_rate, our_rate / limit_gflops, is_same ? "same" : "OTHER");
}

std::vector<Work> layer(const std::string& name, int64_t tokens, int64_t in, int64_t out) {
  const at::Tensor x = at::randn({tokens, in}), weight = at::randn({out, in}), gradient = at::randn({tokens, out});
  return {{name + ", forward", x, weight.t(), at::randn({out})},
          {name + ", gradient of x", gradient, weight, {}},
          {name + ", gradient of W", gradient.t(), x, {}}};
}

}  // namespace

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 1, rounds = argc > 2 ? std::atoi(argv[2]) : 31;
  if (threads < 1 || rounds < 1) return std::fprintf(stderr, "usage: %s [THREADS [ROUNDS]]\n", *argv), 2;
  if (weft::matmul::fast_kernel() == nullptr)
    return std::fprintf(stderr, "this processor has no vectors of 512 bits\n"), 1;
  at::set_num_threads(threads);
  const double most = limit(threads);
  std::printf("%d thread(s), fp32, %d rounds, %s; fused multiply-adds alone: %.0f GFLOP/s\n\n", threads, rounds,
              std::string(weft::matmul::fast_kernel()->name).c_str(), most);
  std::printf(
      "| product | rows x inner x columns | torch GFLOP/s | weft GFLOP/s | time of torch's | of the limit | bits |\n"
      "|---|---|---|---|---|---|---|\n");
  for (const auto& [name, tokens, in, out] :
       std::vector<std::tuple<std::string, int64_t, int64_t, int64_t>>{{"attention in", 128, 384, 1152},
                                                                       {"attention out", 128, 384, 384},
                                                                       {"widening", 128, 384, 1536},
                                                                       {"narrowing", 128, 1536, 384},
                                                                       {"head", 128, 384, 8192},
                                                                       {"wide layer", 1024, 2048, 8192}}) {
    for (const Work& work : layer(name, tokens, in, out)) measure(work, rounds, most);
  }
}
