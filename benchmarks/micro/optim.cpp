// AdamW of weft beside torch's fused one: alternately, in one process, on the same memory. Prints a table in Markdown.
//
//   ninja -C build/release bench_optim && build/release/bin/bench_optim [THREADS [ROUNDS]]
//
// A parameter takes 28 bytes of memory traffic (p, g, m, v in; p, m, v out). The limit is the time of a loop with the
// same traffic and next to no arithmetic, measured in the same rounds. Times are medians over rounds. The bits of both
// are compared first.
#include <ATen/Parallel.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "weft/optim/core/kernels.h"
#include "weft/optim/optimizer.h"

// traffic.cpp: p, m, v += g.
void traffic(float* p, float* m, float* v, const float* g, int64_t count);

namespace {

using weft::optim::AdamSettings;
using weft::optim::Optimizer;

constexpr AdamSettings kSettings = {.lr = 1e-4, .weight_decay = 0.01};
constexpr double kBytesPerParam = 28;

struct Buffers {
  at::Tensor param, grad, momentum, variance;
  explicit Buffers(int64_t count)
      : param(at::randn({count})),
        grad(at::randn({count})),
        momentum(at::zeros_like(param)),
        variance(at::zeros_like(param)) {}
};

void torch_step(const Buffers& b, double step) {
  at::_fused_adamw_({b.param}, {b.grad}, {b.momentum}, {b.variance}, {}, {at::scalar_tensor(step)}, kSettings.lr,
                    kSettings.beta1, kSettings.beta2, kSettings.weight_decay, kSettings.eps, false, false);
}

bool bits_agree() {
  const Buffers b(1 << 16);
  const at::Tensor param = b.param.clone();
  Optimizer ours({{kSettings, {{"s", param, b.grad}}}});
  for (int step = 1; step <= 5; ++step) {
    ours.step();
    torch_step(b, step);
  }
  return at::equal(param, b.param);
}

void same_traffic(const Buffers& b) {
  traffic(b.param.mutable_data_ptr<float>(), b.momentum.mutable_data_ptr<float>(), b.variance.mutable_data_ptr<float>(),
          b.grad.const_data_ptr<float>(), b.param.numel());
}

double ms_of(const std::function<void()>& body) {
  const auto began = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - began).count();
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

void measure(int64_t count, int rounds) {
  const Buffers b(count);
  const at::Tensor half = b.grad.to(at::kBFloat16), copy = at::zeros_like(half);
  // torch's step works on the state of the first, so that both touch the same memory.
  Optimizer ours({{kSettings, {{"s", b.param, b.grad}}}});
  Buffers shared = b;
  shared.momentum = ours.state()[0].second;
  shared.variance = ours.state()[1].second;
  Optimizer mixed({{kSettings, {{"s", b.param, half, copy}}}});
  std::vector<double> torchs, wefts, mixeds, limits;
  for (int round = -2; round < rounds; ++round) {
    // In turn first: whoever comes second finds the end of the buffers in the cache.
    double t = 0, w = 0;
    for (const bool torch : {round % 2 == 0, round % 2 != 0}) {
      if (torch) t = ms_of([&] { torch_step(shared, round + 3); });
      if (!torch) w = ms_of([&] { ours.step(); });
    }
    const double m = ms_of([&] { mixed.step(0.5); }), p = ms_of([&] { same_traffic(shared); });
    if (round < 0) continue;
    torchs.push_back(t), wefts.push_back(w), mixeds.push_back(m), limits.push_back(p);
  }
  const double limit = median(limits);
  const double t = median(torchs), w = median(wefts);
  std::printf("| %ld | %.3f | %.3f | %.2f | %.3f | %.3f | %.2f | %.1f |\n", static_cast<long>(count), t, w, t / w,
              median(mixeds), limit, w / limit, kBytesPerParam * static_cast<double>(count) / w / 1e6);
}

}  // namespace

int main(int argc, char** argv) {
  const auto number = [&](int place, long fallback) {
    return static_cast<int>(argc > place ? std::strtol(argv[place], nullptr, 10) : fallback);
  };
  const int threads = number(1, 1), rounds = number(2, 21);
  at::set_num_threads(threads);
  if (!bits_agree()) {
    std::puts("weft and torch differ: nothing to compare");
    return 1;
  }
  std::printf("AdamW, fp32, %d thread(s), %d rounds, %s\n\n", threads, rounds,
              std::string(weft::optim::kernels().name).c_str());
  std::puts(
      "| parameters | torch fused ms | weft ms | torch / weft | weft, bf16 in and out ms | limit ms | weft / limit | "
      "weft GB/s |");
  std::puts("|---|---|---|---|---|---|---|---|");
  for (const int64_t count : {1 << 14, 1 << 18, 1 << 22, 1 << 24, 1 << 26}) measure(count, rounds);
  return 0;
}
