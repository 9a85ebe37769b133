#include "weft/cli/worker/bench_comm.h"

#include <unistd.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/base/log.h"
#include "weft/base/text.h"
#include "weft/base/units.h"
#include "weft/cli/worker/bench_measure.h"
#include "weft/cli/worker/bench_report.h"
#include "weft/cli/worker/bench_taught.h"
#include "weft/comm/c10d/gloo_group.h"
#include "weft/comm/c10d/nccl_group.h"
#include "weft/comm/c10d/store.h"
#include "weft/comm/shm_group.h"
#include "weft/comm/world.h"
#include "weft/monitor/progress.h"

namespace weft::cli {
namespace {

using comm::Group;

constexpr double kDeadlineS = 120;

// The groups that are asked for, side by side in one process: a store serves all that need a network.
class Groups {
 public:
  explicit Groups(const comm::RankIdentity& self) : self_(self) {}

  BenchSubject make(const std::string& transport) {
    if (transport == "shm") return {transport, shm()};
    if (transport == "shm-staged") return {transport, shm(), false};
    if (transport == "gloo") return {transport, comm::make_gloo_group(identity("gloo"), store(), deadline())};
    if (transport == "nccl") {
      const int device = self_.local_rank.value_or(0);
      return {transport, comm::make_nccl_group(identity("nccl"), store(), device, deadline()), true,
              c10::Device(c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(device))};
    }
    const World world = init({.deadline_s = kDeadlineS, .join_deadline_s = kDeadlineS});
    const bool by_host = world.group->transport() == "shm+gloo";
    return {.transport = std::string(world.group->transport()),
            .group = world.group,
            .num_talkers = by_host ? world.num_hosts : 0};
  }

 private:
  static Deadline deadline() { return Deadline::after(kDeadlineS); }
  comm::GroupIdentity identity(const std::string& name) const {
    return {.name = name, .rank = self_.rank, .world = self_.world, .deadline_s = kDeadlineS};
  }
  std::shared_ptr<Group> shm() {
    if (!shm_) {
      shm_ = comm::make_shm_group({.run_id = cat("bench/", self_.run_id, "/", self_.master_port.value_or(0)),
                                   .rank = self_.rank,
                                   .world = self_.world,
                                   .deadline_s = kDeadlineS,
                                   .join_deadline_s = kDeadlineS});
    }
    return shm_;
  }
  const comm::Store& store() {
    if (!store_) {
      store_ = comm::Store::tcp({self_.master_addr, self_.master_port.value_or(0)}, self_.rank == 0, deadline());
    }
    return *store_;
  }

  const comm::RankIdentity self_;
  std::shared_ptr<Group> shm_;
  std::optional<comm::Store> store_;
};

// What the link allows where there is one, else the memory.
double limit_gbs(const BenchCase& one, const BenchSubject& subject, double memory_rate, double link_rate) {
  if (link_rate > 0 && subject.transport.ends_with("gloo")) return link_rate * 1e-9;
  if (subject.device != c10::DeviceType::CPU) return 0;
  const double at_best_s = memory_limit_s(one, subject.group->world(), memory_rate);
  const double on_the_bus = static_cast<double>(one.bytes) * bus_factor(one.operation, subject.talkers());
  return at_best_s > 0 ? on_the_bus / at_best_s * 1e-9 : 0;
}

std::vector<BenchCase> cases_of(const BenchCommOptions& options) {
  std::vector<BenchCase> cases;
  for (const std::string& operation : options.operations) {
    for (const uint64_t bytes : options.bytes) cases.push_back({operation, bytes});
  }
  return cases;
}

}  // namespace

int bench_comm(const BenchCommOptions& options) {
  const comm::RankIdentity self = comm::read_rank_environment();
  set_log_rank(self.rank);
  Groups groups(self);
  std::vector<BenchSubject> subjects;
  for (const std::string& transport : options.transports) subjects.push_back(groups.make(transport));
  if (options.measured) {
    measure_taught(*subjects.front().group, options);
    return 0;
  }
  BenchReport report{.world = self.world, .link_rate = options.link.bytes_per_s};
  report.memory_rate = measure_memory_rate(subjects.front());
  std::optional<Progress> progress;
  if (self.rank == 0) progress.emplace(ProgressOptions{.title = "bench", .terminal = detect_terminal(STDERR_FILENO)});
  const auto cases = cases_of(options);
  for (size_t i = 0; i < cases.size(); ++i) {
    if (progress) {
      progress->update({.step = static_cast<int64_t>(i),
                        .total_steps = static_cast<int64_t>(cases.size()),
                        .fraction = static_cast<double>(i) / static_cast<double>(cases.size())});
    }
    auto rows = measure(cases[i], subjects, options.num_iterations);
    for (size_t k = 0; k < rows.size(); ++k) {
      rows[k].limit_gbs = limit_gbs(cases[i], subjects[k], report.memory_rate, report.link_rate);
      report.rows.push_back(rows[k]);
    }
  }
  if (progress) progress->finish();
  if (self.rank == 0) show(report, options);
  // Nobody leaves while another still measures.
  subjects.front().group->barrier();
  return 0;
}

}  // namespace weft::cli
