#include "weft/comm/fabric/control.h"

#include <sched.h>
#include <unistd.h>

#include "weft/base/check.h"
#include "weft/base/text.h"
#include "weft/comm/fabric/control_impl.h"

namespace weft::fabric {
namespace {

// Cores this process may run on; a container often has fewer than the host.
int usable_cores() {
  cpu_set_t cores;
  return ::sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : 1;
}

std::string describe(const Call& call) {
  const std::string place = call.place == 0 ? "staged" : cat("in place ", call.place);
  return cat(name_of(call.operation), " of ", call.bytes, " bytes (variant ", call.variant, ", ", place, ")");
}

Call read_call(const PublishedCall& published) {
  return {static_cast<Operation>(published.operation.load(std::memory_order_relaxed)),
          published.variant.load(std::memory_order_relaxed), published.bytes.load(std::memory_order_relaxed),
          published.place.load(std::memory_order_relaxed)};
}

}  // namespace

size_t Control::bytes_for(int world) { return sizeof(ControlBlock) + static_cast<size_t>(world) * sizeof(RankSlot); }

Control::Control(Segment segment, int rank, int world)
    : segment_(std::move(segment)),
      block_(reinterpret_cast<ControlBlock*>(segment_.data())),
      slots_(reinterpret_cast<RankSlot*>(segment_.data() + sizeof(ControlBlock))),
      rank_(rank),
      world_(world),
      may_spin_(world <= usable_cores()),
      watches_(static_cast<size_t>(world)) {
  WEFT_CHECK_GE(segment_.bytes(), bytes_for(world));
  mine().start_time.store(start_time_of(::getpid()), std::memory_order_relaxed);
  // Last: who sees the number may trust the rest.
  mine().pid.store(::getpid(), std::memory_order_release);
}

Control::~Control() {
  mine().departed.store(1, std::memory_order_seq_cst);
  ring();
}

RankSlot& Control::slot(int rank) const { return slots_[rank]; }

void Control::begin(const Call& call) {
  throw_if_lost();
  call_ = call;
  ++sequence_;
  PublishedCall& published = mine().calls[sequence_ % 2];
  published.operation.store(static_cast<uint32_t>(call.operation), std::memory_order_relaxed);
  published.variant.store(call.variant, std::memory_order_relaxed);
  published.bytes.store(call.bytes, std::memory_order_relaxed);
  published.place.store(call.place, std::memory_order_relaxed);
  mine().operation.store(static_cast<uint32_t>(call.operation), std::memory_order_relaxed);
  mine().sequence.store(sequence_, std::memory_order_relaxed);
}

void Control::note(Operation operation) {
  mine().operation.store(static_cast<uint32_t>(operation), std::memory_order_relaxed);
}

void Control::check_agreement() {
  for (int peer = 0; peer < world_; ++peer) {
    const Call theirs = read_call(slot(peer).calls[sequence_ % 2]);
    if (theirs == call_) continue;
    Loss loss = loss_of(peer, LossKind::kDisagree);
    loss.set_detail(cat("rank ", peer, " called ", describe(theirs), ", rank ", rank_, " called ", describe(call_)));
    give_up(loss);
  }
}

void Control::publish_code(int code) { mine().code.store(code, std::memory_order_relaxed); }
int Control::code_of(int rank) const { return slot(rank).code.load(std::memory_order_relaxed); }

Loss Control::loss_of(int peer, LossKind kind) const {
  const RankSlot& it = slot(peer);
  return {.kind = kind,
          .rank = peer,
          .pid = it.pid.load(std::memory_order_acquire),
          .world = world_,
          .operation = static_cast<Operation>(it.operation.load(std::memory_order_relaxed)),
          .sequence = it.sequence.load(std::memory_order_relaxed),
          .found_by = rank_,
          .during = call_.operation,
          .during_sequence = sequence_};
}

void Control::give_up(Loss loss) {
  uint32_t expected = kNoLoss;
  if (block_->loss_state.compare_exchange_strong(expected, kLossInWriting, std::memory_order_acq_rel)) {
    block_->loss = loss;
    block_->loss_state.store(kLossWritten, std::memory_order_seq_cst);
    ring();
  }
  throw_if_lost();
  // Somebody was first, and died before the record was whole.
  throw_loss(loss);
}

void Control::throw_if_lost() const {
  if (block_->loss_state.load(std::memory_order_acquire) == kNoLoss) return;
  // Writing takes a microsecond; past this the writer is dead, and what we found ourselves has to do.
  const Deadline patience = Deadline::after(std::chrono::milliseconds(100));
  while (block_->loss_state.load(std::memory_order_acquire) != kLossWritten) {
    if (patience.expired()) return;
    ::sched_yield();
  }
  throw_loss(block_->loss);
}

}  // namespace weft::fabric
