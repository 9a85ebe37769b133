#include "weft/engine/run_facts.h"

#include <ATen/DeviceAccelerator.h>
#include <ATen/Parallel.h>

#include <algorithm>

#include "weft/monitor/machine_use.h"
#include "weft/plan/ledger.h"

namespace weft::engine {
namespace {

constexpr auto kAllKinds = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);

std::optional<BucketFacts> bucket_facts(const Engine& engine) {
  const auto tuning = engine.tuning();
  if (!tuning) return std::nullopt;
  return BucketFacts{.num_buckets = tuning->num_buckets,
                     .latency_ms = tuning->latency_s * 1e3,
                     .bytes_per_s = tuning->bytes_per_s,
                     .expected_exposed_ms = tuning->expected_s * 1e3,
                     .bound_exposed_ms = tuning->bound_s * 1e3,
                     .achieved_exposed_ms = tuning->achieved_s * 1e3};
}

std::optional<CheckpointFacts> checkpoint_facts(const Engine& engine) {
  const CheckpointTotals totals = engine.checkpoint_totals();
  if (totals.num_saves == 0 && totals.num_copies == 0) return std::nullopt;
  return CheckpointFacts{.num_saves = totals.num_saves,
                         .num_failed = totals.num_failed,
                         .bytes = static_cast<int64_t>(totals.bytes),
                         .stopped_ms = totals.stopped_s * 1e3,
                         .longest_stop_ms = totals.longest_stop_s * 1e3,
                         .waited_ms = totals.waited_s * 1e3,
                         .write_ms = totals.write_s * 1e3,
                         .load_ms = totals.load_s * 1e3,
                         .num_copies = totals.num_copies,
                         .copy_stopped_ms = totals.copy_stopped_s * 1e3};
}

}  // namespace

RunFacts facts_at_start(const Engine& engine) {
  const EngineStateBytes bytes = engine.state_bytes();
  const int64_t stage = engine.config().zero_optimization.stage;
  RunFacts out{.device = engine.device().is_cuda() ? "cuda" : "cpu",
               .params = engine.plan().table.num_elements(),
               .world = engine.world().size,
               .stage = stage,
               .threads = at::get_num_threads(),
               .first_step = engine.global_steps(),
               .params_bytes = bytes.params,
               .grads_bytes = bytes.grads,
               .optimizer_bytes = bytes.optimizer};
  const plan::Ledger ledger = make_ledger(engine.plan(), static_cast<int>(stage));
  for (const plan::MemoryKind kind : plan::kAllMemoryKinds) out.ledger[std::string(name_of(kind))] = ledger.bytes(kind);
  out.host_memory_bytes = host_memory_bytes();
  if (engine.device().is_cuda()) out.device_memory_bytes = device_memory_bytes();
  return out;
}

void add_facts_at_end(RunFacts& facts, const Engine& engine, int64_t num_steps) {
  facts.peak_rss_bytes = process_memory().peak_bytes;
  if (engine.device().is_cuda())
    facts.peak_device_bytes = at::accelerator::getDeviceStats(engine.device().index()).allocated_bytes[kAllKinds].peak;
  facts.optimizer_bytes = engine.state_bytes().optimizer;
  const EngineTotals totals = engine.totals();
  facts.bytes_sent = totals.sent_bytes;
  facts.exposed_comm_ms = totals.exposed_comm_s * 1e3 / static_cast<double>(std::max<int64_t>(1, num_steps));
  // The host waits for nothing that a device does: its events tell.
  if (!engine.device().is_cpu() && facts.parts) facts.exposed_comm_ms = facts.parts->exposed_comm_ms.median;
  facts.buckets = bucket_facts(engine);
  facts.checkpoints = checkpoint_facts(engine);
}

}  // namespace weft::engine
