#include <nlohmann/json.hpp>
#include <span>

#include "weft/plan/agreement.h"
#include "weft/plan/ledger.h"
#include "weft/plan/report.h"
#include "weft/plan/schedule.h"

namespace weft::plan {
namespace {

using Json = nlohmann::ordered_json;

Json optional_name(const std::optional<Dtype>& dtype) { return dtype ? Json(name_of(*dtype)) : Json(nullptr); }

Json options_json(const PlanOptions& options) {
  return {{"world", options.layout.world},
          {"stage", options.stage},
          {"accumulation_steps", options.accumulation_steps},
          {"bucket_elements", options.layout.bucket_elements},
          {"first_bucket_bytes", options.layout.first_bucket_bytes},
          {"slice_multiple", options.layout.slice_multiple},
          {"overlap", options.overlap},
          {"gradient_dtype", optional_name(options.gradient_dtype)},
          {"wire_dtype", optional_name(options.wire_dtype)},
          {"shard_update", options.shard_update},
          {"common_parameters", options.common_parameters},
          {"host_copy", options.host_copy},
          {"reduce_each", options.reduce_each ? "micro_step" : "step"},
          {"compress", options.compress ? "int8" : "none"},
          {"optimizer_bytes_per_element", options.optimizer.state_bytes_per_element},
          {"fp32_copy", options.optimizer.fp32_copy},
          {"live_elements", options.live_elements}};
}

Json parameters_json(const ParameterTable& table) {
  Json out = Json::array();
  for (const Parameter& parameter : table.all()) {
    out.push_back({{"name", parameter.name},
                   {"shape", parameter.shape},
                   {"dtype", name_of(parameter.dtype)},
                   {"frozen", parameter.frozen},
                   {"tied_to", parameter.tied_to ? Json(*parameter.tied_to) : Json(nullptr)}});
  }
  return out;
}

Json bucket_json(const Bucket& bucket) {
  Json places = Json::array();
  for (const Place& place : bucket.places)
    places.push_back({{"parameter", place.parameter}, {"begin", place.begin}, {"elements", place.num_elements}});
  return {{"dtype", name_of(bucket.dtype)},
          {"frozen", bucket.frozen},
          {"elements", bucket.num_elements},
          {"slice_elements", bucket.slice_elements},
          {"places", std::move(places)}};
}

Json buckets_json(const Layout& layout) {
  Json out = Json::array();
  for (const Bucket& bucket : layout.buckets) out.push_back(bucket_json(bucket));
  return out;
}

Json memory_json(const Plan& plan, int stage) {
  const Ledger ledger = make_ledger(plan, stage);
  Json lines = Json::array();
  for (const LedgerLine& line : ledger.lines)
    lines.push_back({{"kind", name_of(line.kind)}, {"what", line.what}, {"bytes", line.bytes}});
  return {{"stage", stage}, {"total_bytes", ledger.total()}, {"lines", std::move(lines)}};
}

Json collectives_json(std::span<const Collective> collectives) {
  Json out = Json::array();
  for (const Collective& one : collectives) {
    out.push_back({{"operation", name_of(one.operation)},
                   {"phase", name_of(one.phase)},
                   {"bucket", one.bucket},
                   {"bytes", one.bytes},
                   {"sent_bytes", one.sent_bytes}});
  }
  return out;
}

Json traffic_json(const Plan& plan, int stage) {
  const Schedule schedule = make_schedule(plan, stage);
  return {{"stage", stage},
          {"num_collectives", schedule.num_collectives()},
          {"sent_bytes", schedule.sent_bytes()},
          {"first", collectives_json(schedule.first)},
          {"middle", collectives_json(schedule.middle)},
          {"boundary", collectives_json(schedule.boundary)}};
}

}  // namespace

std::string plan_json(const Plan& plan) {
  Json out = {{"schema", 1},
              {"hash", to_hex(hashes_of(describe(plan)).all)},
              {"options", options_json(plan.options)},
              {"num_elements", plan.table.num_elements()},
              {"parameters", parameters_json(plan.table)},
              {"ready_order", plan.layout.ready_order},
              {"buckets", buckets_json(plan.layout)},
              {"memory", Json::array()},
              {"traffic", Json::array()}};
  for (int stage = 0; stage <= kMaxStage; ++stage) {
    out["memory"].push_back(memory_json(plan, stage));
    out["traffic"].push_back(traffic_json(plan, stage));
  }
  return out.dump();
}

}  // namespace weft::plan
