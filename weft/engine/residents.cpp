#include "weft/engine/residents.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/record_function.h>
#include <c10/core/GradMode.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>

#include "weft/base/check.h"
#include "weft/base/clock.h"
#include "weft/base/error.h"
#include "weft/base/log.h"
#include "weft/base/text.h"
#include "weft/memory/loose_storage.h"
#include "weft/monitor/span.h"

namespace weft::engine {
namespace {

constexpr size_t kMaxWays = 4;
constexpr size_t kNumNames = 3;  // of a unit in a message

// Pages that are there only if they are written to: for operators that run on after a failure.
at::Tensor zero_pages(const at::Tensor& like) {
  if (!like.is_cpu()) return at::zeros({like.numel()}, like.options());
  const size_t bytes = std::max<size_t>(like.nbytes(), 1);
  void* const at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  WEFT_CHECK(at != MAP_FAILED);
  return at::from_blob(at, {like.numel()}, [bytes](void* pages) { ::munmap(pages, bytes); }, like.options());
}

c10::StorageImpl& storage_of(const at::Tensor& flat) { return *flat.storage().unsafeGetStorageImpl(); }

std::vector<std::vector<int>> leaving_in(const plan::Residency& plan, size_t num_touches) {
  std::vector<std::vector<int>> out(num_touches + 1);
  for (const plan::Stay& stay : plan.stays) out[static_cast<size_t>(stay.last) + 1].push_back(stay.unit);
  return out;
}

bool starts_with(const std::vector<plan::Touch>& trace, const std::vector<plan::Touch>& beginning) {
  return trace.size() >= beginning.size() && std::equal(beginning.begin(), beginning.end(), trace.begin());
}

void meet(comm::Group& ranks, ReduceTotals& totals) {
  const Span span({.name = "wait for ranks", .category = SpanCategory::kExposedWait});
  const Stopwatch watch;
  ranks.barrier();
  totals.exposed_s += watch.elapsed_s();
}

}  // namespace

Residents::Residents(std::vector<comm::Group*> lanes, const plan::Plan& plan, memory::FlatBuckets& buckets,
                     plan::ResidencyLimits limits)
    : lanes_(std::move(lanes)),
      group_(*lanes_.front()),
      plan_(plan),
      limits_(limits),
      one_sided_(group_.one_sided() && buckets.parameters(0).is_cpu()),
      units_(static_cast<size_t>(buckets.num_with_frozen())) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> flats;
  for (int bucket = 0; bucket < buckets.num_with_frozen(); ++bucket) {
    cut(buckets, bucket);
    flats.push_back(unit(bucket).flat);
    sizes_.push_back(unit(bucket).flat.numel());
  }
  if (one_sided_) group_.barrier();
  gate_ =
      std::make_unique<Gate>(flats, GateCalls{.touched = [this](const GateTouch& touch) { touched(touch); },
                                              .passed = [this](int number, bool writes) { passed(number, writes); }});
  gate_->close();
}

Residents::~Residents() {
  for (int number = 0; number < std::ssize(units_); ++number) {
    if (!unit(number).whole.defined() || unit(number).under_way)
      memory::take_memory(storage_of(unit(number).flat), gone_text(number));
  }
}

// One after the other, so that never more than one bucket is there twice.
void Residents::cut(memory::FlatBuckets& buckets, int bucket) {
  Unit& it = unit(bucket);
  it.persistent = plan_.layout.bucket(bucket).persistent;
  it.flat = buckets.parameters(bucket);
  const at::Tensor memory = at::empty({it.flat.numel()}, it.flat.options());
  memory::give_memory(storage_of(it.flat), memory);
  buckets.fill(bucket);
  buckets.lay_in(bucket);
  const at::Tensor own = memory::slice_of(it.flat, group_.rank(), group_.world());
  it.slice = allocate_on(group_, it.flat.device(), own.numel(), it.flat.scalar_type());
  it.slice.copy_(own);
  it.away_text = away_text(bucket);
  if (it.persistent) {
    it.whole = memory;
  } else {
    memory::take_memory(storage_of(it.flat), it.away_text);
  }
}

std::string Residents::name_of(int number) const {
  const auto& places = plan_.layout.bucket(number).places;
  std::vector<std::string> names;
  for (size_t i = 0; i < std::min(places.size(), kNumNames); ++i)
    names.push_back(cat("'", plan_.table[places[i].parameter].name, "'"));
  const size_t more = places.size() - names.size();
  return cat(join(names, ", "), more > 0 ? cat(" and ", more, " more") : "");
}

std::string Residents::away_text(int number) const {
  return cat("weft: of ", name_of(number), " this rank has a slice; they are whole only while an operator uses them. ",
             "To look at memory without one, hold them with weft::GatheredParameters");
}

std::string Residents::gone_text(int number) const {
  return cat("weft: of ", name_of(number), " this rank had a slice, and the engine that could gather them is gone. ",
             "Call engine.wait_for_parameters() before its end, on all ranks, to keep the model whole");
}

// --- Touches ---------------------------------------------------------------------------------------------------------

void Residents::touched(const GateTouch& touch) {
  const at::DisableRecordFunctionGuard unwatched;  // our own operators are no touches
  const std::scoped_lock lock(mutex_);
  const at::NoGradGuard no_grad;
  Unit& it = unit(touch.number);
  ++it.num_users;
  it.last_touch = ++num_touches_;
  try {
    if (!has_failed_) {
      if (!it.persistent) follow(touch);
      bring(touch.number);
    }
  } catch (...) {
    has_failed_ = true;
    give_zeros(touch.number);
    throw;
  }
  if (has_failed_) give_zeros(touch.number);
}

void Residents::passed(int number, bool writes) {
  const std::scoped_lock lock(mutex_);
  Unit& it = unit(number);
  --it.num_users;
  if (writes && !has_failed_) {
    it.is_written = true;
    // Peers that read our slice when they like must not see it change before they have written, too.
    // Nor does whoever holds it want that before it is known whether the writes count.
    if (!one_sided_ && it.num_holds == 0) take_slice_again(it);
  }
  if (it.is_leaving && it.num_users == 0) leave(number);
}

void Residents::take_slice_again(Unit& it) {
  const at::NoGradGuard no_grad;
  const at::DisableRecordFunctionGuard unwatched;
  it.slice.copy_(memory::slice_of(it.whole, group_.rank(), group_.world()));
  it.is_written = false;
}

// An operator must find memory, whatever happened.
void Residents::give_zeros(int number) {
  Unit& it = unit(number);
  if (it.whole.defined() && !it.under_way) return;
  it.under_way = false;
  it.work = it.tags_work = {};
  it.whole = zero_pages(it.flat);
  memory::give_memory(storage_of(it.flat), it.whole);
}

// --- The trace -------------------------------------------------------------------------------------------------------

// Touches of one unit that follow each other count as one.
void Residents::follow(const GateTouch& touch) {
  if (touch.is_first) operator_has_touched_ = false;
  const bool with_previous = std::exchange(operator_has_touched_, true);
  if (!recorded_.empty() && recorded_.back().unit == touch.number) return;
  recorded_.push_back({.unit = touch.number, .with_previous = with_previous && !recorded_.empty()});
  if (way_ < 0) return;
  const int position = static_cast<int>(recorded_.size()) - 1;
  const auto& trace = ways_[static_cast<size_t>(way_)].trace;
  const bool as_before = position < std::ssize(trace) && trace[static_cast<size_t>(position)] == recorded_.back();
  if (as_before || find_way(touch.name)) advance(position);
}

void Residents::advance(int position) {
  const Way& way = ways_[static_cast<size_t>(way_)];
  if (position >= 0) {
    for (const int number : way.leaving[static_cast<size_t>(position)]) leave(number);
  }
  const auto& stays = way.plan.stays;
  while (next_stay_ < stays.size() && stays[next_stay_].start <= position) start(stays[next_stay_++].unit);
}

// Another way that began like this step; false: none is known.
bool Residents::find_way(const char* at_operator) {
  for (size_t way = 0; way < ways_.size(); ++way) {
    if (!starts_with(ways_[way].trace, recorded_)) continue;
    take_way(way, static_cast<int>(recorded_.size()) - 1);
    return true;
  }
  way_ = -1;
  static std::atomic<bool> has_told = false;
  if (!has_told.exchange(true)) {
    log_info("parameters are touched in another order than in the step before, from ", at_operator, " on ",
             name_of(recorded_.back().unit), ": they are gathered on demand until that order is learnt");
  }
  return false;
}

// What is there is kept if the way will need it, and given back if not.
void Residents::take_way(size_t number, int position) {
  way_ = static_cast<int>(number);
  const auto& stays = ways_[number].plan.stays;
  std::vector<bool> needed(units_.size(), false);
  next_stay_ = 0;
  for (; next_stay_ < stays.size() && stays[next_stay_].first < position; ++next_stay_) {
    if (stays[next_stay_].last >= position) needed[static_cast<size_t>(stays[next_stay_].unit)] = true;
  }
  for (size_t i = next_stay_; i < stays.size() && stays[i].start <= position; ++i)
    needed[static_cast<size_t>(stays[i].unit)] = true;
  for (int unit = 0; unit < std::ssize(units_); ++unit) {
    if (!needed[static_cast<size_t>(unit)]) leave(unit);
  }
}

void Residents::remember() {
  const auto known = std::ranges::find(ways_, recorded_, &Way::trace);
  if (known != ways_.end()) {
    std::rotate(ways_.begin(), known, known + 1);  // the last one first
  } else if (!recorded_.empty()) {
    Way way{.trace = recorded_, .plan = plan::make_residency(recorded_, sizes_, limits_), .leaving = {}};
    way.leaving = leaving_in(way.plan, recorded_.size());
    ways_.insert(ways_.begin(), std::move(way));
    if (ways_.size() > kMaxWays) ways_.pop_back();
  }
  recorded_.clear();
  next_stay_ = 0;
  way_ = ways_.empty() ? -1 : 0;
}

// --- Memory ----------------------------------------------------------------------------------------------------------

void Residents::bring(int number) {
  Unit& it = unit(number);
  it.is_leaving = false;
  if (!it.whole.defined()) {
    if (way_ < 0) make_room(it.flat.numel());
    start(number);
  }
  if (it.under_way) finish(number);
}

// Nobody knows what comes next: what was used longest ago goes.
void Residents::make_room(int64_t elements) {
  while (live_ + elements > limits_.max_live) {
    int oldest = -1;
    for (int number = 0; number < std::ssize(units_); ++number) {
      const Unit& it = unit(number);
      if (it.persistent || !it.whole.defined() || it.num_users > 0 || it.is_written) continue;
      if (oldest < 0 || it.last_touch < unit(oldest).last_touch) oldest = number;
    }
    if (oldest < 0) return;
    leave(oldest);
  }
}

at::Tensor Residents::memory_for(const Unit& it) {
  const auto same = std::ranges::find_if(pool_, [&](const at::Tensor& one) {
    return one.numel() == it.flat.numel() && one.scalar_type() == it.flat.scalar_type();
  });
  if (same != pool_.end()) {
    at::Tensor found = std::move(*same);
    pool_.erase(same);
    pooled_ -= found.numel();
    return found;
  }
  // Memory of another size is worth keeping only within the limit.
  while (!pool_.empty() && live_ + pooled_ + it.flat.numel() > limits_.max_live) {
    pooled_ -= pool_.back().numel();
    pool_.pop_back();
  }
  return at::empty({it.flat.numel()}, it.flat.options());
}

void Residents::give_back(at::Tensor memory) {
  if (!memory.is_cpu()) return;  // the device's allocator keeps it
  pooled_ += memory.numel();
  pool_.push_back(std::move(memory));
}

void Residents::start(int number) {
  Unit& it = unit(number);
  it.is_leaving = false;
  if (it.under_way || (it.whole.defined() && !it.persistent)) return;
  if (!it.persistent) {
    try {
      it.whole = memory_for(it);
    } catch (const std::exception& error) {
      throw Error(ErrorKind::kEnvironment,
                  {.title = cat("no memory to gather ", name_of(number)),
                   .what = cat(it.flat.numel(), " elements, with ", live_, " gathered: ", error.what()),
                   .where = cat("rank ", group_.rank()),
                   .fix = "lower stage3_max_live_parameters or stage3_prefetch_bucket_size"});
    }
    live_ += it.flat.numel();
    peak_ = std::max(peak_, live_);
  }
  fetch(number);
}

void Residents::fetch(int number) {
  Unit& it = unit(number);
  ++totals_.num_collectives;
  totals_.sent_bytes += static_cast<int64_t>(it.slice.nbytes()) * (group_.world() - 1);
  it.started_ns = now_ns();
  if (one_sided_) return read_peers(it);
  start_collective(number);
}

void Residents::read_peers(Unit& it) {
  const Span span(
      {.name = "read parameters", .category = SpanCategory::kGather, .bytes = static_cast<int64_t>(it.whole.nbytes())});
  for (int peer = 0; peer < group_.world(); ++peer) {
    const at::Tensor into = memory::slice_of(it.whole, peer, group_.world());
    if (peer == group_.rank()) {
      into.copy_(it.slice);
    } else {
      group_.read(peer, it.slice, into);
    }
  }
  memory::give_memory(storage_of(it.flat), it.whole);
}

void Residents::start_collective(int number) {
  Unit& it = unit(number);
  comm::Group& lane = *lanes_[static_cast<size_t>(num_gathers_++) % lanes_.size()];
  if (it.whole.is_cpu()) {
    it.tags = at::empty({group_.world()}, at::kLong);
    it.tags_work = lane.start(comm::all_gather(at::tensor({static_cast<int64_t>(number)}, at::kLong), it.tags));
  }
  it.work = lane.start(comm::all_gather(it.slice, it.whole));
  it.under_way = true;
}

// Ranks that gather different units would take each other's bytes for their own.
void Residents::check_tags(int number) const {
  const Unit& it = units_[static_cast<size_t>(number)];
  if (!it.tags.defined()) return;
  it.tags_work.wait();
  for (int rank = 0; rank < group_.world(); ++rank) {
    const auto other = it.tags[rank].item<int64_t>();
    if (other == number) continue;
    const bool known = other >= 0 && other < std::ssize(units_);
    throw Error(
        ErrorKind::kBug,
        {.title = "ranks touch different parameters",
         .what = cat("rank ", group_.rank(), " gathers ", name_of(number), ", rank ", rank, " ",
                     known ? name_of(static_cast<int>(other)) : "something else"),
         .where = cat("group ", group_.name(), ", transport ", group_.transport()),
         .fix =
             "give the engine those that ranks choose from in EngineOptions::together, or run all ranks on one host"});
  }
}

void Residents::finish(int number) {
  Unit& it = unit(number);
  {
    const Span span({.name = "wait for parameters", .category = SpanCategory::kExposedWait, .bucket = number});
    const Stopwatch watch;
    check_tags(number);
    it.work.wait();
    totals_.exposed_s += watch.elapsed_s();
  }
  if (spans_on()) {
    const int64_t finished_ns = it.work.finished_ns();
    record_span({.name = "gather",
                 .category = SpanCategory::kGather,
                 .bucket = number,
                 .bytes = static_cast<int64_t>(it.whole.nbytes()),
                 .start_ns = it.started_ns,
                 .end_ns = finished_ns > 0 ? finished_ns : now_ns()});
  }
  it.work = it.tags_work = {};
  it.under_way = false;
  memory::give_memory(storage_of(it.flat), it.whole);
}

void Residents::leave(int number) {
  Unit& it = unit(number);
  if (it.persistent || !it.whole.defined()) return;
  it.is_leaving = it.num_users > 0 || it.is_written;
  if (it.is_leaving) return;
  if (it.under_way) finish(number);
  memory::take_memory(storage_of(it.flat), it.away_text);
  live_ -= it.flat.numel();
  give_back(std::exchange(it.whole, at::Tensor()));
}

// --- Held by the user ------------------------------------------------------------------------------------------------

void Residents::hold(int bucket) {
  check();
  const at::DisableRecordFunctionGuard unwatched;
  const std::scoped_lock lock(mutex_);
  const at::NoGradGuard no_grad;
  bring(bucket);
  Unit& it = unit(bucket);
  ++it.num_users;
  ++it.num_holds;
}

void Residents::let_go(int bucket, Writes writes) {
  const at::DisableRecordFunctionGuard unwatched;
  const std::scoped_lock lock(mutex_);
  const at::NoGradGuard no_grad;
  Unit& it = unit(bucket);
  --it.num_users;
  --it.num_holds;
  if (has_failed_) return;
  if (writes == Writes::kDrop) {
    it.is_written = false;
    // Others go on with it: as it is in the slices.
    if (it.persistent || it.num_users > 0) {
      fetch(bucket);
      if (it.under_way) finish(bucket);
    }
  } else if (it.is_written && !one_sided_ && it.num_holds == 0) {
    take_slice_again(it);
  }
  if (it.num_users == 0) leave(bucket);
}

void Residents::write(int bucket, int64_t first, const at::Tensor& values) {
  const at::DisableRecordFunctionGuard unwatched;
  const std::scoped_lock lock(mutex_);
  const at::NoGradGuard no_grad;
  Unit& it = unit(bucket);
  if (it.under_way) finish(bucket);
  const int64_t own = it.slice.numel() * group_.rank();
  const int64_t from = std::max(first, own), to = std::min(first + values.numel(), own + it.slice.numel());
  if (from < to) it.slice.narrow(0, from - own, to - from).copy_(values.narrow(0, from - first, to - from));
  if (it.whole.defined()) it.whole.narrow(0, first, values.numel()).copy_(values);
}

// What operators wrote meanwhile goes with the rest.
void Residents::before_writing() {
  check();
  const std::scoped_lock lock(mutex_);
  const at::NoGradGuard no_grad;
  for (int number = 0; number < std::ssize(units_); ++number) {
    if (unit(number).under_way) finish(number);
    unit(number).is_written = false;
    leave(number);
  }
  if (one_sided_) meet(group_, totals_);
}

void Residents::after_writing() {
  const at::DisableRecordFunctionGuard unwatched;
  const std::scoped_lock lock(mutex_);
  const at::NoGradGuard no_grad;
  if (one_sided_) meet(group_, totals_);
  for (int number = 0; number < std::ssize(units_); ++number) {
    if (!unit(number).persistent) continue;
    fetch(number);
    if (unit(number).under_way) finish(number);
  }
}

// --- Between steps ---------------------------------------------------------------------------------------------------

void Residents::before_update() {
  check();
  const std::scoped_lock lock(mutex_);
  const at::NoGradGuard no_grad;
  for (int number = 0; number < std::ssize(units_); ++number) {
    if (unit(number).under_way) finish(number);
  }
  if (one_sided_) meet(group_, totals_);
  for (Unit& it : units_) {
    if (it.is_written) take_slice_again(it);
  }
  for (int number = 0; number < std::ssize(units_); ++number) leave(number);
  remember();
}

// Frozen ones have not changed.
void Residents::after_update() { begin_step(plan_.layout.num_gradient_buckets); }
void Residents::after_load() { begin_step(static_cast<int>(units_.size())); }

void Residents::begin_step(int num_changed) {
  const std::scoped_lock lock(mutex_);
  const at::NoGradGuard no_grad;
  if (one_sided_) meet(group_, totals_);
  // In the order in which forward needs them.
  for (int number = num_changed - 1; number >= 0; --number) {
    if (unit(number).persistent) start(number);
  }
  if (way_ >= 0) advance(plan::kBeforeFirst);
}

void Residents::take_written() {
  check();
  const std::scoped_lock lock(mutex_);
  if (one_sided_) meet(group_, totals_);
  for (Unit& it : units_) {
    if (it.is_written) take_slice_again(it);
  }
}

void Residents::hold_all() {
  check();
  const std::scoped_lock lock(mutex_);
  const at::NoGradGuard no_grad;
  for (int number = 0; number < std::ssize(units_); ++number) {
    if (!unit(number).whole.defined()) start(number);
    if (unit(number).under_way) finish(number);
  }
  // Whatever is touched from here on is there: nothing of this step's order is to give it back.
  way_ = -1;
}

void Residents::give_up() {
  hold_all();
  gate_->open();
}

void Residents::check() { gate_->rethrow(); }

}  // namespace weft::engine
