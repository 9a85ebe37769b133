#include "weft/engine/reducer.h"

#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "weft/base/check.h"
#include "weft/base/clock.h"
#include "weft/base/error.h"
#include "weft/base/log.h"
#include "weft/base/text.h"
#include "weft/monitor/span.h"

namespace weft::engine {
namespace {

std::vector<int> once_each(std::vector<int> given, size_t num_parameters) {
  if (given.empty()) given.assign(num_parameters, 1);
  return given;
}

[[noreturn]] void refuse_unexpected() {
  throw Error(
      ErrorKind::kBug,
      {.title = "a gradient came outside of engine.backward()",
       .what = "backward() was called on a tensor of this model, perhaps with create_graph",
       .where = "",
       .fix = "call engine.backward(loss); for gradients inside a loss use torch::autograd::grad(), which adds nothing "
              "to parameters"});
}

[[noreturn]] void refuse_late(int parameter) {
  throw Error(ErrorKind::kBug,
              {.title = cat("a gradient of parameter ", parameter, " came after its bucket had been sent"),
               .what = "it comes more often in this backward than in the first one",
               .where = "",
               .fix = "set \"overlap_comm\": false, so that buckets go when backward has ended"});
}

}  // namespace

Reducer::Reducer(std::vector<comm::Group*> lanes, memory::FlatBuckets& buckets, ReduceSettings settings,
                 std::vector<int> num_arrivals)
    : lanes_(std::move(lanes)),
      group_(*lanes_.front()),
      buckets_(buckets),
      settings_(settings),
      num_arrivals_(once_each(std::move(num_arrivals), buckets.layout().homes.size())),
      times_(buckets.gradients(0).device(), num_arrivals_.size()),
      ready_(static_cast<size_t>(buckets.size())),
      flights_(static_cast<size_t>(buckets.size())),
      in_buffer_(static_cast<size_t>(buckets.num_buffers()), -1),
      is_claimed_(static_cast<size_t>(buckets.size()), false),
      is_packed_(num_arrivals_.size(), false),
      has_sum_(static_cast<size_t>(buckets.size()), false) {
  WEFT_CHECK(buckets.num_buffers() == buckets.size() || (settings_.add_up && !settings_.contiguous));
  WEFT_CHECK(!settings_.int8 || (settings_.scatter && !settings_.wire));
  if (settings_.int8) int8_.emplace(group_.world(), buckets.size());
  for (int bucket = 0; bucket < buckets_.size(); ++bucket) {
    const at::Tensor inside = reduced(buckets_.gradients(bucket));
    results_.push_back(settings_.add_up ? at::zeros_like(inside) : inside);
  }
  log_.num_arrivals.assign(num_arrivals_.size(), 0);
  count_per_bucket();
  count_wires();
}

void Reducer::count_wires() {
  std::vector<int64_t> elements;
  for (int bucket = 0; bucket < buckets_.size(); ++bucket) {
    const bool needs = needs_wire(bucket);
    wire_of_.push_back(needs ? static_cast<int>(elements.size()) % settings_.num_wires : -1);
    if (needs) elements.push_back(buckets_.gradients(bucket).numel());
  }
  for (const int64_t longest : plan::buffer_elements(elements, settings_.num_wires))
    wires_.push_back({allocate_on(group_, buckets_.gradients(0).device(), longest, *settings_.wire)});
}

// Alone there is nothing to send.
bool Reducer::needs_wire(int bucket) const {
  return settings_.wire && *settings_.wire != buckets_.gradients(bucket).scalar_type() && group_.world() > 1;
}

void Reducer::count_per_bucket() {
  per_bucket_.clear();
  for (const auto& bucket : buckets_.layout().gradient_buckets()) {
    per_bucket_.push_back(0);
    for (const auto& place : bucket.places) per_bucket_.back() += num_arrivals_[static_cast<size_t>(place.parameter)];
  }
}

void Reducer::expect_as_logged() {
  for (size_t i = 0; i < num_arrivals_.size(); ++i) num_arrivals_[i] = std::max(1, log_.num_arrivals[i]);
  count_per_bucket();
}

void Reducer::begin(Backward how) {
  WEFT_CHECK(!in_backward_);
  how_ = how;
  in_backward_ = true;
  next_ = 0;
  still_to_come_ = num_arrivals_;
  missing_ = per_bucket_;
  log_.order.clear();
  std::fill(log_.num_arrivals.begin(), log_.num_arrivals.end(), 0);
  times_.begin(how_.learning && !how_.reduce);
}

void Reducer::note(int parameter) {
  const int bucket = buckets_.layout().home(parameter).bucket;
  if (!in_backward_) refuse_unexpected();
  if (log_.num_arrivals[static_cast<size_t>(parameter)]++ == 0) log_.order.push_back(parameter);
  times_.note(parameter);
  if (bucket < next_) refuse_late(parameter);
  take_in(parameter);
  auto& to_come = still_to_come_[static_cast<size_t>(parameter)];
  if (to_come == 0) return;  // more often than before, and in time
  if (--to_come == 0) pack_early(parameter);
  if (--missing_[static_cast<size_t>(bucket)] == 0) note_full(bucket);
  if (how_.reduce && how_.at_once) start_full_buckets();
}

void Reducer::note_full(int bucket) {
  if (group_.world() == 1) return;
  ready_[static_cast<size_t>(bucket)] =
      begin_span({.name = "ready", .category = SpanCategory::kBucket, .bucket = bucket});
}

void Reducer::take_in(int parameter) {
  if (settings_.contiguous) settle(buckets_.layout().home(parameter).bucket);
  const bool sparse = settings_.contiguous
                          ? buckets_.attach_gradient(parameter) == memory::FlatBuckets::Attached::kSparse
                          : buckets_.model_parameter(parameter).grad().is_sparse();
  if (how_.kept && !settings_.contiguous) buckets_.widen_gradient(parameter);
  if (is_packed_[static_cast<size_t>(parameter)]) {
    is_packed_[static_cast<size_t>(parameter)] = false;
    buckets_.take_back_gradient(parameter);
  }
  static std::atomic<bool> has_told = false;
  if (!sparse || has_told.exchange(true)) return;
  log_info("sparse gradients (of parameter ", parameter, ", perhaps of others) are made dense and sent so");
}

// Nobody waits here: the bucket before it in the same buffer must have gone, and be back.
bool Reducer::can_claim(int bucket) const {
  if (is_claimed_[static_cast<size_t>(bucket)]) return true;
  const int buffer = buckets_.buffer(bucket);
  for (int before = next_; before < bucket; ++before) {
    if (buckets_.buffer(before) == buffer) return false;
  }
  const int user = in_buffer_[static_cast<size_t>(buffer)];
  if (user < 0) return true;
  const Flight& flight = flights_[static_cast<size_t>(user)];
  return !flight.under_way || flight.work.done();
}

void Reducer::claim(int bucket) {
  if (is_claimed_[static_cast<size_t>(bucket)]) return;
  int& user = in_buffer_[static_cast<size_t>(buckets_.buffer(bucket))];
  if (user >= 0) settle(user);
  user = bucket;
  is_claimed_[static_cast<size_t>(bucket)] = true;
  if (!settings_.contiguous) buckets_.begin_packing(bucket);
}

void Reducer::pack_early(int parameter) {
  const int bucket = buckets_.layout().home(parameter).bucket;
  if (!settings_.add_up || settings_.contiguous || !how_.reduce || !how_.at_once || !can_claim(bucket)) return;
  claim(bucket);
  buckets_.pack_gradient(parameter);
  buckets_.forget_gradient(parameter);
  is_packed_[static_cast<size_t>(parameter)] = true;
}

void Reducer::start_full_buckets() {
  while (next_ < buckets_.size() && missing_[static_cast<size_t>(next_)] == 0) start(next_++);
}

void Reducer::end_backward() {
  times_.end();
  log_.last_s = times_.last_s();
  log_.backward_s = times_.backward_s();
  std::ranges::stable_sort(log_.order, {}, [&](int parameter) { return log_.last_s[static_cast<size_t>(parameter)]; });
  in_backward_ = false;
  if (!how_.reduce) return;
  while (next_ < buckets_.size()) {
    if (missing_[static_cast<size_t>(next_)] > 0) note_full(next_);
    start(next_++);
  }
}

void Reducer::reduce_held() {
  WEFT_CHECK(!in_backward_);
  for (next_ = 0; next_ < buckets_.size(); ++next_) start(next_);
}

// Whoever was in the buffer before has its result first.
at::Tensor Reducer::on_the_wire(int bucket) {
  const at::Tensor& gradients = buckets_.gradients(bucket);
  const int number = wire_of_[static_cast<size_t>(bucket)];
  if (number < 0) return gradients;
  Wire& wire = wires_[static_cast<size_t>(number)];
  if (wire.user >= 0) settle(wire.user);
  wire.user = bucket;
  return wire.memory.narrow(0, 0, gradients.numel());
}

void Reducer::start(int bucket) {
  const at::NoGradGuard no_grad;
  claim(bucket);
  for (const auto& place : buckets_.layout().bucket(bucket).places) {
    if (settings_.contiguous) {
      buckets_.attach_gradient(place.parameter);  // one that did not come must not be that of the step before
    } else if (!is_packed_[static_cast<size_t>(place.parameter)]) {
      buckets_.pack_gradient(place.parameter);
    }
    is_packed_[static_cast<size_t>(place.parameter)] = false;
  }
  is_claimed_[static_cast<size_t>(bucket)] = false;
  const at::Tensor& gradients = buckets_.gradients(bucket);
  if (settings_.before != 1) gradients.mul_(settings_.before);
  const at::Tensor data = on_the_wire(bucket);
  auto& flight = flights_[static_cast<size_t>(bucket)];
  flight.under_way = true;
  flight.wire = data.is_same(gradients) ? at::Tensor() : data;
  if (flight.wire.defined()) flight.wire.copy_(gradients);
  if (group_.world() > 1) send(bucket, data);
  // The next backward brings new ones: it must not add to what is being reduced.
  if (settings_.add_up) buckets_.forget_gradients(bucket);
}

void Reducer::send(int bucket, const at::Tensor& data) {
  auto& flight = flights_[static_cast<size_t>(bucket)];
  const comm::Collective call = collective(bucket, data);
  ready_[static_cast<size_t>(bucket)].end();
  flight.span = begin_span({.name = "reduce",
                            .category = SpanCategory::kReduce,
                            .bucket = bucket,
                            .bytes = static_cast<int64_t>(call.input.nbytes())});
  const int64_t once_around = static_cast<int64_t>(call.input.nbytes()) / group_.world() * (group_.world() - 1);
  comm::Group& lane = *lanes_[static_cast<size_t>(bucket) % lanes_.size()];
  flight.work = lane.start(call);
  ++totals_.num_collectives;
  totals_.sent_bytes += settings_.scatter ? once_around : 2 * once_around;
}

// The first of a sum, in the type it is kept in: there is nothing to add or to convert.
bool Reducer::goes_directly(int bucket) const {
  return settings_.add_up && settings_.scatter && !int8_ && settings_.after == 1 &&
         !flights_[static_cast<size_t>(bucket)].wire.defined() && !has_sum_[static_cast<size_t>(bucket)];
}

comm::Collective Reducer::collective(int bucket, const at::Tensor& data) {
  if (int8_) return int8_->pack(bucket, data);
  auto& flight = flights_[static_cast<size_t>(bucket)];
  flight.direct = goes_directly(bucket);
  if (flight.direct) return comm::reduce_scatter(data, result(bucket), settings_.op);
  return settings_.scatter ? comm::reduce_scatter(data, reduced(data), settings_.op)
                           : comm::all_reduce(data, settings_.op);
}

void Reducer::settle(int bucket) {
  if (!flights_[static_cast<size_t>(bucket)].under_way) return;
  const Span span({.name = "wait for gradients", .category = SpanCategory::kExposedWait, .bucket = bucket});
  const Stopwatch watch;
  finish(bucket);
  totals_.exposed_s += watch.elapsed_s();
}

void Reducer::finish(int bucket) {
  const at::NoGradGuard no_grad;
  auto& flight = flights_[static_cast<size_t>(bucket)];
  if (!flight.under_way) return;
  flight.under_way = false;
  if (group_.world() > 1) flight.work.wait();
  flight.span.end_when([work = flight.work] { return end_of(work); });
  flight.work = {};
  if (std::exchange(flight.direct, false)) {
    has_sum_[static_cast<size_t>(bucket)] = true;
    return;
  }
  const at::Tensor gradients = reduced(buckets_.gradients(bucket));
  if (flight.wire.defined()) gradients.copy_(reduced(flight.wire));
  if (int8_) int8_->unpack(bucket, gradients, settings_.op);
  if (settings_.after != 1) gradients.mul_(settings_.after);
  if (settings_.add_up) return add_up(bucket, gradients);
  if (!settings_.contiguous && !settings_.scatter) buckets_.unpack_gradients(bucket);
}

void Reducer::add_up(int bucket, const at::Tensor& gradients) {
  auto has_sum = has_sum_[static_cast<size_t>(bucket)];
  const at::Tensor& sum = result(bucket);
  has_sum ? sum.add_(gradients) : sum.copy_(gradients);
  has_sum = true;
}

void Reducer::forget() {
  for (int bucket = 0; bucket < buckets_.size(); ++bucket) settle(bucket);
  has_sum_.assign(has_sum_.size(), false);
}

void Reducer::go_on_from_results() {
  WEFT_CHECK(settings_.add_up);
  has_sum_.assign(has_sum_.size(), true);
}

// What of a bucket holds the result.
at::Tensor Reducer::reduced(const at::Tensor& bucket) const {
  return settings_.scatter ? memory::slice_of(bucket, group_.rank(), group_.world()) : bucket;
}

void Reducer::wait(const std::function<void(int bucket)>& arrived) {
  OpenSpan span = begin_span({.name = "wait for gradients", .category = SpanCategory::kExposedWait});
  Stopwatch watch;
  for (int bucket = 0; bucket < buckets_.size(); ++bucket) {
    finish(bucket);
    if (!arrived) continue;
    span.end();
    if (group_.world() > 1) totals_.exposed_s += watch.elapsed_s();
    arrived(bucket);
    watch.restart();
    if (bucket + 1 < buckets_.size()) {
      span = begin_span({.name = "wait for gradients", .category = SpanCategory::kExposedWait});
    }
  }
  span.end();
  if (group_.world() > 1) totals_.exposed_s += watch.elapsed_s();
}

bool Reducer::abandon() {
  in_backward_ = false;
  is_claimed_.assign(is_claimed_.size(), false);
  is_packed_.assign(is_packed_.size(), false);
  return next_ > 0 && group_.world() > 1;
}

}  // namespace weft::engine
