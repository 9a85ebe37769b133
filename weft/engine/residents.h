// Stage 3: parameters of which every rank has a slice, and which are whole only while operators need them.
//
// A bucket is a unit: gathered at once, given back at once. An operator that touches one finds it there (gate.h). What the operators of
// a step touched, one after the other, is the trace; from the second step on the gathers of the same trace begin ahead of their
// use and units leave by next use (plan/residency.h). Where a step goes another way units come on demand, and that way is
// learnt too: several are remembered, so that evaluation between steps costs one step.
//
// How a unit comes: where ranks can read each other's memory, a rank copies the slices out of it and nobody else takes part, so that
// ranks may touch different parameters. Elsewhere it is a collective: all ranks touch the same units in the same order; one
// that does not is named.
//
// Written to (by an operator under NoGradGuard, the same on all ranks), a unit's own slice is taken from it again. Where ranks read
// each other's slices that is before the next update, or, where the limit would not hold all units, at once and with barriers.
//
// Resident are the slices, persistent units, no more elements than the limit, and what one operator needs; memory that is kept for the
// next gather counts too. All of it between hold_all() and the next update.
//
// Ownership: slices and what is gathered are ours; groups and buckets are borrowed. After our end those parameters
// have memory that were whole then; torch says of the others what became of them.
// Threads: touches on any; the rest from one at a time. Streams: a unit may be used on several. Failure: as Group,
// Error(kEnvironment) where memory is refused, Error(kBug) for ranks that touch different units; behind an operator at the next
// check(). That operator reads zeros, or torch throws the same text out of it where there is no memory even for those.
#pragma once

#include <c10/core/Stream.h>

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "weft/comm/group.h"
#include "weft/engine/gate.h"
#include "weft/engine/gather_order.h"
#include "weft/engine/reducer.h"
#include "weft/memory/flat_buckets.h"
#include "weft/monitor/span.h"
#include "weft/plan/plan.h"
#include "weft/plan/residency.h"

namespace weft::engine {

class Residents {
 public:
  // Fills the buckets from the model, lays its parameters in, and keeps the slices. A collective. Lanes are groups of the same
  // ranks that take gathers in turn; `on_host` as in gather_order.h. Requires: at least one lane.
  Residents(std::vector<comm::Group*> lanes, comm::Group* on_host, const plan::Plan& plan, memory::FlatBuckets& buckets,
            plan::ResidencyLimits limits);
  ~Residents();
  Residents(const Residents&) = delete;
  Residents& operator=(const Residents&) = delete;

  // This rank's slice of a bucket's parameters.
  const at::Tensor& slice(int bucket) const { return units_[static_cast<size_t>(bucket)].slice; }

  // All ranks have ended backward: what is whole is given back, and nobody reads slices any more.
  void before_update();
  // The slices are new.
  void after_update();
  // They are, those of frozen parameters too.
  void after_load();
  // All ranks have written what they write: slices are up to date.
  void take_written();
  // Makes all parameters whole until the next update, whatever the limits say. A collective.
  void hold_all();
  // And forever: parameters have memory of their own from here on, and nobody watches them.
  void give_up();

  // Makes a unit whole and keeps it so until it was let go as often, on top of the limits. No touch: the trace does not know of it.
  // A collective where units come by one.
  void hold(int bucket);
  enum class Writes { kKeep, kDrop };  // that operators made since it was held
  void let_go(int bucket, Writes writes = Writes::kKeep);
  // What was held, as one flat tensor.
  const at::Tensor& whole(int bucket) const { return units_[static_cast<size_t>(bucket)].whole; }
  // Sets elements of a bucket, from `first` on, in this rank's slice and where the bucket is whole. All ranks give the same; where
  // they read each other's slices, with barriers around it.
  void write(int bucket, int64_t first, const at::Tensor& values);
  // Between these two whoever likes may write to slices. Nobody holds a unit.
  void before_writing();
  void after_writing();
  // Throws what a gather behind an operator came upon.
  void check();

  const ReduceTotals& totals() const { return totals_; }
  int64_t live_elements() const { return live_; }
  int64_t peak_elements() const { return peak_; }

 private:
  struct Unit {
    at::Tensor flat;        // whose storage the model's parameters share
    at::Tensor slice;       // this rank's part
    at::Tensor whole;       // undefined: not there, and not on its way
    std::string name;       // of its parameters, for messages
    std::string away_text;  // what torch says to whoever looks for it then
    bool persistent = false;
    bool under_way = false;
    bool is_leaving = false;  // as soon as nobody uses it
    bool is_written = false;  // and its slice is not up to date
    int num_users = 0;        // operators that run, and those who hold it
    int num_holds = 0;
    int64_t last_touch = 0;
    comm::Work work;
    GatherOrder::Tag tag;
    OpenSpan span = {};
    std::optional<c10::Stream> home, ready;  // on a device: whose memory it is, and who has waited for it
  };
  // One way that a step can go.
  struct Way {
    std::vector<plan::Touch> trace;
    plan::Residency plan;
    std::vector<std::vector<int>> leaving;  // by position: units that leave when it is reached
  };

  Unit& unit(int number) { return units_[static_cast<size_t>(number)]; }
  void cut(memory::FlatBuckets& buckets, int bucket);
  void touched(const GateTouch& touch);
  void passed(int number, bool writes);
  void fail(const std::exception& error);
  void follow_stream(Unit& unit) const;

  // The trace.
  void follow(const GateTouch& touch);
  void advance(int position);
  bool find_way(const char* at_operator);
  void take_way(size_t number, int position);
  void remember();

  // The memory.
  void bring(int number);
  void start(int number);
  void fetch(int number);
  void start_collective(int number);
  void read_peers(Unit& unit);
  void wait_for(int number);
  void finish(int number);
  void leave(int number);
  void make_room(int64_t elements);
  void keep_written(Unit& unit);
  void take_slice_again(Unit& unit);
  comm::Group& next_lane() { return *lanes_[static_cast<size_t>(num_gathers_++) % lanes_.size()]; }
  void begin_step(int num_changed);
  void meet();
  void meet(const std::function<void()>& how);
  void give_zeros(int number);
  at::Tensor memory_for(const Unit& unit);
  void give_back(at::Tensor memory);
  [[noreturn]] void refuse_memory(int number, const std::exception& error) const;
  std::string live_text() const;
  std::string name_of(int number) const;

  const std::vector<comm::Group*> lanes_;
  comm::Group& group_;  // the first of them
  const plan::Plan& plan_;
  const plan::ResidencyLimits limits_;
  const bool one_sided_;
  bool limit_binds_ = false;    // not all units may be whole at a time
  std::vector<Unit> units_;     // by bucket
  std::vector<int64_t> sizes_;  // by bucket, in elements
  std::unique_ptr<Gate> gate_;

  std::mutex mutex_;  // of what follows
  GatherOrder order_;
  std::vector<plan::Touch> recorded_;
  bool operator_has_touched_ = false;
  std::vector<Way> ways_;
  int way_ = -1;  // the one that this step follows; -1: none, units come on demand
  size_t next_stay_ = 0;
  int64_t num_touches_ = 0, num_gathers_ = 0;
  int64_t live_ = 0, peak_ = 0, pooled_ = 0;  // elements
  std::vector<at::Tensor> pool_;
  bool has_failed_ = false, has_told_ = false;
  std::string failure_text_;
  ReduceTotals totals_;
};

}  // namespace weft::engine
