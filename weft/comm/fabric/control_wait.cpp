// The barrier of a Control, and what happens while it waits.
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <ctime>

#include "weft/base/text.h"
#include "weft/comm/fabric/control.h"
#include "weft/comm/fabric/control_impl.h"

namespace weft::fabric {
namespace {

// Not the private kind: the word is in memory that several processes share.
void futex_wait(std::atomic<uint32_t>& word, uint32_t expected, std::chrono::nanoseconds limit) {
  const timespec wait{.tv_sec = limit.count() / 1'000'000'000, .tv_nsec = limit.count() % 1'000'000'000};
  ::syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT, expected, &wait, nullptr, 0);
}

void futex_wake_all(std::atomic<uint32_t>& word) {
  ::syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// A peer on another core answers within some microseconds or is busy for much longer; in between a sleep costs more.
constexpr std::chrono::microseconds kSpin{50};

}  // namespace

bool Control::has_arrived(int peer, uint64_t barrier) const {
  return slot(peer).arrived.load(std::memory_order_seq_cst) >= barrier;
}

bool Control::all_arrived(uint64_t barrier) const {
  for (int peer = 0; peer < world_; ++peer) {
    if (!has_arrived(peer, barrier)) return false;
  }
  return true;
}

void Control::ring() {
  block_->bell.fetch_add(1, std::memory_order_seq_cst);
  if (block_->sleepers.load(std::memory_order_seq_cst) != 0) futex_wake_all(block_->bell);
}

bool Control::spin(const std::function<bool()>& ready) const {
  if (!may_spin_) return false;
  for (const Deadline end = Deadline::after(kSpin); !end.expired();) {
    for (int i = 0; i < 64; ++i) {
      if (ready()) return true;
      relax();
    }
  }
  return false;
}

bool Control::sleep(uint32_t heard, Deadline deadline) {
  const Stopwatch slept;
  // Counted before the kernel compares the bell: either the ringer sees a sleeper, or we see that it has rung.
  block_->sleepers.fetch_add(1, std::memory_order_seq_cst);
  futex_wait(block_->bell, heard, std::min<std::chrono::nanoseconds>(kLookInterval, deadline.remaining()));
  block_->sleepers.fetch_sub(1, std::memory_order_seq_cst);
  return slept.elapsed_ns() >= std::chrono::nanoseconds(kLookInterval).count();
}

// Each rank counts its own arrivals and nobody counts for another: a rank that dies at any point has either arrived or
// not. Whoever sees all of them there rings; if that one dies before it does, the others see it at their next look.
void Control::barrier(Deadline deadline) {
  throw_if_lost();
  const uint64_t barrier = ++barrier_;
  mine().arrived.store(barrier, std::memory_order_seq_cst);
  if (all_arrived(barrier)) return ring();
  if (spin([&] { return all_arrived(barrier); })) return;
  for (;;) {
    const uint32_t heard = block_->bell.load(std::memory_order_seq_cst);
    if (all_arrived(barrier)) return;
    throw_if_lost();
    if (sleep(heard, deadline) || deadline.expired()) look_for_losses(barrier, deadline);
  }
}

void Control::wait_for_peer(int peer, const std::function<bool()>& ready, PeerWatch& watch, Deadline deadline) {
  if (spin(ready)) return;
  for (std::optional<LossKind> fate;;) {
    const uint32_t heard = block_->bell.load(std::memory_order_seq_cst);
    // In this order: what the peer did before it went still counts.
    if (ready()) return;
    throw_if_lost();
    if (fate) give_up(loss_of(peer, *fate));
    if (sleep(heard, deadline)) fate = fate_of(peer, watch);
    if (deadline.expired() && !fate) fate = LossKind::kSilent;
  }
}

void Control::look_after_peers(Deadline deadline) { look_for_losses(barrier_ + 1, deadline); }

void Control::look_for_losses(uint64_t barrier, Deadline deadline) {
  throw_if_lost();
  for (int peer = 0; peer < world_; ++peer) {
    if (peer == rank_ || has_arrived(peer, barrier)) continue;
    const auto fate = fate_of(peer, watches_[static_cast<size_t>(peer)]);
    // It may have arrived and then gone while we looked.
    if (fate && !has_arrived(peer, barrier)) give_up(loss_of(peer, *fate));
  }
  if (deadline.expired()) give_up_late(barrier);
}

std::optional<LossKind> Control::fate_of(int peer, PeerWatch& watch) const {
  const RankSlot& it = slot(peer);
  const pid_t pid = it.pid.load(std::memory_order_acquire);
  if (pid == 0) return std::nullopt;
  if (it.departed.load(std::memory_order_seq_cst) != 0) return LossKind::kLeft;
  // A thread of our own process cannot die alone.
  if (pid == ::getpid()) return std::nullopt;
  if (!watch.watching()) watch = PeerWatch(pid, it.start_time.load(std::memory_order_relaxed));
  return watch.alive() ? std::nullopt : std::optional(LossKind::kDied);
}

void Control::give_up_late(uint64_t barrier) {
  // While the ranks gather, one that waits for the same absent peer as we do is not the one to name.
  std::vector<int> absent, late;
  for (int peer = 0; peer < world_; ++peer) {
    if (slot(peer).pid.load(std::memory_order_acquire) == 0) {
      absent.push_back(peer);
    } else if (peer != rank_ && !has_arrived(peer, barrier)) {
      late.push_back(peer);
    }
  }
  const std::vector<int>& missing = absent.empty() ? late : absent;
  if (missing.empty()) return;
  Loss loss = loss_of(missing.front(), LossKind::kSilent);
  std::vector<std::string> names;
  for (const int peer : missing) names.push_back(cat(peer));
  loss.set_detail(cat("not there by the deadline: rank", missing.size() > 1 ? "s " : " ", join(names, ", ")));
  give_up(loss);
}

}  // namespace weft::fabric
