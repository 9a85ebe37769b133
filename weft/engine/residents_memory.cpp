// Where the memory of units comes from, and how it is filled.
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>
#include <ATen/record_function.h>
#include <c10/core/GradMode.h>
#include <c10/util/Exception.h>
#include <sys/mman.h>

#include <algorithm>

#include "weft/base/clock.h"
#include "weft/base/error.h"
#include "weft/base/text.h"
#include "weft/base/units.h"
#include "weft/engine/residents.h"
#include "weft/engine/residents_impl.h"
#include "weft/memory/loose_storage.h"
#include "weft/monitor/span.h"

namespace weft::engine {
namespace {

constexpr size_t kNumLiveNames = 3;  // in a message, the largest

// Pages that are there only if they are written to: for operators that run on after a failure. Undefined: there are none.
at::Tensor zero_pages(const at::Tensor& like) {
  if (!like.is_cpu()) {
    try {
      return at::zeros({like.numel()}, like.options());
    } catch (const c10::Error&) {
      return {};
    }
  }
  const size_t bytes = std::max<size_t>(like.nbytes(), 1);
  void* const at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) return {};
  return at::from_blob(at, {like.numel()}, [bytes](void* pages) { ::munmap(pages, bytes); }, like.options());
}

std::string bytes_text(const at::Tensor& flat) { return format_bytes(flat.nbytes()); }

// Torch tells where in its own code it happened, in lines that help nobody.
std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

}  // namespace

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

// Kept for the next gather, as far as the limit allows: what is whole comes first.
void Residents::give_back(at::Tensor memory) {
  if (!memory.is_cpu()) return;  // the device's allocator keeps it
  if (live_ + pooled_ + memory.numel() > limits_.max_live) return;
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
      refuse_memory(number, error);
    }
    it.home = current_stream(it.flat);
    live_ += it.flat.numel();
    peak_ = std::max(peak_, live_);
  }
  fetch(number);
}

void Residents::fetch(int number) {
  Unit& it = unit(number);
  ++totals_.num_collectives;
  totals_.sent_bytes += static_cast<int64_t>(it.slice.nbytes()) * (group_.world() - 1);
  if (one_sided_) return read_peers(it);
  it.span = begin_span({.name = "gather",
                        .category = SpanCategory::kGather,
                        .bucket = number,
                        .bytes = static_cast<int64_t>(it.whole.nbytes())});
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
  memory::give_memory(memory::storage_of(it.flat), it.whole);
}

void Residents::start_collective(int number) {
  Unit& it = unit(number);
  try {
    comm::Group& lane = next_lane();
    it.tag = order_.begin(number, lane);
    comm::Collective call = comm::all_gather(it.slice, it.whole);
    call.purpose = it.name;
    it.work = lane.start(std::move(call));
  } catch (const Error&) {
    order_.rethrow(number);
  }
  it.under_way = true;
}

// Ranks that part are named before anybody uses the bytes, where that takes no waiting for a device.
void Residents::wait_for(int number) {
  Unit& it = unit(number);
  order_.check(it.tag, number);
  it.work.wait();
}

void Residents::finish(int number) {
  Unit& it = unit(number);
  {
    const Span span({.name = "wait for parameters", .category = SpanCategory::kExposedWait, .bucket = number});
    const Stopwatch watch;
    try {
      wait_for(number);
    } catch (const Error&) {
      order_.rethrow(number);
    }
    totals_.exposed_s += watch.elapsed_s();
  }
  it.span.end_when([work = it.work] { return end_of(work); });
  it.work = {};
  it.tag = {};
  it.under_way = false;
  it.ready = current_stream(it.flat);
  memory::give_memory(memory::storage_of(it.flat), it.whole);
}

void Residents::leave(int number) {
  Unit& it = unit(number);
  if (it.persistent || !it.whole.defined()) return;
  it.is_leaving = it.num_users > 0 || it.is_written;
  if (it.is_leaving) return;
  if (it.under_way) finish(number);
  memory::take_memory(memory::storage_of(it.flat), it.away_text);
  live_ -= it.flat.numel();
  give_back(std::exchange(it.whole, at::Tensor()));
}

// An operator must find memory, whatever happened; or, where there is none, the cause.
void Residents::give_zeros(int number) {
  Unit& it = unit(number);
  if (it.whole.defined() && !it.under_way) return;
  it.under_way = false;
  it.work = {};
  it.tag = {};
  it.whole.reset();
  it.whole = zero_pages(it.flat);
  if (it.whole.defined()) {
    memory::give_memory(memory::storage_of(it.flat), it.whole);
  } else {
    memory::take_memory(memory::storage_of(it.flat), failure_text_);
  }
}

std::string Residents::live_text() const {
  std::vector<const Unit*> live;
  for (const Unit& it : units_) {
    if (!it.persistent && it.whole.defined()) live.push_back(&it);
  }
  if (live.empty()) return "nothing else is gathered";
  std::ranges::stable_sort(live, std::greater<>(), [](const Unit* it) { return it->flat.nbytes(); });
  std::vector<std::string> names;
  uint64_t bytes = 0;
  for (const Unit* it : live) {
    bytes += it->flat.nbytes();
    if (names.size() < kNumLiveNames) names.push_back(cat(it->name, " (", bytes_text(it->flat), ")"));
  }
  const size_t more = live.size() - names.size();
  return cat(live.size(), live.size() == 1 ? " unit is" : " units are", " gathered, ", format_bytes(bytes), ": ",
             join(names, ", "), more > 0 ? cat(" and ", more, " more") : "");
}

void Residents::refuse_memory(int number, const std::exception& error) const {
  const Unit& it = units_[static_cast<size_t>(number)];
  throw Error(ErrorKind::kEnvironment,
              {.title = cat("no memory to gather ", it.name),
               .what = cat(bytes_text(it.flat), " for ", it.flat.numel(), " elements; ", live_text(), "; ",
                           first_line(error.what())),
               .where = cat("rank ", group_.rank()),
               .fix = cat("lower \"stage3_max_live_parameters\" (", limits_.max_live,
                          " elements that may be gathered), \"stage3_prefetch_bucket_size\" (", limits_.prefetch,
                          " ahead of their use) or \"reduce_bucket_size\" (", plan_.options.layout.bucket_elements,
                          " that are gathered at once)")});
}

// --- Written by operators --------------------------------------------------------------------------------------------

// Peers that read our slice when they like must not see it change before they have written, too: that waits for the next update, or
// for all of them here, where what is written would be more than may stay. Whoever holds a unit wants neither before it is known
// whether the writes count.
void Residents::keep_written(Unit& it) {
  if (!it.is_written || it.num_holds > 0) return;
  if (!one_sided_) return take_slice_again(it);
  if (it.persistent || !limit_binds_) return;
  meet();
  take_slice_again(it);
  meet();
}

void Residents::take_slice_again(Unit& it) {
  const at::NoGradGuard no_grad;
  const at::DisableRecordFunctionGuard unwatched;
  it.slice.copy_(memory::slice_of(it.whole, group_.rank(), group_.world()));
  it.is_written = false;
}

}  // namespace weft::engine
