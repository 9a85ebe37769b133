// Reduces gradients bucket by bucket while backward still runs.
//
// A bucket is full when all its gradients have come; then, and when all buckets before it have gone, its collective starts.
// All ranks start them in the order of the buckets, whatever order their gradients come in, so that ranks whose models take
// different branches stay in step. A bucket that is not full at the end of backward (a parameter that was not used) goes
// then, with zeros.
//
//   reducer.begin({.reduce = at_boundary, .at_once = overlap});
//   loss.backward();                  // hooks call reducer.note(parameter)
//   reducer.end_backward();
//   reducer.wait();                   // result(b) is the reduced gradient of bucket b; with `scatter`, this rank's slice of it
//
// Given sums, what each backward gives is added up there, and buckets are free again as soon as they are reduced: they may take
// turns in buffers. Else the result stays in the bucket. A gradient is packed into a buffer that is free already as soon as it comes,
// while it is in the cache, and its own memory goes back; else when its bucket starts.
//
// Several lanes are groups of the same ranks that take buckets in turn: while one waits for the other end, another fills the wire.
//
// Ownership: borrows the groups and the buckets. Threads: one at a time; note() comes on the thread that runs backward.
// Failure: Error(kBug) for a gradient that comes when its bucket has left, or when nobody expects one; PeerLost.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "weft/comm/group.h"
#include "weft/engine/compression.h"
#include "weft/engine/ready_times.h"
#include "weft/memory/flat_buckets.h"
#include "weft/monitor/span.h"

namespace weft::engine {

struct ReduceSettings {
  bool contiguous = true;        // gradients lie in the buckets already, else they are packed
  bool scatter = false;          // a rank gets the sum of its own slice only
  bool add_up = false;           // results go to sums, backward after backward
  double before = 1, after = 1;  // factors on this rank's gradient and on the result
  comm::ReduceOp op = comm::ReduceOp::kMean;
  std::optional<at::ScalarType> wire = {};  // gradients travel in this type
  int num_wires = 2;                        // buffers of it, in which buckets take turns
  bool int8 = false;                        // or compressed; only with scatter, to sum or mean, on the CPU
};

// What one backward taught: when each parameter's gradient came and how often. Times of a device are true of a backward that was for
// learning; of others they are those at which the work was asked for.
struct ReadyLog {
  std::vector<int> order;         // parameters that got one, by their last arrival
  std::vector<int> num_arrivals;  // by parameter
  std::vector<double> last_s;     // by parameter, since backward began
  double backward_s = 0;
};

// Of everything reduced since the start, as the plan counts it.
struct ReduceTotals {
  int64_t num_collectives = 0, sent_bytes = 0;
  int64_t gathered_bytes = 0;  // of those: parameters
  double exposed_s = 0;        // the time wait() took
};

class Reducer {
 public:
  // num_arrivals: how often a parameter's gradient comes in one backward, by parameter; empty: once.
  // Requires: at least one lane; buckets that take turns only with add_up and without contiguous.
  Reducer(std::vector<comm::Group*> lanes, memory::FlatBuckets& buckets, ReduceSettings settings,
          std::vector<int> num_arrivals = {});

  struct Backward {
    bool reduce = true;     // else gradients stay where they are, for a later backward or reduce_held()
    bool at_once = true;    // a bucket goes when it is full; else all go when backward has ended
    bool learning = false;  // its times are of use
    bool kept = false;      // with reduce off: the next backward adds to these gradients
  };
  void begin(Backward how);
  void note(int parameter);
  void end_backward();
  // Outside of a backward: what backwards that did not reduce have left. The log stays that of the last backward.
  void reduce_held();
  // `arrived` is called for each bucket, in order, as soon as its gradients are there and while later ones are on their way.
  void wait(const std::function<void(int bucket)>& arrived = {});
  // Waits for one bucket: before its memory is used again, or its result looked at.
  void settle(int bucket);
  const at::Tensor& result(int bucket) const { return results_[static_cast<size_t>(bucket)]; }
  bool adds_up() const { return settings_.add_up; }
  // Whether gradients of this rank lie in the buckets between backwards, or where autograd keeps them.
  bool keeps_in_buckets() const { return settings_.contiguous; }
  // Drops what has been added up; the next result is the first of its sum.
  void forget();
  // Results hold sums that were put there from elsewhere; the next backward is added to them. Requires: it adds up.
  void go_on_from_results();
  // Gradients come as often in each backward as they did in the last one.
  void expect_as_logged();
  // Backward has thrown. Whether collectives are under way that peers will miss.
  bool abandon();

  const ReadyLog& log() const { return log_; }
  const ReduceTotals& totals() const { return totals_; }

 private:
  struct Flight {
    bool under_way = false;
    comm::Work work;
    at::Tensor wire;      // what travels; undefined: the bucket itself
    bool direct = false;  // the collective writes the sum itself
    OpenSpan span = {};   // of the collective
  };

  void count_per_bucket();
  void take_in(int parameter);
  bool can_claim(int bucket) const;
  void claim(int bucket);
  void pack_early(int parameter);
  void start_full_buckets();
  void start(int bucket);
  void send(int bucket, const at::Tensor& data);
  comm::Collective collective(int bucket, const at::Tensor& data);
  bool goes_directly(int bucket) const;
  void finish(int bucket);
  void add_up(int bucket, const at::Tensor& gradients);
  void note_full(int bucket);
  void count_wires();
  bool needs_wire(int bucket) const;
  at::Tensor on_the_wire(int bucket);
  at::Tensor reduced(const at::Tensor& bucket) const;

  const std::vector<comm::Group*> lanes_;
  comm::Group& group_;  // the first of them
  memory::FlatBuckets& buckets_;
  const ReduceSettings settings_;
  std::vector<int> num_arrivals_;

  Backward how_;
  bool in_backward_ = false;
  ReadyTimes times_;
  std::vector<int> still_to_come_;  // by parameter, in this backward
  std::vector<int> per_bucket_;     // arrivals of a whole backward
  std::vector<int> missing_;        // by bucket: arrivals that are still to come
  int next_ = 0;                    // the first bucket that has not gone
  std::vector<OpenSpan> ready_;     // by bucket: from its last gradient to its sending
  std::vector<Flight> flights_;     // by bucket
  // What travels, where it is of another type than the gradients: buffers that are made once, of which buckets use one in turn.
  struct Wire {
    at::Tensor memory;
    int user = -1;  // the bucket that was last in it
  };
  std::vector<Wire> wires_;
  std::vector<int> wire_of_;         // by bucket; -1: it travels as it is
  std::optional<Compression> int8_;  // where that is how gradients travel
  std::vector<int> in_buffer_;       // by buffer: the bucket whose gradients are in it
  std::vector<bool> is_claimed_;     // by bucket: it has its buffer and has not gone
  std::vector<bool> is_packed_;      // by parameter: in the buffer of a bucket that has not gone
  std::vector<at::Tensor> results_;  // by bucket
  std::vector<bool> has_sum_;        // by bucket: a backward of this step has been added
  ReadyLog log_;
  ReduceTotals totals_;
};

}  // namespace weft::engine
