// One rank of c10d::Reducer, the engine of torch's DistributedDataParallel, without Python: a peer for benchmarks/e2e. It
// trains examples/gpt over c10d's Gloo with torch's fused AdamW, on the weights and tokens of `weft train --data random`,
// and writes the JSON of `weft train --json` as rank 0. What remains between it and weft is the reduction itself.
//
//   weft run -n 2 -- c10d_reducer '{"shape": {"dim": 384, ...}, "init": "w.safetensors", "steps": 30, "seed": 1,
//                                   "lr": 1e-4, "micro_batch": 2, "out": "result.json"}'
//
// Ownership and threads: a program of its own; Gloo and autograd have their threads. Failure: an exception ends it.
#include <ATen/Parallel.h>
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <torch/csrc/distributed/c10d/logger.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>

#include "examples/gpt/gpt.h"
#include "weft/base/clock.h"
#include "weft/base/env.h"
#include "weft/base/error.h"
#include "weft/base/text.h"
#include "weft/checkpoint/safetensors.h"
#include "weft/data/batches.h"
#include "weft/monitor/run_record.h"

namespace {

using nlohmann::json;
using ProcessGroup = c10::intrusive_ptr<c10d::ProcessGroup>;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  if (value != nullptr) return value;
  throw weft::Error(weft::ErrorKind::kInput, {.title = weft::cat(name, " is not set"),
                                              .what = "this program is one rank of several",
                                              .where = "",
                                              .fix = "weft run -n 2 -- c10d_reducer JOB"});
}

// As torch.distributed.init_process_group("gloo") makes it: a store at rank 0, one device, two threads.
ProcessGroup join_world() {
  const int rank = std::stoi(variable("RANK")), world = std::stoi(variable("WORLD_SIZE"));
  c10d::TCPStoreOptions at_master;
  at_master.port = static_cast<uint16_t>(std::stoi(variable("MASTER_PORT")));
  at_master.isServer = rank == 0;
  const auto store = c10::make_intrusive<c10d::TCPStore>(variable("MASTER_ADDR"), at_master);
  auto options = c10d::ProcessGroupGloo::Options::create();
  options->devices = {c10d::ProcessGroupGloo::createDefaultDevice()};
  options->threads = 2;
  const auto gloo = c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank, world, options);
  auto group = c10::make_intrusive<c10d::ProcessGroup>(store, rank, world);
  group->setBackend(at::kCPU, c10d::ProcessGroup::GLOO, c10::intrusive_ptr<c10d::Backend>(gloo));
  group->setDefaultBackend(c10d::ProcessGroup::GLOO);
  return group;
}

// DistributedDataParallel's own choices: one bucket in the first step, in which it learns the order of the gradients; from
// then on buckets of 25 MiB, the first of 1 MiB.
std::shared_ptr<c10d::Reducer> make_reducer(const std::vector<at::Tensor>& parameters, const ProcessGroup& group) {
  c10d::verify_params_across_processes(group, parameters, {});
  const std::vector<bool> sparse(parameters.size(), false);
  auto buckets = std::get<0>(c10d::compute_bucket_assignment_by_size(parameters, {SIZE_MAX}, sparse));
  return std::make_shared<c10d::Reducer>(parameters, std::move(buckets), group, sparse, c10d::kDefaultBucketBytesCap,
                                         /*find_unused_parameters=*/false, /*gradient_as_bucket_view=*/false,
                                         std::unordered_map<size_t, std::string>{}, c10d::kDefaultFirstBucketBytes,
                                         /*skip_all_reduce_unused_params=*/false, /*use_python_reducer=*/false,
                                         std::vector<int64_t>{});
}

// torch.optim.AdamW(fused=True), which makes these same two calls a step.
class FusedAdamW {
 public:
  FusedAdamW(std::vector<at::Tensor> parameters, double lr) : parameters_(std::move(parameters)), lr_(lr) {
    for (const auto& parameter : parameters_) {
      first_.push_back(at::zeros_like(parameter));
      second_.push_back(at::zeros_like(parameter));
      steps_.push_back(at::zeros({}, at::kFloat));
    }
  }
  void zero_grad() {
    for (auto& parameter : parameters_) parameter.mutable_grad().reset();
  }
  void step() {
    const at::NoGradGuard no_grad;
    std::vector<at::Tensor> gradients;
    for (const auto& parameter : parameters_) gradients.push_back(parameter.grad());
    at::_foreach_add_(steps_, 1);
    at::_fused_adamw_(parameters_, gradients, first_, second_, {}, steps_, lr_, 0.9, 0.999, 0.01, 1e-8, false, false);
  }

 private:
  std::vector<at::Tensor> parameters_, first_, second_, steps_;
  const double lr_;
};

examples::GptShape shape_of(const json& shape) {
  return {.vocab = shape.at("vocab"),
          .seq = shape.at("seq"),
          .dim = shape.at("dim"),
          .layers = shape.at("layers"),
          .heads = shape.at("heads")};
}

class Rank {
 public:
  explicit Rank(const json& job)
      : group_(join_world()),
        model_(shape_of(job.at("shape"))),
        source_(weft::data::make_random_source({.rows = job.at("micro_batch"), .seq = model_.shape().seq},
                                               model_.shape().vocab, job.at("seed"))),
        rows_(at::empty({source_->shape().rows, source_->shape().seq + 1}, at::kLong)) {
    weft::checkpoint::NamedTensors named;
    for (auto& entry : model_.named_parameters()) named.emplace_back(entry.key(), entry.value());
    const std::string init = job.at("init");
    load_into(weft::checkpoint::read_safetensors(weft::Env::posix(), init), named, init);
    reducer_ = make_reducer(model_.parameters(), group_);
    reducer_->set_logger(logger_ = std::make_shared<c10d::Logger>(reducer_));
    optimizer_.emplace(model_.parameters(), job.at("lr"));
    record_.facts.params = model_.shape().num_params();
    record_.facts.world = group_->getSize();
  }

  void run(int64_t steps) {
    for (int64_t step = 0; step < steps; ++step) {
      const weft::Stopwatch watch;
      const float loss = one_step(step);
      record_.add_step(loss, watch.elapsed_ns());
    }
    record_.facts.status = "finished";
  }

  bool leads() const { return group_->getRank() == 0; }
  std::string to_json() const { return record_.to_json(); }

 private:
  // The calls, and their order, of DistributedDataParallel.forward() and of the loop around it.
  float one_step(int64_t step) {
    source_->draw(step, group_->getRank(), {rows_.mutable_data_ptr<int64_t>(), static_cast<size_t>(rows_.numel())});
    reducer_->prepare_for_forward();
    reducer_->rebuild_buckets();
    const int64_t seq = model_.shape().seq;
    const at::Tensor loss = model_.loss(rows_.slice(1, 0, seq), rows_.slice(1, 1, seq + 1));
    reducer_->prepare_for_backward({});
    optimizer_->zero_grad();
    loss.backward();
    optimizer_->step();
    return mean_over_ranks(loss.detach().clone());
  }

  float mean_over_ranks(const at::Tensor& loss) {
    std::vector<at::Tensor> tensors = {loss};
    group_->allreduce(tensors)->wait();
    return loss.item<float>() / static_cast<float>(group_->getSize());
  }

  ProcessGroup group_;
  examples::Gpt model_;
  std::unique_ptr<weft::data::BatchSource> source_;
  at::Tensor rows_;
  std::shared_ptr<c10d::Reducer> reducer_;
  std::shared_ptr<c10d::Logger> logger_;
  std::optional<FusedAdamW> optimizer_;
  weft::RunRecord record_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: weft run -n 2 -- c10d_reducer JOB_AS_JSON\n", stderr);
    return 2;
  }
  try {
    at::set_num_threads(1);
    const json job = json::parse(argv[1]);
    Rank rank(job);
    rank.run(job.at("steps"));
    if (rank.leads()) weft::publish_file(weft::Env::posix(), job.at("out"), weft::bytes_of(rank.to_json()));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
