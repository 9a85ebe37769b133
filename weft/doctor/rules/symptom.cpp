#include "weft/doctor/rules/symptom.h"

#include <algorithm>

#include "weft/base/error.h"
#include "weft/base/text.h"

namespace weft::doctor {
namespace {

using config::OffloadDevice;
using config::Words;

// Collects steps; knows the config, if there is one, and what its values are.
class Advisor {
 public:
  explicit Advisor(const Subject* subject) : subject_(subject) {}

  bool knows() const { return subject_ != nullptr; }
  const config::Resolved& resolved() const { return subject_->resolved(); }
  const config::ZeroOptimization& zero() const { return subject_->zero(); }

  std::string shown(std::string_view path) const { return subject_->reading.shown(path); }

  void step(Words what, Words why, std::string path = "", std::string suggested = "") {
    Step one{std::move(what), std::move(why), std::move(path), "", std::move(suggested)};
    if (knows() && !one.path.empty()) one.current = shown(one.path);
    steps_.push_back(std::move(one));
  }

  // A setting to change to `literal`; left out when it already is that.
  void set(std::string_view path, std::string_view literal, Words why) {
    if (knows() && config::find_setting(path) != nullptr && config::to_json(subject_->reading.value(path)) == literal)
      return;
    const std::string now = knows() ? cat(" (now ", shown(path), ")") : "";
    const std::string now_zh = knows() ? cat("（现在是 ", shown(path), "）") : "";
    step({cat("set ", path, " to ", literal, now), cat("把 ", path, " 设为 ", literal, now_zh)}, std::move(why),
         std::string(path), std::string(literal));
  }

  std::vector<Step> take() { return std::move(steps_); }

 private:
  const Subject* subject_;
  std::vector<Step> steps_;
};

void smaller_micro_batch(Advisor& advisor) {
  const std::string_view path = "train_micro_batch_size_per_gpu";
  const Words why = {"activations grow with the micro batch; accumulation keeps the batch, and the result, as they are",
                     "激活随微批次增长；增加累积可以保持总批次和结果不变"};
  if (!advisor.knows()) {
    advisor.step({cat("halve ", path, " and double gradient_accumulation_steps"),
                  cat("把 ", path, " 减半，gradient_accumulation_steps 加倍")},
                 why, std::string(path));
    return;
  }
  const int64_t micro = advisor.resolved().train_micro_batch_size_per_gpu;
  const int64_t steps = advisor.resolved().gradient_accumulation_steps;
  if (micro < 2) return;
  const int64_t smaller = micro / 2;
  const std::string change =
      cat(path, " ", micro, " → ", smaller, ", gradient_accumulation_steps ", steps, " → ", steps * micro / smaller);
  advisor.step({change, change}, why, std::string(path), cat(smaller));
}

void more_sharding(Advisor& advisor) {
  const int64_t stage = advisor.knows() ? advisor.zero().stage : 1;
  if (stage < 2)
    advisor.set("zero_optimization.stage", "2",
                {"gradients and optimizer state are sharded over ranks", "梯度和优化器状态分片到各卡"});
  if (stage < 3) advisor.set("zero_optimization.stage", "3", {"parameters are sharded too", "参数也分片"});
  const bool optimizer_on_gpu = !advisor.knows() || advisor.zero().offload_optimizer.device == OffloadDevice::kNone;
  if (optimizer_on_gpu)
    advisor.set("zero_optimization.offload_optimizer.device", "\"cpu\"",
                {"12 of the 16 bytes a parameter needs leave the GPU; steps get slower; weft does not offload yet",
                 "每个参数 16 字节中的 12 字节离开 GPU；步时会变长；weft 还不支持卸载"});
  const bool params_on_gpu = !advisor.knows() || advisor.zero().offload_param.device == OffloadDevice::kNone;
  if (params_on_gpu)
    advisor.set("zero_optimization.offload_param.device", "\"cpu\"",
                {"stage 3: parameters visit the GPU only while a layer runs; weft does not offload yet",
                 "stage 3：参数只在该层运行时才在 GPU 上；weft 还不支持卸载"});
}

void out_of_memory(Advisor& advisor) {
  smaller_micro_batch(advisor);
  if (!advisor.knows() || (advisor.zero().stage > 0 && advisor.zero().reduce_bucket_size > 100'000'000)) {
    advisor.set("zero_optimization.reduce_bucket_size", "100000000",
                {"buckets are memory that holds nothing else, twice where reduction overlaps",
                 "桶占用的显存别无他用，重叠时还要两份"});
  }
  more_sharding(advisor);
  advisor.step({"switch on activation checkpointing in the model", "在模型里开启激活检查点"},
               {"activations are computed again in backward instead of kept; about a third more computation",
                "反向时重算激活而不是保存；计算量约增加三分之一"});
  advisor.step(
      {"PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True", "设置 PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"},
      {"memory lost to fragments comes back", "找回碎片浪费的显存"});
}

void comm_error(Advisor& advisor) {
  advisor.set("zero_optimization.overlap_comm", "false",
              {"tells a race between reduction and backward from a broken link; switch it back on afterwards",
               "用来区分通信与反向的竞争和链路故障；查清后再开启"});
  advisor.step({"run with NCCL_DEBUG=INFO and find the first rank that complains",
                "用 NCCL_DEBUG=INFO 运行，找到最先报错的进程"},
               {"the others only report that it left", "其他进程只是报告它离开了"});
  advisor.step({"make sure that every rank calls forward, backward, step and save equally often",
                "确认每个进程调用 forward、backward、step、save 的次数相同"},
               {"a rank with one batch fewer leaves the others waiting until the deadline",
                "少一个批次的进程会让其他进程一直等到超时"},
               "dataloader_drop_last", "true");
  if (!advisor.knows() || advisor.zero().reduce_bucket_size > 100'000'000) {
    advisor.set("zero_optimization.reduce_bucket_size", "100000000",
                {"smaller messages finish within the deadline on a slow link", "慢链路上小消息能在超时前完成"});
  }
  advisor.set("weft.deadline_s", "1800",
              {"only once it is known that the ranks are slow, not dead", "确认只是慢而不是死掉之后再调大"});
  advisor.step({"weft bench comm between the hosts", "在主机之间运行 weft bench comm"},
               {"a link at a tenth of its speed looks like a hang", "速度只有十分之一的链路看起来像卡死"});
}

void lower_rate(Advisor& advisor) {
  const Words why = {"the most common cause by far", "最常见的原因"};
  const auto& params = advisor.knows() ? advisor.resolved().optimizer.params : std::optional<config::Value>{};
  const config::Value* rate = params ? params->find("lr") : nullptr;
  if (rate == nullptr || !rate->is_number()) {
    advisor.step({"halve the learning rate, or the batch size with it", "把学习率减半，或同时减小批次"}, why, "");
    return;
  }
  const std::string half = cat(rate->number() / 2);
  const std::string change = cat("optimizer.params.lr ", advisor.shown("optimizer.params.lr"), " → ", half);
  advisor.step({change, change}, why, "optimizer.params.lr", half);
}

void diverges(Advisor& advisor) {
  lower_rate(advisor);
  if (!advisor.knows() || advisor.resolved().gradient_clipping <= 0 || advisor.resolved().gradient_clipping > 1) {
    advisor.set("gradient_clipping", "1.0",
                {"one bad batch cannot throw the model far", "一个坏批次不会把模型推得太远"});
  }
  const bool warms_up = advisor.knows() && advisor.resolved().scheduler.type.value_or("").starts_with("Warmup");
  if (!warms_up)
    advisor.step({"warm up: scheduler WarmupLR with warmup_num_steps of 1-3 % of the run",
                  "预热：scheduler 用 WarmupLR，warmup_num_steps 取总步数的 1-3%"},
                 {"Adam's second moment means nothing in the first steps", "最初几步 Adam 的二阶矩没有意义"},
                 "scheduler.type", "\"WarmupLR\"");
  if (!advisor.knows() || advisor.resolved().fp16.enabled)
    advisor.set("bf16.enabled", "true",
                {"fp16 overflows at 65504; bf16 has fp32's range (switch fp16 off)",
                 "fp16 到 65504 就溢出；bf16 的范围与 fp32 相同（同时关闭 fp16）"});
  if (!advisor.knows() || (advisor.resolved().bf16.enabled && !advisor.resolved().data_types.grad_accum_dtype)) {
    advisor.set("data_types.grad_accum_dtype", "\"fp32\"",
                {"gradients added up in 8 bits lose the small ones", "以 8 位有效数字累加会丢失小梯度"});
  }
  advisor.step(
      {"train a few steps with one rank and the same global batch, and compare the losses",
       "用一个进程、相同的全局批次训练几步，比较 loss"},
      {"equal: the model or the data; different: the communication", "相同则是模型或数据的问题，不同则是通信的问题"});
}

void slow(Advisor& advisor) {
  advisor.step({"measure first: where does a step spend its time? wall_clock_breakdown true for 20 steps",
                "先测量：一步的时间花在哪里？打开 wall_clock_breakdown 跑 20 步"},
               {"aim for GPUs busy above 85 %, communication below 20 % of computation, memory below 80 %",
                "目标：GPU 利用率 85% 以上，通信不超过计算的 20%，显存不超过 80%"},
               "wall_clock_breakdown", "true");
  if (!advisor.knows() || !advisor.zero().overlap_comm)
    advisor.set("zero_optimization.overlap_comm", "true", {"reduction hides behind backward", "通信被反向计算隐藏"});
  if (!advisor.knows() || advisor.zero().offload_optimizer.device != OffloadDevice::kNone) {
    advisor.set("zero_optimization.offload_optimizer.device", "\"none\"",
                {"if it fits: the CPU's step takes several times the GPU's", "放得下的话：CPU 更新比 GPU 慢数倍"});
  }
  if (advisor.knows() && advisor.zero().stage >= 2 && advisor.resolved().gradient_accumulation_steps > 1) {
    advisor.set("zero_optimization.stage", "1",
                {"reduces once a step instead of at every micro-step, if memory allows",
                 "显存允许时：每步只归约一次，而不是每个微步"});
  }
  if (advisor.knows() && advisor.zero().stage == 3) {
    advisor.set("zero_optimization.stage3_prefetch_bucket_size", "100000000",
                {"parameters arrive earlier", "参数更早到达"});
  }
  advisor.step(
      {"raise train_micro_batch_size_per_gpu until memory is 80 % full, and lower gradient_accumulation_steps with it",
       "增大 train_micro_batch_size_per_gpu 直到显存用到 80%，同时减小 gradient_accumulation_steps"},
      {"larger kernels, fewer reductions", "内核更大，归约更少"}, "train_micro_batch_size_per_gpu");
}

}  // namespace

Symptom parse_symptom(std::string_view name) {
  if (name == "oom") return Symptom::kOutOfMemory;
  if (name == "comm-error") return Symptom::kCommError;
  if (name == "diverges") return Symptom::kDiverges;
  if (name == "slow") return Symptom::kSlow;
  throw Error(ErrorKind::kInput, {.title = cat("there is no symptom '", name, "'"),
                                  .what = "",
                                  .where = "--symptom",
                                  .fix = "oom, comm-error, diverges or slow"});
}

std::vector<Step> advice_for(Symptom symptom, const Subject* subject) {
  Advisor advisor(subject);
  switch (symptom) {
    case Symptom::kOutOfMemory: out_of_memory(advisor); break;
    case Symptom::kCommError: comm_error(advisor); break;
    case Symptom::kDiverges: diverges(advisor); break;
    case Symptom::kSlow: slow(advisor); break;
  }
  return advisor.take();
}

}  // namespace weft::doctor
