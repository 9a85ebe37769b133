// For this room's tests: a small model of plain tensors, settings for it, and worlds of ranks that are threads.
// Requires: tests/support/ranks.h, included before.
#pragma once

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/sin.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "weft/base/error.h"
#include "weft/base/text.h"
#include "weft/comm/shm_group.h"
#include "weft/config/hjson.h"
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
    const at::Tensor input = numbers({5, 24}, 100 + sample).to(first.scalar_type());
    const at::Tensor hidden = (at::mm(input, first) + bias).tanh();
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

// "optimizer.params" of a config.
inline config::Value arguments(const std::string& members) {
  return config::parse_hjson(std::make_shared<config::Source>("params", cat("{", members, "}")));
}

inline constexpr double kDeadlineS = 30;

inline World world(const std::string& run, int rank, int size, double deadline_s = kDeadlineS) {
  return world_of(run, rank, size, deadline_s * test::kSlowdown);
}

inline void on_ranks(int size, const std::function<void(const World& here)>& body) {
  const std::string run = fresh_run();
  test::run_ranks_as_threads(size, [&](test::RankContext& ctx) { body(world(run, ctx.rank(), size)); });
}

// A micro-step.
inline void step_on(Engine& engine, const Model& model, int64_t sample) {
  engine.backward(model.loss(sample));
  engine.step();
}

struct Trained {
  std::vector<at::Tensor> parameters;
  std::vector<float> losses;
  double norm = 0;
  EngineTotals totals;
  int64_t num_skipped = 0;
  double loss_scale = 1;
  std::optional<EngineTuning> tuning;
};

// `num_steps` steps over samples 0, 1, 2, ...: micro-step m of step s on rank r takes sample (s * accumulation + m) * world + r.
inline Trained train(const World& here, const config::Resolved& config, int num_steps,
                     const EngineOptions& options = {}) {
  Model model;
  Engine engine(model.tensors(), config, here, options);
  Trained out;
  const int64_t parts = config.gradient_accumulation_steps;
  for (int64_t i = 0; i < num_steps * parts; ++i) {
    const int64_t sample = i * here.size + here.rank;
    const at::Tensor loss = model.loss(sample, sample % 3 != 1);
    out.losses.push_back(loss.item<float>());
    EXPECT_EQ(engine.is_gradient_accumulation_boundary(), (i + 1) % parts == 0);
    engine.backward(loss);
    const bool updated = engine.step().updated;
    // The first losses of fp16 are scaled too high.
    EXPECT_TRUE(config.fp16.enabled || updated == ((i + 1) % parts == 0));
  }
  for (const auto& [name, tensor] : model.tensors().parameters) out.parameters.push_back(tensor.detach().clone());
  out.norm = engine.get_global_grad_norm();
  out.totals = engine.totals();
  out.num_skipped = engine.skipped_steps();
  out.loss_scale = engine.loss_scale();
  out.tuning = engine.tuning();
  return out;
}

inline std::vector<Trained> train_together(int size, const config::Resolved& config, int num_steps,
                                           const EngineOptions& options = {}) {
  std::vector<Trained> results(static_cast<size_t>(size));
  const std::string run = fresh_run();
  test::run_ranks_as_threads(size, [&](test::RankContext& ctx) {
    results[static_cast<size_t>(ctx.rank())] = train(world(run, ctx.rank(), size), config, num_steps, options);
  });
  return results;
}

inline void expect_equal(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b, const std::string& which) {
  ASSERT_EQ(a.size(), b.size()) << which;
  for (size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(a[i].equal(b[i])) << which << ", parameter " << i;
}

inline void expect_same_bits(const Trained& a, const Trained& b, const std::string& which) {
  expect_equal(a.parameters, b.parameters, which);
}

inline std::string refusal(const std::function<void()>& what) {
  try {
    what();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was refused";
}

inline void expect_refused(const std::function<void()>& what, const std::string& part) {
  const std::string text = refusal(what);
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

}  // namespace weft
