#include "weft/config/offered.h"

#include <algorithm>
#include <string>
#include <vector>

#include "weft/base/text.h"
#include "weft/config/list_of_impl.h"
#include "weft/config/optimizer_names.h"

namespace weft::config {
namespace {

constexpr std::string_view kOfferedOptimizers[] = {"Adagrad", "Adam", "AdamW", "Lamb", "Lion", "SGD"};
constexpr std::string_view kOfferedSchedules[] = {"WarmupLR", "WarmupDecayLR",    "WarmupCosineLR",
                                                  "OneCycle", "LRRangeTest",      "ConstantLR",
                                                  "LinearLR", "CosineAnnealingLR"};

// What DeepSpeed has, or had, with a reason of its own why weft has not.
struct Absent {
  std::string_view kind;  // lower case
  std::string_view why, why_zh, instead, instead_zh;
};

constexpr std::string_view kBaseShapes = "it needs the base shapes that the Python package mup puts on parameters";
constexpr std::string_view kBaseShapesZh = "它需要 Python 包 mup 写在参数上的基准形状";
constexpr std::string_view kRates = "use AdamW or SGD, with a parameter group and rate for each width";
constexpr std::string_view kRatesZh = "改用 AdamW 或 SGD，每种宽度一个参数组和学习率";
constexpr std::string_view kCompressed = "it sends compressed momenta; DeepSpeed took it out in 0.19.7";
constexpr std::string_view kCompressedZh = "它传输压缩的动量；DeepSpeed 在 0.19.7 中已移除";
constexpr std::string_view kHalved = "use AdamW; \"communication_data_type\": \"bf16\" halves what is sent";
constexpr std::string_view kHalvedZh = "改用 AdamW；\"communication_data_type\": \"bf16\" 可使传输量减半";

constexpr Absent kAbsent[] = {
    {"muon", "it makes whole matrices orthogonal; weft updates flat slices, which hold parts of them",
     "它把整个矩阵正交化；weft 更新的是展平的分片，只含矩阵的一部分",
     "use AdamW, which DeepSpeed's Muon gives to embeddings and vectors anyway",
     "改用 AdamW；DeepSpeed 的 Muon 对嵌入和向量本来就用它"},
    {"muadam", kBaseShapes, kBaseShapesZh, kRates, kRatesZh},
    {"muadamw", kBaseShapes, kBaseShapesZh, kRates, kRatesZh},
    {"musgd", kBaseShapes, kBaseShapesZh, kRates, kRatesZh},
    {"onebitadam", kCompressed, kCompressedZh, kHalved, kHalvedZh},
    {"zerooneadam", kCompressed, kCompressedZh, kHalved, kHalvedZh},
    {"onebitlamb", kCompressed, kCompressedZh, "use Lamb; \"communication_data_type\": \"bf16\" halves what is sent",
     "改用 Lamb；\"communication_data_type\": \"bf16\" 可使传输量减半"},
};

bool has(std::span<const std::string_view> names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

}  // namespace

std::span<const std::string_view> offered_optimizers() { return kOfferedOptimizers; }
std::span<const std::string_view> offered_schedules() { return kOfferedSchedules; }

bool is_offered(std::string_view of, std::string_view type) {
  if (of == "scheduler") return has(kOfferedSchedules, type);
  const auto is_it = [kind = optimizer_kind(type)](std::string_view name) { return lower(name) == kind; };
  return type == "SGD" || (lower(type) != "sgd" && std::ranges::any_of(kOfferedOptimizers, is_it));
}

Absence absence_of(std::string_view of, std::string_view type) {
  for (const Absent& absent : kAbsent) {
    if (of != "optimizer" || absent.kind != lower(type)) continue;
    return {{std::string(absent.why), std::string(absent.why_zh)},
            {std::string(absent.instead), std::string(absent.instead_zh)}};
  }
  const std::string known = list_of(of == "scheduler" ? offered_schedules() : offered_optimizers());
  Absence out = {{cat("it has ", known), cat("可用的是 ", known)}, {"use one of these", "改用其中之一"}};
  if (of == "scheduler") return out;
  out.instead.en += ", or leave \"optimizer\" out and give the engine one of your own";
  out.instead.zh += "，或去掉 \"optimizer\"，在程序里给引擎一个自己的优化器";
  return out;
}

}  // namespace weft::config
