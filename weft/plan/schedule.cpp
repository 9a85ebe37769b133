#include "weft/plan/schedule.h"

namespace weft::plan {
namespace {

// To whom a rank's slice goes: every other rank, or every other host.
int num_receivers(const Plan& plan, bool gathers) {
  const bool to_hosts = gathers && plan.options.host_copy > 0;
  return (to_hosts ? plan.layout.world / plan.options.host_copy : plan.layout.world) - 1;
}

Collective collective(const Plan& plan, Operation operation, Phase phase, int number) {
  const Bucket& bucket = plan.layout.bucket(number);
  if (operation == Operation::kAllToAll) {
    const int64_t slice_bytes = compressed_bytes(bucket.slice_elements);
    return {.operation = operation,
            .phase = phase,
            .bucket = number,
            .bytes = plan.layout.world * slice_bytes,
            .sent_bytes = (plan.layout.world - 1) * slice_bytes};
  }
  const bool gathers = operation == Operation::kAllGather;
  const int64_t width = bytes_of(gathers ? bucket.dtype : wire_dtype(plan.options, bucket));
  const int64_t trips = operation == Operation::kAllReduce ? 2 : 1;
  return {.operation = operation,
          .phase = phase,
          .bucket = number,
          .bytes = bucket.num_elements * width,
          .sent_bytes = trips * num_receivers(plan, gathers) * bucket.slice_elements * width};
}

void reduce_all(const Plan& plan, Operation operation, std::vector<Collective>& out) {
  for (int b = 0; b < plan.layout.num_gradient_buckets; ++b)
    out.push_back(collective(plan, operation, Phase::kBackward, b));
}

// Forward meets the parameters in the opposite order to backward: the bucket that is complete last is needed first.
void gather_updated(const Plan& plan, std::vector<Collective>& out) {
  for (int b = plan.layout.num_gradient_buckets - 1; b >= 0; --b)
    out.push_back(collective(plan, Operation::kAllGather, Phase::kUpdate, b));
}

// What stage 3 gathers when it is touched. Frozen buckets have no place in the ready order; they come first, being in the order
// of registration.
std::vector<int> gathered_frozen(const Plan& plan) {
  std::vector<int> out;
  const int num_buckets = static_cast<int>(plan.layout.buckets.size());
  for (int b = plan.layout.num_gradient_buckets; b < num_buckets; ++b) {
    if (!plan.layout.bucket(b).persistent) out.push_back(b);
  }
  return out;
}

void gather_for_forward(const Plan& plan, std::vector<Collective>& out) {
  for (const int b : gathered_frozen(plan)) out.push_back(collective(plan, Operation::kAllGather, Phase::kForward, b));
  for (int b = plan.layout.num_gradient_buckets - 1; b >= 0; --b) {
    if (!plan.layout.bucket(b).persistent) out.push_back(collective(plan, Operation::kAllGather, Phase::kForward, b));
  }
}

// Backward needs a bucket's parameters just before it makes its gradients.
void gather_and_reduce(const Plan& plan, std::vector<Collective>& out) {
  for (const int b : gathered_frozen(plan)) out.push_back(collective(plan, Operation::kAllGather, Phase::kBackward, b));
  for (int b = 0; b < plan.layout.num_gradient_buckets; ++b) {
    if (!plan.layout.bucket(b).persistent) out.push_back(collective(plan, Operation::kAllGather, Phase::kBackward, b));
    out.push_back(collective(plan, Operation::kReduceScatter, Phase::kBackward, b));
  }
}

void gather_persistent(const Plan& plan, std::vector<Collective>& out) {
  for (int b = plan.layout.num_gradient_buckets - 1; b >= 0; --b) {
    if (plan.layout.bucket(b).persistent) out.push_back(collective(plan, Operation::kAllGather, Phase::kUpdate, b));
  }
}

Operation reduction(const Plan& plan, int stage) {
  if (stage == 0) return Operation::kAllReduce;
  return plan.options.compress && stage < 3 ? Operation::kAllToAll : Operation::kReduceScatter;
}

bool all_stay_gathered(const Plan& plan) {
  int64_t elements = 0;
  for (const Bucket& bucket : plan.layout.buckets) elements += bucket.persistent ? 0 : bucket.num_elements;
  return elements <= plan.options.live_elements;
}

std::vector<Collective> micro_step(const Plan& plan, int stage, bool is_first, bool is_boundary) {
  std::vector<Collective> out;
  if (plan.layout.world == 1) return out;
  const bool gathers_touched = stage == 3 && !reads_in_place(plan.options);
  const bool regathers = gathers_touched && !all_stay_gathered(plan);
  if (regathers || (gathers_touched && is_first)) gather_for_forward(plan, out);
  if (regathers) {
    gather_and_reduce(plan, out);
  } else if (stage >= 2 || is_boundary || plan.options.reduce_each) {
    reduce_all(plan, reduction(plan, stage), out);
  }
  const bool between_hosts = stage == 3 && plan.options.host_copy > 0;
  const bool gathers = between_hosts || ((stage == 1 || stage == 2) && !plan.options.common_parameters);
  if (gathers && is_boundary) gather_updated(plan, out);
  if (gathers_touched && is_boundary) gather_persistent(plan, out);
  return out;
}

int64_t sent(const std::vector<Collective>& collectives) {
  int64_t bytes = 0;
  for (const Collective& one : collectives) bytes += one.sent_bytes;
  return bytes;
}

// first + middle for each micro-step between + boundary.
int64_t over_step(int accumulation_steps, int64_t first, int64_t middle, int64_t boundary) {
  if (accumulation_steps == 1) return boundary;
  return first + (accumulation_steps - 2) * middle + boundary;
}

}  // namespace

std::string_view name_of(Operation operation) {
  switch (operation) {
    case Operation::kAllReduce: return "all_reduce";
    case Operation::kReduceScatter: return "reduce_scatter";
    case Operation::kAllGather: return "all_gather";
    case Operation::kAllToAll: return "all_to_all";
  }
  return "";
}

std::string_view name_of(Phase phase) {
  switch (phase) {
    case Phase::kForward: return "forward";
    case Phase::kBackward: return "backward";
    case Phase::kUpdate: return "update";
  }
  return "";
}

int64_t Schedule::num_collectives() const {
  return over_step(accumulation_steps, std::ssize(first), std::ssize(middle), std::ssize(boundary));
}

int64_t Schedule::sent_bytes() const {
  return over_step(accumulation_steps, sent(first), sent(middle), sent(boundary));
}

Schedule make_schedule(const Plan& plan, int stage) {
  const int sharing = effective_stage(plan, stage), steps = plan.options.accumulation_steps;
  Schedule schedule{.stage = stage, .accumulation_steps = steps};
  if (steps > 1) schedule.first = micro_step(plan, sharing, true, false);
  if (steps > 2) schedule.middle = micro_step(plan, sharing, false, false);
  schedule.boundary = micro_step(plan, sharing, steps == 1, true);
  return schedule;
}

}  // namespace weft::plan
