#include "weft/cli/worker/bench_taught.h"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "weft/base/clock.h"
#include "weft/base/text.h"
#include "weft/base/units.h"
#include "weft/monitor/numbers.h"
#include "weft/sim/collective_cost.h"

namespace weft::cli {
namespace {

using comm::Group;
using comm::Work;
using Json = nlohmann::ordered_json;

struct Taught {
  std::string_view name;
  double computed_s, measured_s;
};

at::Tensor message(uint64_t bytes) { return at::zeros({static_cast<int64_t>(bytes)}, at::kByte); }

// A rank sends a part on only once it has it whole, so it takes the steps one after the other.
void run_schedule(Group& group, const sim::Schedule& schedule) {
  size_t next = 0;
  for (int step = 0; step < schedule.num_steps(); ++step) {
    std::vector<Work> works;
    for (; next < schedule.transfers.size() && schedule.transfers[next].step == step; ++next) {
      const sim::Transfer& one = schedule.transfers[next];
      if (one.from == group.rank()) works.push_back(group.start(comm::send(message(one.bytes), one.to)));
      if (one.to == group.rank()) works.push_back(group.start(comm::recv(message(one.bytes), one.from)));
    }
    for (const Work& work : works) work.wait();
  }
}

Taught measure(Group& group, sim::Algorithm algorithm, const BenchCommOptions& options) {
  const sim::Problem problem{.world = group.world(), .bytes = options.bytes.front()};
  const sim::Schedule schedule = sim::make_schedule(algorithm, problem, options.link);
  group.barrier();
  const Stopwatch watch;
  run_schedule(group, schedule);
  const at::Tensor slowest_s = at::full({1}, watch.elapsed_s(), at::kDouble);
  group.all_reduce(slowest_s, comm::ReduceOp::kMax);
  return {sim::name_of(algorithm), schedule.time_s(), slowest_s.item<double>()};
}

void show_table(const Group& group, const BenchCommOptions& options, const std::vector<Taught>& all) {
  std::printf("%d ranks, %s, links of %s MB/s; computed and measured over %s\n\n", group.world(),
              format_bytes(options.bytes.front()).c_str(), significant_text(options.link.bytes_per_s * 1e-6, 4).c_str(),
              std::string(group.transport()).c_str());
  std::printf("%-24s %12s %12s %8s\n", "algorithm", "computed s", "measured s", "ratio");
  for (const Taught& one : all) {
    const double ratio = one.computed_s > 0 ? one.measured_s / one.computed_s : 0;
    std::printf("%-24s %12s %12s %8s\n", std::string(one.name).c_str(), fixed_text(one.computed_s, 4).c_str(),
                fixed_text(one.measured_s, 4).c_str(), fixed_text(ratio, 3).c_str());
  }
}

void show_json(const Group& group, const BenchCommOptions& options, const std::vector<Taught>& all) {
  Json rows = Json::array();
  for (const Taught& one : all) {
    rows.push_back({{"algorithm", one.name}, {"computed_s", one.computed_s}, {"measured_s", one.measured_s}});
  }
  const Json json = {{"schema", 1},
                     {"world", group.world()},
                     {"bytes", options.bytes.front()},
                     {"link_bytes_per_s", options.link.bytes_per_s},
                     {"transport", group.transport()},
                     {"rows", rows}};
  std::printf("%s\n", json.dump(2).c_str());
}

}  // namespace

void measure_taught(Group& group, const BenchCommOptions& options) {
  std::vector<Taught> all;
  for (const sim::Algorithm algorithm : sim::kAllAlgorithms) all.push_back(measure(group, algorithm, options));
  if (group.rank() == 0) (options.json ? show_json : show_table)(group, options, all);
  std::fflush(stdout);
  group.barrier();
}

}  // namespace weft::cli
