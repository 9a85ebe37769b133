#include <algorithm>
#include <string>
#include <vector>

#include "weft/base/text.h"
#include "weft/base/units.h"
#include "weft/plan/agreement.h"
#include "weft/plan/ledger.h"
#include "weft/plan/report.h"
#include "weft/plan/schedule.h"

namespace weft::plan {
namespace {

using Row = std::vector<std::string>;

// Columns as wide as their widest cell, two spaces apart. The first `num_left` are words; the others numbers, to the right.
std::string in_columns(const std::vector<Row>& rows, size_t num_left) {
  std::vector<int> widths;
  for (const Row& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], display_columns(row[i]));
  }
  std::string out;
  for (const Row& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string space(static_cast<size_t>(widths[i] - display_columns(row[i])), ' ');
      line += cat("  ", i < num_left ? row[i] + space : space + row[i]);
    }
    out += cat(line.substr(0, line.find_last_not_of(' ') + 1), "\n");
  }
  return out;
}

std::string bytes_text(int64_t bytes) { return format_bytes(static_cast<uint64_t>(bytes)); }

std::string head_text(const Plan& plan) {
  const PlanOptions& options = plan.options;
  return cat("plan ", to_hex(hashes_of(describe(plan)).all), "\n", "  ", plan.table.size(), " parameters, ",
             format_count(plan.table.num_elements()), " elements, world ", options.layout.world, ", stage ",
             options.stage, ", ", options.accumulation_steps,
             options.accumulation_steps == 1 ? " micro-step" : " micro-steps", " a step\n");
}

std::string span_text(const Plan& plan, const Bucket& bucket) {
  const std::string& first = plan.table[bucket.places.front().parameter].name;
  if (bucket.places.size() == 1) return first;
  return cat(first, " .. ", plan.table[bucket.places.back().parameter].name);
}

std::string buckets_text(const Plan& plan) {
  std::vector<Row> rows = {{"bucket", "type", "parameters", "count", "elements", "padding", "bytes", "slice"}};
  for (int b = 0; const Bucket& bucket : plan.layout.buckets) {
    const int64_t width = bytes_of(bucket.dtype);
    rows.push_back({cat(b++, bucket.frozen ? " frozen" : ""), std::string(name_of(bucket.dtype)),
                    span_text(plan, bucket), cat(bucket.places.size()), cat(bucket.num_elements),
                    cat(bucket.num_elements - bucket.used_elements()), bytes_text(bucket.num_elements * width),
                    bytes_text(bucket.slice_elements * width)});
  }
  return cat("\nbuckets, in the order in which backward completes them\n", in_columns(rows, 3));
}

std::string memory_text(const Plan& plan) {
  std::vector<Row> rows = {{"stage"}};
  for (const MemoryKind kind : kAllMemoryKinds) rows[0].emplace_back(name_of(kind));
  rows[0].emplace_back("total");
  for (int stage = 0; stage <= kMaxStage; ++stage) {
    const Ledger ledger = make_ledger(plan, stage);
    Row row = {cat(stage, stage == plan.options.stage ? " *" : "")};
    for (const MemoryKind kind : kAllMemoryKinds) row.push_back(bytes_text(ledger.bytes(kind)));
    row.push_back(bytes_text(ledger.total()));
    rows.push_back(std::move(row));
  }
  return cat("\nmemory of a rank, without activations (* as configured)\n", in_columns(rows, 1));
}

std::string traffic_text(const Plan& plan) {
  std::vector<Row> rows = {{"stage", "collectives", "sent"}};
  for (int stage = 0; stage <= kMaxStage; ++stage) {
    const Schedule schedule = make_schedule(plan, stage);
    rows.push_back({cat(stage, stage == plan.options.stage ? " *" : ""), cat(schedule.num_collectives()),
                    bytes_text(schedule.sent_bytes())});
  }
  return cat("\nwhat a rank sends in a step\n", in_columns(rows, 1));
}

}  // namespace

std::string plan_text(const Plan& plan) {
  return cat(head_text(plan), buckets_text(plan), memory_text(plan), traffic_text(plan));
}

}  // namespace weft::plan
