// Bucket sizes: elements, not bytes; too large costs memory, too small costs latency. The sizes per link and model are the
// published ones: 1e8 on PCIe and Ethernet, 5e8 on NVLink, 2e8 for models above 50B and where nothing is known.
#include <bit>

#include "weft/base/text.h"
#include "weft/base/units.h"
#include "weft/doctor/rules/gigabytes.h"
#include "weft/doctor/rules/rule.h"

namespace weft::doctor {
namespace {

using config::Severity;

constexpr std::string_view kReduce = "zero_optimization.reduce_bucket_size";
constexpr std::string_view kGather = "zero_optimization.allgather_bucket_size";
constexpr int64_t kTiny = 500'000;                 // below, a reduction is all latency
constexpr int64_t kBytesLooking = 10'000'000'000;  // nobody means 20 GB at once

struct Advised {
  int64_t elements;
  std::string_view literal;
  std::string en;
  std::string zh;
};

Advised advised_bucket(const Machine& machine) {
  if (machine.params.value_or(0) > 50e9) return {200'000'000, "200000000", "for a model above 50B", "模型超过 50B"};
  if (!machine.link) return {200'000'000, "200000000", "where the link is not known", "未说明链路"};
  const std::string link(link_name(*machine.link));
  if (is_low_bandwidth(*machine.link)) return {100'000'000, "100000000", cat("on ", link), cat(link, " 链路")};
  return {500'000'000, "500000000", cat("on ", link), cat(link, " 链路")};
}

// "5e8 elements are 1.0 GB in bf16"; two buffers where reduction overlaps.
config::Words size_words(const Subject& subject, int64_t elements) {
  const auto& r = subject.resolved();
  const bool half = r.bf16.enabled || r.fp16.enabled;
  const std::string_view type = r.bf16.enabled ? "bf16" : r.fp16.enabled ? "fp16" : "fp32";
  const std::string bytes = gigabytes(static_cast<double>(elements) * (half ? 2 : 4));
  const std::string other = half ? cat(" (", gigabytes(4.0 * static_cast<double>(elements)), " in fp32)")
                                 : cat(" (", gigabytes(2.0 * static_cast<double>(elements)), " in bf16)");
  const std::string size = cat(format_count(elements), " elements are ", bytes, " in ", type, other);
  return {size, cat(format_count(elements), " 个元素在 ", type, " 下是 ", bytes)};
}

// Who takes that memory.
config::Words whose_words(std::string_view path) {
  if (path != kGather) return {};
  return {"; for DeepSpeed with an older torch: with a current one, and in weft, it has no effect",
          "；这只针对旧版 torch 下的 DeepSpeed：在新版 torch 和 weft 中没有作用"};
}

void size_of(const Subject& subject, Reporter& reporter, std::string_view path, int64_t elements) {
  const Advised advised = advised_bucket(subject.machine);
  const bool judged = subject.reading.given(path) || subject.machine.link || subject.machine.params;
  if (!judged || elements >= kBytesLooking || elements < kTiny) return;
  const config::Words size = size_words(subject, elements), whose = whose_words(path);
  if (elements <= advised.elements) return reporter.good(path, {cat(size.en, whose.en), cat(size.zh, whose.zh)});
  const bool twice = path == kReduce && subject.zero().overlap_comm && subject.zero().stage < 3;
  reporter.problem(path,
                   {cat(size.en, twice ? ", held twice while reduction overlaps" : "",
                        ": more memory than it is worth ", advised.en, whose.en),
                    cat(size.zh, twice ? "，重叠时要占两份" : "", "：", advised.zh, "时占用显存过高", whose.zh)},
                   {cat("use ", advised.literal), cat("改为 ", advised.literal)}, std::string(advised.literal));
}

void reduce_size(const Subject& subject, Reporter& reporter) {
  if (subject.zero().stage > 0) size_of(subject, reporter, kReduce, subject.zero().reduce_bucket_size);
}

void gather_size(const Subject& subject, Reporter& reporter) {
  const int64_t stage = subject.zero().stage;
  if (stage == 1 || stage == 2) size_of(subject, reporter, kGather, subject.reading.value(kGather).integer);
}

void tiny(const Subject& subject, Reporter& reporter) {
  const int64_t elements = subject.zero().reduce_bucket_size;
  if (subject.zero().stage == 0 || elements >= kTiny) return;
  reporter.problem(kReduce,
                   {cat(elements, " elements make a reduction that is all latency: hundreds of small messages a step"),
                    cat(elements, " 个元素的桶几乎全是延迟：每步会有成百上千条小消息")},
                   {"use 100000000 or so", "改为 1e8 左右"}, "100000000");
}

// 1e10 and more, or a power of two: somebody counted bytes. An even power is a square, as HF's hidden² is.
bool looks_like_bytes(int64_t elements) {
  const auto bits = static_cast<uint64_t>(elements);
  const bool odd_power = std::has_single_bit(bits) && std::countr_zero(bits) % 2 == 1;
  return elements >= kBytesLooking || (odd_power && elements >= (1 << 24));
}

void bytes(const Subject& subject, Reporter& reporter) {
  for (const std::string_view path : {kReduce, kGather}) {
    const int64_t elements = subject.reading.value(path).integer;
    if (!subject.reading.given(path) || subject.zero().stage == 0 || !looks_like_bytes(elements)) continue;
    const config::Words size = size_words(subject, elements);
    reporter.problem(
        path,
        {cat("this looks like bytes, but bucket sizes count elements: ", size.en),
         cat("看起来像字节数，但桶大小按元素计：", size.zh)},
        {"divide by the bytes of an element: 2 for bf16, 4 for fp32", "除以每个元素的字节数：bf16 为 2，fp32 为 4"});
  }
}

constexpr Rule kBucketRules[] = {
    {{"bucket/reduce-size", Severity::kWarning, "reduce_bucket_size larger than link and model are worth",
      "reduce_bucket_size 过大",
      "A bucket is memory that does nothing else; on a slow link a smaller one starts earlier.",
      "桶占用的显存别无他用；慢链路上小桶可以更早开始传输。"},
     reduce_size},
    {{"bucket/gather-size", Severity::kWarning, "allgather_bucket_size larger than link and model are worth",
      "allgather_bucket_size 过大",
      "The same, for DeepSpeed with a torch that lacks all_gather_into_tensor. With a current one it gathers "
      "everything at once, and weft gathers by the buckets of reduce_bucket_size.",
      "同上，但只针对没有 all_gather_into_tensor 的 torch。新版 torch 下 DeepSpeed 一次性聚合，weft 则按 "
      "reduce_bucket_size 的桶聚合。"},
     gather_size},
    {{"bucket/tiny", Severity::kWarning, "a bucket so small that latency rules", "桶过小，延迟占主导",
      "Each reduction has a fixed cost.", "每次归约都有固定开销。"},
     tiny},
    {{"bucket/bytes", Severity::kWarning, "a bucket size that looks like bytes", "桶大小看起来像字节数",
      "The settings count elements: 5e8 are 1 GB in bf16, 2 GB in fp32.",
      "这些设置按元素计：5e8 在 bf16 下是 1 GB，fp32 下是 2 GB。"},
     bytes},
};

}  // namespace

std::span<const Rule> bucket_rules() { return kBucketRules; }

}  // namespace weft::doctor
