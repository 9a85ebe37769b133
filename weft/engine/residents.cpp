#include "weft/engine/residents.h"

#include <ATen/ops/empty.h>
#include <ATen/record_function.h>
#include <c10/core/Event.h>
#include <c10/core/GradMode.h>

#include <algorithm>

#include "weft/base/log.h"
#include "weft/base/text.h"
#include "weft/engine/residents_impl.h"
#include "weft/memory/loose_storage.h"

namespace weft::engine {
namespace {

constexpr size_t kMaxWays = 4;
constexpr size_t kNumNames = 3;  // of a unit in a message

std::vector<std::vector<int>> leaving_in(const plan::Residency& plan, size_t num_touches) {
  std::vector<std::vector<int>> out(num_touches + 1);
  for (const plan::Stay& stay : plan.stays) out[static_cast<size_t>(stay.last) + 1].push_back(stay.unit);
  return out;
}

bool starts_with(const std::vector<plan::Touch>& trace, const std::vector<plan::Touch>& beginning) {
  return trace.size() >= beginning.size() && std::equal(beginning.begin(), beginning.end(), trace.begin());
}

std::string away_text(const std::string& name) {
  return cat("weft: of ", name,
             " this rank has a slice; they are whole only while an operator that weft sees uses them. ",
             "To look at memory without one, or to use them in a callback of a collective or where operators are not "
             "recorded ",
             "(DisableRecordFunctionGuard), hold them with weft::GatheredParameters before");
}

std::string gone_text(const std::string& name) {
  return cat("weft: of ", name, " this rank had a slice, and the engine that could gather them is gone. ",
             "Call engine.wait_for_parameters() before its end, on all ranks, to keep the model whole");
}

}  // namespace

Residents::Residents(std::vector<comm::Group*> lanes, comm::Group* on_host, const plan::Plan& plan,
                     memory::FlatBuckets& buckets, plan::ResidencyLimits limits)
    : lanes_(std::move(lanes)),
      group_(*lanes_.front()),
      plan_(plan),
      limits_(limits),
      one_sided_(group_.one_sided() && buckets.parameters(0).is_cpu()),
      units_(static_cast<size_t>(buckets.num_with_frozen())),
      order_(group_, on_host, [this](int number) { return unit(number).name; }) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> flats;
  int64_t all = 0;
  for (int bucket = 0; bucket < buckets.num_with_frozen(); ++bucket) {
    cut(buckets, bucket);
    flats.push_back(unit(bucket).flat);
    sizes_.push_back(unit(bucket).flat.numel());
    if (!unit(bucket).persistent) all += sizes_.back();
  }
  limit_binds_ = all > limits_.max_live;
  if (one_sided_) group_.barrier();
  gate_ =
      std::make_unique<Gate>(flats, GateCalls{.touched = [this](const GateTouch& touch) { touched(touch); },
                                              .passed = [this](int number, bool writes) { passed(number, writes); }});
  gate_->close();
}

Residents::~Residents() {
  for (int number = 0; number < std::ssize(units_); ++number) {
    if (!unit(number).whole.defined() || unit(number).under_way)
      memory::take_memory(memory::storage_of(unit(number).flat), gone_text(unit(number).name));
  }
}

// One after the other, so that never more than one bucket is there twice.
void Residents::cut(memory::FlatBuckets& buckets, int bucket) {
  Unit& it = unit(bucket);
  it.persistent = plan_.layout.bucket(bucket).persistent;
  it.flat = buckets.parameters(bucket);
  const at::Tensor memory = at::empty({it.flat.numel()}, it.flat.options());
  memory::give_memory(memory::storage_of(it.flat), memory);
  buckets.fill(bucket);
  buckets.lay_in(bucket);
  const at::Tensor own = memory::slice_of(it.flat, group_.rank(), group_.world());
  it.slice = allocate_on(group_, it.flat.device(), own.numel(), it.flat.scalar_type());
  it.slice.copy_(own);
  it.name = name_of(bucket);
  it.away_text = away_text(it.name);
  if (it.persistent) {
    it.whole = memory;
    it.home = it.ready = current_stream(it.flat);
  } else {
    memory::take_memory(memory::storage_of(it.flat), it.away_text);
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
      return follow_stream(it);
    }
  } catch (const std::exception& error) {
    fail(error);
    give_zeros(touch.number);
    throw;
  }
  give_zeros(touch.number);
}

void Residents::passed(int number, bool writes) {
  const at::DisableRecordFunctionGuard unwatched;
  const std::scoped_lock lock(mutex_);
  const at::NoGradGuard no_grad;
  Unit& it = unit(number);
  --it.num_users;
  try {
    if (writes && !has_failed_) {
      it.is_written = true;
      keep_written(it);
    }
    if (it.is_leaving && it.num_users == 0) leave(number);
  } catch (const std::exception& error) {
    fail(error);
    throw;
  }
}

void Residents::fail(const std::exception& error) {
  if (!std::exchange(has_failed_, true)) failure_text_ = cat("weft: ", error.what());
}

// The device's allocator and the gather know of one stream.
void Residents::follow_stream(Unit& it) const {
  const auto now = current_stream(it.flat);
  if (!now || !it.home || !it.ready) return;
  if (*now != *it.home) it.whole.record_stream(*now);
  if (*now == *it.ready) return;
  c10::Event is_there(now->device_type());
  is_there.record(*it.ready);
  is_there.block(*now);
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
  if (!std::exchange(has_told_, true)) {
    log_info("parameters are touched in another order than in the step before, from ", at_operator, " on ",
             unit(recorded_.back().unit).name, ": they are gathered on demand until that order is learnt");
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

}  // namespace weft::engine
