#include "weft/cli/worker/bench_report.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "weft/base/env.h"
#include "weft/base/text.h"
#include "weft/base/units.h"
#include "weft/monitor/numbers.h"
#include "weft/monitor/svg_chart.h"

namespace weft::cli {
namespace {

using Json = nlohmann::ordered_json;

// Columns as wide as their widest cell, the first left, the rest right.
std::string columns(const std::vector<std::vector<std::string>>& rows, size_t num_left) {
  std::vector<size_t> widths(rows.front().size(), 0);
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string space(widths[i] - row[i].size(), ' ');
      text += i < num_left ? cat(row[i], space, "  ") : cat(space, row[i], "  ");
    }
    text.resize(text.find_last_not_of(' ') + 1);
    text += '\n';
  }
  return text;
}

// How much faster than the other transports of the same case; the slowest is 1.
double speed_up(const BenchReport& report, const BenchRow& row) {
  double slowest_ms = row.median_ms;
  for (const BenchRow& other : report.rows) {
    const bool same = other.operation == row.operation && other.bytes == row.bytes;
    if (same) slowest_ms = std::max(slowest_ms, other.median_ms);
  }
  return row.median_ms > 0 ? slowest_ms / row.median_ms : 1;
}

// Of the limit's time; what fits into caches can be faster than memory.
std::string beside_limit(const BenchRow& row) {
  return row.limit_gbs > 0 && row.busbw_gbs > 0 ? cat(fixed_text(row.limit_gbs / row.busbw_gbs, 2), "x") : "-";
}

}  // namespace

std::string bench_table(const BenchReport& report) {
  std::vector<std::vector<std::string>> rows = {{"operation", "transport", "bytes", "calls", "median ms", "min ms",
                                                 "alg GB/s", "bus GB/s", "limit", "to limit", "speed-up"}};
  for (const BenchRow& row : report.rows) {
    rows.push_back({row.operation, row.transport, format_bytes(row.bytes), cat(row.num_calls),
                    significant_text(row.median_ms, 4), significant_text(row.min_ms, 4), fixed_text(row.algbw_gbs, 2),
                    fixed_text(row.busbw_gbs, 2), row.limit_gbs > 0 ? fixed_text(row.limit_gbs, 2) : "-",
                    beside_limit(row), cat(fixed_text(speed_up(report, row), 1), "x")});
  }
  std::string limits = cat(report.world, " ranks; memory ", fixed_text(report.memory_rate * 1e-9, 1),
                           " GB/s, all ranks copying at once, reads and writes counted");
  if (report.link_rate > 0) limits += cat("; link ", fixed_text(report.link_rate * 1e-9, 3), " GB/s");
  return cat(
      columns(rows, 2), "\n", limits,
      ".\nlimit: bus bandwidth if every byte moved once at that rate; to limit: measured time over the limit's.\n");
}

std::string bench_json(const BenchReport& report) {
  Json rows = Json::array();
  for (const BenchRow& row : report.rows) {
    rows.push_back({{"op", row.operation},
                    {"bytes", row.bytes},
                    {"transport", row.transport},
                    {"world", row.world},
                    {"ms", row.median_ms},
                    {"min_ms", row.min_ms},
                    {"calls", row.num_calls},
                    {"algbw_gbs", row.algbw_gbs},
                    {"busbw_gbs", row.busbw_gbs},
                    {"limit_gbs", row.limit_gbs}});
  }
  const Json json = {{"schema", 1},
                     {"world", report.world},
                     {"memory_gbs", report.memory_rate * 1e-9},
                     {"link_gbs", report.link_rate * 1e-9},
                     {"rows", rows}};
  return json.dump(2) + "\n";
}

std::string bench_svg(const BenchReport& report) {
  Chart chart{.id = "bench-comm",
              .title = "Bus bandwidth of collectives",
              .description = "Bus bandwidth by size of the data, one line for each operation and transport.",
              .x_label = "size, log2 of bytes",
              .y_label = "bus bandwidth, GB/s"};
  std::map<std::string, std::vector<ChartPoint>> lines;
  for (const BenchRow& row : report.rows) {
    const double x = std::log2(std::max<double>(1, static_cast<double>(row.bytes)));
    lines[cat(row.operation, ", ", row.transport)].push_back({x, row.busbw_gbs});
  }
  for (auto& [name, points] : lines) {
    std::sort(points.begin(), points.end(), [](const ChartPoint& a, const ChartPoint& b) { return a.x < b.x; });
    chart.series.push_back({.name = name, .look = SeriesLook::kDots, .points = points});
  }
  chart.y_from_zero = true;
  chart.whole_x = true;
  return render_svg(chart, {.width = 960, .height = 440});
}

void show(const BenchReport& report, const BenchCommOptions& options) {
  const std::string text = options.json ? bench_json(report) : bench_table(report);
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
  if (!options.svg_path.empty()) write_file(Env::posix(), options.svg_path, bytes_of(bench_svg(report)));
}

}  // namespace weft::cli
