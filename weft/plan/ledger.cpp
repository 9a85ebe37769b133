#include "weft/plan/ledger.h"

#include <algorithm>
#include <map>

#include "weft/base/text.h"

namespace weft::plan {
namespace {

// Elements of a bucket that a rank keeps.
int64_t kept(const Bucket& bucket, bool sharded) { return sharded ? bucket.slice_elements : bucket.num_elements; }

int64_t parameter_bytes(const Plan& plan, bool sharded) {
  int64_t bytes = 0;
  for (const Bucket& bucket : plan.layout.buckets) bytes += kept(bucket, sharded) * bytes_of(bucket.dtype);
  return bytes;
}

// Beside their slices, which are a part of the optimizer's work.
int64_t persistent_bytes(const Plan& plan) {
  int64_t bytes = 0;
  for (const Bucket& bucket : plan.layout.buckets)
    bytes += bucket.persistent ? bucket.num_elements * bytes_of(bucket.dtype) : 0;
  return bytes;
}

// Beside the own slice, which is a part of it: what a rank's share of the host's copy is more.
int64_t host_copy_bytes(const Plan& plan) {
  if (plan.options.host_copy == 0) return 0;
  return parameter_bytes(plan, false) / plan.options.host_copy - parameter_bytes(plan, true);
}

int64_t gradient_bytes(const Plan& plan, bool sharded) {
  int64_t bytes = 0;
  for (const Bucket& bucket : plan.layout.gradient_buckets())
    bytes += kept(bucket, sharded) * bytes_of(gradient_dtype(plan.options, bucket));
  return bytes;
}

int64_t optimizer_bytes(const Plan& plan, bool sharded) {
  int64_t elements = 0;
  for (const Bucket& bucket : plan.layout.gradient_buckets()) elements += kept(bucket, sharded);
  return elements * plan.options.optimizer.state_bytes_per_element;
}

int64_t fp32_copy_bytes(const Plan& plan, bool sharded) {
  if (!plan.options.optimizer.fp32_copy) return 0;
  int64_t bytes = 0;
  for (const Bucket& bucket : plan.layout.gradient_buckets()) {
    const bool is_half = bytes_of(bucket.dtype) == 2;
    bytes += is_half ? kept(bucket, sharded) * bytes_of(Dtype::kFp32) : 0;
  }
  return bytes;
}

// Of buffers that the buckets of each type take turns in.
int64_t buffer_bytes(const std::map<Dtype, std::vector<int64_t>>& buckets, int num_buffers) {
  int64_t bytes = 0;
  for (const auto& [dtype, elements] : buckets) {
    for (const int64_t longest : buffer_elements(elements, num_buffers)) bytes += longest * bytes_of(dtype);
  }
  return bytes;
}

int64_t flowing_bytes(const Plan& plan, int stage) {
  std::map<Dtype, std::vector<int64_t>> buckets;
  for (const Bucket& bucket : plan.layout.gradient_buckets())
    buckets[gradient_dtype(plan.options, bucket)].push_back(bucket.num_elements);
  return buffer_bytes(buckets, num_gradient_buffers(plan, stage));
}

int64_t wire_bytes(const Plan& plan, int stage) {
  std::map<Dtype, std::vector<int64_t>> buckets;
  for (const Bucket& bucket : plan.layout.gradient_buckets()) {
    const Dtype wire = wire_dtype(plan.options, bucket);
    if (wire != gradient_dtype(plan.options, bucket)) buckets[wire].push_back(bucket.num_elements);
  }
  return buffer_bytes(buckets, num_wire_buffers(plan, stage));
}

// What a rank's own rounding left over.
int64_t compress_error_bytes(const Plan& plan) {
  int64_t bytes = 0;
  for (const Bucket& bucket : plan.layout.gradient_buckets()) bytes += bucket.num_elements * bytes_of(Dtype::kFp32);
  return bytes;
}

// One bucket at a time, where gradients are narrower than what they are rounded from.
int64_t compress_widened_bytes(const Plan& plan) {
  int64_t longest = 0;
  for (const Bucket& bucket : plan.layout.gradient_buckets()) {
    const bool is_narrow = gradient_dtype(plan.options, bucket) != Dtype::kFp32;
    longest = std::max(longest, is_narrow ? bucket.num_elements : 0);
  }
  return longest * bytes_of(Dtype::kFp32);
}

// Every bucket as it is sent and as it comes: that memory is kept from step to step.
int64_t compressed_wire_bytes(const Plan& plan) {
  int64_t bytes = 0;
  for (const Bucket& bucket : plan.layout.gradient_buckets())
    bytes += int64_t{2} * plan.layout.world * compressed_bytes(bucket.slice_elements);
  return bytes;
}

// The whole model at most. One bucket must fit even where the setting is smaller: it is what a gather brings.
int64_t gathered_bytes(const Plan& plan) {
  int64_t widest = 1, largest = 0;
  for (const Bucket& bucket : plan.layout.buckets) {
    if (bucket.persistent) continue;
    widest = std::max(widest, bytes_of(bucket.dtype));
    largest = std::max(largest, bucket.num_elements * bytes_of(bucket.dtype));
  }
  const int64_t all = parameter_bytes(plan, false) - persistent_bytes(plan);
  if (plan.options.live_elements > all / widest) return all;
  return std::clamp(plan.options.live_elements * widest, largest, all);
}

std::string parameters_text(const Plan& plan, int stage) {
  if (stage >= 3)
    return cat("slices of the parameters", reads_in_place(plan.options) ? ", which ranks read in place" : "");
  return stage >= 1 && plan.options.common_parameters ? "parameters, one copy for all ranks of the host" : "parameters";
}

}  // namespace

std::string_view name_of(MemoryKind kind) {
  switch (kind) {
    case MemoryKind::kParameters: return "parameters";
    case MemoryKind::kGradients: return "gradients";
    case MemoryKind::kOptimizer: return "optimizer";
    case MemoryKind::kCommunication: return "communication";
  }
  return "";
}

int64_t Ledger::bytes(MemoryKind kind) const {
  int64_t sum = 0;
  for (const LedgerLine& line : lines) sum += line.kind == kind ? line.bytes : 0;
  return sum;
}

int64_t Ledger::total() const {
  int64_t sum = 0;
  for (const LedgerLine& line : lines) sum += line.bytes;
  return sum;
}

Ledger make_ledger(const Plan& plan, int stage) {
  const int sharing = effective_stage(plan, stage);
  Ledger ledger{.stage = stage};
  const auto add = [&](MemoryKind kind, std::string what, int64_t bytes) {
    if (bytes > 0) ledger.lines.push_back({kind, std::move(what), bytes});
  };
  add(MemoryKind::kParameters, parameters_text(plan, sharing), parameter_bytes(plan, sharing >= 3));
  if (sharing >= 3)
    add(MemoryKind::kParameters, "other hosts' slices, one copy for all ranks of the host", host_copy_bytes(plan));
  add(MemoryKind::kGradients, sharing >= 2 ? "slices of the gradients" : "gradients",
      gradient_bytes(plan, sharing >= 2));
  if (sharing < 2 && adds_reduced(plan, stage)) {
    add(MemoryKind::kGradients, "sums of the micro-steps", gradient_bytes(plan, sharing >= 1));
  }
  add(MemoryKind::kOptimizer, "optimizer state", optimizer_bytes(plan, sharing >= 1));
  add(MemoryKind::kOptimizer, "fp32 copy of the parameters", fp32_copy_bytes(plan, sharing >= 1));
  if (sharing >= 2) add(MemoryKind::kCommunication, "gradient buckets in flight", flowing_bytes(plan, stage));
  if (plan.options.compress && sharing >= 1 && sharing < 3) {
    add(MemoryKind::kCommunication, "what rounding to int8 left over", compress_error_bytes(plan));
    add(MemoryKind::kCommunication, "a bucket in fp32, to be rounded", compress_widened_bytes(plan));
    add(MemoryKind::kCommunication, "gradients as int8, sent and received", compressed_wire_bytes(plan));
  }
  if (plan.layout.world > 1)
    add(MemoryKind::kCommunication, "the same in the type of the wire", wire_bytes(plan, stage));
  if (sharing >= 3 && !reads_in_place(plan.options)) {
    add(MemoryKind::kParameters, "small parameters, whole", persistent_bytes(plan));
    add(MemoryKind::kCommunication, "gathered parameters, at most", gathered_bytes(plan));
  }
  return ledger;
}

}  // namespace weft::plan
