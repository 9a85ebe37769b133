// For this room's tests: a small model of plain tensors, settings for it, and worlds of ranks that are threads.
#pragma once

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/sin.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "weft/base/text.h"
#include "weft/comm/shm_group.h"
#include "weft/config/reading.h"
#include "weft/engine/engine.h"

namespace weft {

using engine::ModelTensors;

inline std::string fresh_run() {
  static std::atomic<int> next = 0;
  return cat("engine-test-", ::getpid(), "-", next++);
}

inline World world_of(const std::string& run, int rank, int size, double deadline_s) {
  return {.group = comm::make_shm_group({.run_id = run, .rank = rank, .world = size, .deadline_s = deadline_s}),
          .rank = rank,
          .size = size,
          .local_rank = rank,
          .local_size = size,
          .run_id = run};
}

// Numbers out of a counter, the same everywhere.
inline at::Tensor numbers(std::vector<int64_t> shape, int64_t seed) {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  return at::sin(at::arange(count, at::kFloat) * 0.37 + static_cast<double>(seed)).view(shape).clone();
}

inline at::Tensor parameter(std::vector<int64_t> shape, int64_t seed) {
  return numbers(std::move(shape), seed).set_requires_grad(true);
}

// Two layers and a parameter that only some batches use.
struct Model {
  at::Tensor first = parameter({24, 40}, 1), bias = parameter({40}, 2), second = parameter({40, 8}, 3),
             seldom = parameter({8}, 4);

  ModelTensors tensors() const {
    return {{{"first", first}, {"bias", bias}, {"second", second}, {"seldom", seldom}}, {}};
  }
  at::Tensor loss(int64_t sample, bool use_all = true) const {
    const at::Tensor hidden = (at::mm(numbers({5, 24}, 100 + sample), first) + bias).tanh();
    at::Tensor out = at::mm(hidden, second);
    if (use_all) out = out * seldom;
    return (out - numbers({5, 8}, 900 + sample)).pow(2).mean();
  }
};

inline config::Resolved settings(int world, int64_t accumulation, const std::string& more = "") {
  const std::string text =
      cat("{\"train_micro_batch_size_per_gpu\": 5, \"gradient_accumulation_steps\": ", accumulation,
          ", \"optimizer\": {\"type\": \"AdamW\", \"params\": {\"lr\": 0.01}}", more, "}");
  auto reading = config::read_config(config::parse_document(std::make_shared<config::Source>("test.json", text)),
                                     {{"world", config::int_fact(world, "the test")}});
  config::require_usable(reading);
  return std::move(reading.resolved);
}

}  // namespace weft
