#include "weft/engine/gathering.h"

#include <utility>

#include "weft/base/clock.h"
#include "weft/monitor/span.h"

namespace weft::engine {
namespace {

std::vector<at::Tensor> flats_of(const memory::FlatBuckets& buckets) {
  std::vector<at::Tensor> out;
  for (int bucket = 0; bucket < buckets.size(); ++bucket) out.push_back(buckets.parameters(bucket));
  return out;
}

}  // namespace

Gathering::Gathering(std::vector<comm::Group*> lanes, const memory::FlatBuckets& buckets, Bring how, int host_copy)
    : lanes_(std::move(lanes)),
      group_(*lanes_.front()),
      buckets_(buckets),
      how_(how),
      host_copy_(host_copy),
      flights_(static_cast<size_t>(buckets.size())) {
  if (how_ != Bring::kLazily) return;
  gate_ = std::make_unique<Gate>(flats_of(buckets),
                                 GateCalls{.touched = [this](const GateTouch& touch) { wait_for(touch.number); },
                                           .settled = [this](int bucket) { return has_landed(bucket); }});
}

void Gathering::before_update() {
  wait();
  if (how_ == Bring::kCommon || host_copy_ > 0) meet();
}

void Gathering::after_update() {
  if (how_ == Bring::kNone) return;
  if (how_ == Bring::kCommon) return meet();
  start();
  if (how_ == Bring::kAtOnce) wait();
}

void Gathering::after_load() {
  after_update();
  if (host_copy_ == 0) return;
  for (int bucket = buckets_.size(); bucket < buckets_.num_with_frozen(); ++bucket) group_.run(gather(bucket));
}

// And what it sends, counted.
comm::Collective Gathering::gather(int bucket) {
  const at::Tensor& whole = buckets_.parameters(bucket);
  const int rank = group_.rank(), world = group_.world();
  ++totals_.num_collectives;
  totals_.sent_bytes +=
      static_cast<int64_t>(whole.nbytes()) / world * ((host_copy_ > 0 ? world / host_copy_ : world) - 1);
  if (host_copy_ > 0) return comm::gather_common(whole, rank, world);
  return comm::all_gather(memory::slice_of(whole, rank, world), whole);
}

void Gathering::meet() {
  const Span span({.name = "wait for ranks", .category = SpanCategory::kExposedWait});
  const Stopwatch watch;
  group_.barrier();
  totals_.exposed_s += watch.elapsed_s();
}

// The gate closes last: starting itself may touch what is to be filled.
void Gathering::start() {
  for (int bucket = buckets_.size() - 1; bucket >= 0; --bucket) {
    auto& flight = flights_[static_cast<size_t>(bucket)];
    flight.span = begin_span({.name = "gather",
                              .category = SpanCategory::kGather,
                              .bucket = bucket,
                              .bytes = static_cast<int64_t>(buckets_.parameters(bucket).nbytes())});
    comm::Group& lane = *lanes_[static_cast<size_t>(bucket) % lanes_.size()];
    flight.work = lane.start(gather(bucket));
    flight.under_way = true;
  }
  if (gate_) gate_->close();
}

void Gathering::wait_for(int bucket) {
  const std::scoped_lock lock(mutex_);
  auto& flight = flights_[static_cast<size_t>(bucket)];
  // On a device a wait orders one stream. Until it has landed, every other one that reads it has to be ordered too.
  if (!std::exchange(flight.under_way, false)) return flight.work.wait();
  {
    const Span span({.name = "wait for parameters", .category = SpanCategory::kExposedWait, .bucket = bucket});
    const Stopwatch watch;
    flight.work.wait();
    totals_.exposed_s += watch.elapsed_s();
  }
  flight.span.end_when([work = flight.work] { return end_of(work); });
}

bool Gathering::has_landed(int bucket) {
  const std::scoped_lock lock(mutex_);
  comm::Work& work = flights_[static_cast<size_t>(bucket)].work;
  if (work.done()) work = {};  // lets go of its tensors
  return work.done();
}

void Gathering::wait() {
  check();
  if (gate_) gate_->open();
  for (int bucket = buckets_.size() - 1; bucket >= 0; --bucket) {
    wait_for(bucket);
    has_landed(bucket);
  }
}

void Gathering::check() {
  if (gate_) gate_->rethrow();
}

}  // namespace weft::engine
