// Brings the slices that ranks have updated back to all of them.
//
//   kNone     every rank updates everything: nothing to bring
//   kCommon   the ranks' parameters are one memory: barriers around the update are all there is
//   kAtOnce   step() waits for all buckets
//   kLazily   buckets come behind the next forward, which waits for those it touches (gate.h); in the order in which forward needs
//             them, the reverse of that in which their gradients came. Every stream that reads one waits for it
//
// Where each host has one copy of the parameters (plan::PlanOptions::host_copy), what comes is brought to the hosts, once to each.
//
// Ownership: borrows group and buckets. Threads: one at a time; touches come on any, also while one waits for all. Failure: as Group;
// of a wait behind an operator at the next check().
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "weft/comm/group.h"
#include "weft/engine/gate.h"
#include "weft/engine/reducer.h"
#include "weft/memory/flat_buckets.h"
#include "weft/monitor/span.h"

namespace weft::engine {

enum class Bring { kNone, kCommon, kAtOnce, kLazily };

class Gathering {
 public:
  // Lanes are groups of the same ranks that take buckets in turn. `host_copy`: so many ranks have the buckets' parameters in common;
  // 0: none, or all. Requires: at least one lane.
  Gathering(std::vector<comm::Group*> lanes, const memory::FlatBuckets& buckets, Bring how, int host_copy = 0);

  // All ranks have ended backward: nobody reads parameters, and what was gathered before is there.
  void before_update();
  void after_update();
  // All slices are new, those of frozen parameters too.
  void after_load();
  // Until all parameters are whole, for whoever reads them without an operator.
  void wait();
  // Throws what a wait behind an operator came upon.
  void check();

  const ReduceTotals& totals() const { return totals_; }

 private:
  void meet();
  void start();
  void wait_for(int bucket);
  bool has_landed(int bucket);
  comm::Collective gather(int bucket);

  const std::vector<comm::Group*> lanes_;
  comm::Group& group_;  // the first of them
  const memory::FlatBuckets& buckets_;
  const Bring how_;
  const int host_copy_;
  struct Flight {
    comm::Work work;
    bool under_way = false;
    OpenSpan span = {};
  };
  std::mutex mutex_;             // of what is under way, once it is
  std::vector<Flight> flights_;  // by bucket
  std::unique_ptr<Gate> gate_;
  ReduceTotals totals_;
};

}  // namespace weft::engine
