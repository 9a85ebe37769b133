#include <cmath>
#include <utility>

#include "weft/base/text.h"
#include "weft/engine/flops_table.h"
#include "weft/monitor/json_text.h"

namespace weft::engine {
namespace {

std::string quoted(const std::string& text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

std::string number(double value) {
  std::string out;
  append_json_number(out, value);
  return out;
}

std::string parts(const FlopParts& flops, const FlopsOf& of) {
  std::string out =
      cat("\"forward\": ", flops.forward, ", \"backward\": ", flops.backward, ", \"recomputed\": ", flops.recomputed);
  if (of.has_times) out += cat(", \"ms\": ", number(std::round(static_cast<double>(flops.elapsed_ns) * 1e-3) * 1e-3));
  return out;
}

}  // namespace

std::string flops_json(const FlopCount& count, const FlopsOf& of) {
  std::string out = cat("{\"schema\": 1, \"step\": ", of.step, ", \"total\": ", count.total);
  if (of.step_ms > 0) out += cat(", \"step_ms\": ", number(of.step_ms));
  out += cat(",\n \"elsewhere\": {", parts(count.elsewhere, of), "},\n \"modules\": [");
  const char* between = "";
  for (const ModuleRow& row : count.modules) {
    out += cat(std::exchange(between, ",\n  "), "{\"name\": ", quoted(row.name), ", \"type\": ", quoted(row.type),
               ", \"depth\": ", row.depth, ", \"parameters\": ", row.num_parameters, ", ", parts(row.flops, of), "}");
  }
  out += "],\n \"operators\": [";
  between = "";
  for (const auto& [name, flops] : count.by_operator) {
    out += cat(std::exchange(between, ",\n  "), "{\"name\": ", quoted(name), ", \"calls\": ", count.calls.at(name),
               ", \"flops\": ", flops, "}");
  }
  return out + "]}\n";
}

}  // namespace weft::engine
