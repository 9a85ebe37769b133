#include <algorithm>

#include "weft/base/text.h"
#include "weft/comm/c10d/roll_call_impl.h"

namespace weft::comm {
namespace {

std::exception_ptr exception_of(const Verdict& verdict, const std::string& group) {
  switch (verdict.kind) {
    case Verdict::Kind::kLost: return std::make_exception_ptr(PeerLost(verdict.loss));
    case Verdict::Kind::kRefused:
      return std::make_exception_ptr(Error(
          ErrorKind::kInput, {.title = "the ranks do not belong together",
                              .what = verdict.text,
                              .where = cat("group ", group),
                              .fix = "give each rank a number of its own and all of them one world size, and each "
                                     "run a port or a name of its own"}));
    case Verdict::Kind::kDiffer: break;
  }
  return std::make_exception_ptr(Error(
      ErrorKind::kBug, {.title = "the ranks make different calls",
                        .what = verdict.text,
                        .where = cat("group ", group),
                        .fix = "make every rank call the same operations in the same order with the same sizes"}));
}

}  // namespace

void RollCall::Impl::watch() {
  const auto interval = std::chrono::duration<double>(interval_s_);
  try {
    while (true) {
      look();
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, interval, [&] { return stop_ || cause_; });
      if (stop_) return;
      if (cause_) own_.presence = Presence::kTold;
      const bool ended = cause_ != nullptr;
      lock.unlock();
      beat();
      if (ended) return;
    }
  } catch (const StoreLost& lost) {
    store_is_gone(lost);
  } catch (...) {
    end_with(std::current_exception());
  }
}

void RollCall::Impl::beat() {
  Beat now;
  {
    const std::lock_guard lock(mutex_);
    ++own_.count;
    now = own_;
  }
  store_.set(keys_[static_cast<size_t>(self_.rank) + 1], to_text(now));
}

// Who lives is asked before the beats are read: one that leaves writes so first and ends then.
void RollCall::Impl::look() {
  if (has_ended()) return;
  const std::vector<bool> alive = neighbours_alive();
  note(read_beats());
  std::optional<Verdict> verdict;
  {
    const std::lock_guard lock(mutex_);
    if (!cause_) verdict = judge(alive);
  }
  if (!verdict) return;
  const bool left = verdict->kind == Verdict::Kind::kLost && verdict->loss.kind == LossKind::kLeft;
  const auto reason = left ? death_before_leaving() : std::nullopt;
  conclude(reason ? *reason : *verdict);
}

// Who has lost a rank in another group leaves this one too, and may be seen to before the one that died is. It died first: who asks
// now finds that out. The beats after that, of one that left and ended meanwhile.
std::optional<Verdict> RollCall::Impl::death_before_leaving() {
  const std::vector<bool> alive = neighbours_alive();
  const std::vector<Beat> beats = read_beats();
  const std::lock_guard lock(mutex_);
  for (int rank = 0; rank < self_.world; ++rank) {
    const auto index = static_cast<size_t>(rank);
    if (rank == self_.rank || alive[index] || beats[index].presence == Presence::kGone) continue;
    Verdict verdict;
    verdict.loss = loss_of(LossKind::kDied, rank, beats[index], "its process has ended");
    return verdict;
  }
  return std::nullopt;
}

std::vector<bool> RollCall::Impl::neighbours_alive() const {
  std::vector<bool> alive;
  for (const auto& neighbour : neighbours_) alive.push_back(!neighbour.watching() || neighbour.alive());
  return alive;
}

std::vector<Beat> RollCall::Impl::read_beats() {
  const auto records = store_.get_all(keys_);
  if (records.front() != kNoVerdict) end_with(verdict_from(records.front()));
  std::vector<Beat> beats;
  for (size_t i = 1; i < records.size(); ++i) beats.push_back(beat_from(records[i]));
  return beats;
}

void RollCall::Impl::note(const std::vector<Beat>& beats) {
  const std::lock_guard lock(mutex_);
  for (size_t i = 0; i < beats.size(); ++i) {
    Seen& seen = seen_[i];
    seen.num_unchanged = beats[i].count == seen.beat.count ? seen.num_unchanged + 1 : 0;
    seen.num_gone += beats[i].presence == Presence::kGone ? 1 : 0;
    seen.beat = beats[i];
  }
  const bool server_left = server_rank_ >= 0 && seen_[static_cast<size_t>(server_rank_)].num_gone > 0;
  if (server_left && own_.presence == Presence::kHere) own_.presence = Presence::kTold;
}

std::optional<Verdict> RollCall::Impl::judge(const std::vector<bool>& alive) const {
  for (int rank = 0; rank < self_.world; ++rank) {
    if (rank == self_.rank) continue;
    if (auto verdict = judge_one(rank, alive[static_cast<size_t>(rank)])) return verdict;
  }
  return std::nullopt;
}

std::optional<Verdict> RollCall::Impl::judge_one(int rank, bool alive) const {
  const Seen& seen = seen_[static_cast<size_t>(rank)];
  Verdict verdict;
  if (seen.beat.presence == Presence::kGone) {
    if (!leaving_matters(rank)) return std::nullopt;
    verdict.loss = loss_of(LossKind::kLeft, rank, seen.beat, "");
    return verdict;
  }
  if (!alive) {
    verdict.loss = loss_of(LossKind::kDied, rank, seen.beat, "its process has ended");
    return verdict;
  }
  if (seen.num_unchanged >= kMissedBeats) {
    verdict.loss = loss_of(LossKind::kDied, rank, seen.beat,
                           cat("no sign of life for ", seen.num_unchanged, " beats of ", interval_s_, " s"));
    return verdict;
  }
  const bool together = own_.is_inside && seen.beat.is_inside && seen.beat.num_begun == own_.num_begun;
  if (!together || own_.fingerprint == 0 || seen.beat.fingerprint == 0) return std::nullopt;
  if (seen.beat.fingerprint == own_.fingerprint) return std::nullopt;
  verdict.kind = Verdict::Kind::kDiffer;
  verdict.text = cat("rank ", self_.rank, ": ", own_.call, "; rank ", rank, ": ", seen.beat.call);
  return verdict;
}

// One that left may have done its part: only who lacks it for the current call has lost it. What it sent last may still
// be under way, so a recv gives it one more beat.
bool RollCall::Impl::leaving_matters(int rank) const {
  const Seen& seen = seen_[static_cast<size_t>(rank)];
  if (own_.is_inside && seen.beat.num_begun < own_.num_begun) return true;
  return seen.num_gone > 1 && waits_for_message_of(rank);
}

bool RollCall::Impl::waits_for_message_of(int rank) const {
  return std::ranges::any_of(messages_, [&](const Doing& one) { return one.peer == rank; });
}

std::string RollCall::Impl::waiting_in() const {
  if (own_.is_inside) return fabric::describe(own_.operation, own_.sequence);
  if (messages_.empty()) return "";
  const Doing& message = messages_.front();
  return cat(fabric::name_of(message.operation), message.operation == fabric::Operation::kSend ? " to" : " from",
             " rank ", message.peer);
}

// Nobody is dead, and yet a call of ours failed or is late: who has not come to it, or who is at the other end.
Verdict RollCall::Impl::blame(const Failure& failure, const std::vector<Beat>& beats) const {
  const std::lock_guard lock(mutex_);
  const bool is_message = failure.suspect >= 0 && !own_.is_inside;
  int blamed = failure.suspect;
  uint64_t fewest = own_.num_begun;
  for (int rank = 0; !is_message && rank < static_cast<int>(beats.size()); ++rank) {
    const uint64_t num_begun = beats[static_cast<size_t>(rank)].num_begun;
    if (rank == self_.rank || num_begun >= fewest) continue;
    fewest = num_begun;
    blamed = rank;
  }
  if (blamed < 0) blamed = (self_.rank + 1) % self_.world;
  const auto index = static_cast<size_t>(blamed);
  const Beat& beat = index < beats.size() ? beats[index] : seen_[index].beat;
  const bool left = beat.presence == Presence::kGone;
  Verdict verdict;
  verdict.loss = loss_of(left ? LossKind::kLeft : LossKind::kSilent, blamed, beat, failure.text);
  return verdict;
}

Loss RollCall::Impl::loss_of(LossKind kind, int rank, const Beat& beat, std::string detail) const {
  const auto index = static_cast<size_t>(rank);
  Loss loss;
  loss.kind = kind;
  loss.rank = rank;
  if (index < members_.size()) {
    loss.host = members_[index].host;
    loss.pid = members_[index].pid;
  }
  loss.last_collective = fabric::describe(beat.operation, beat.sequence);
  loss.waiting_in = waiting_in();
  loss.group = self_.name;
  loss.detail = std::move(detail);
  return loss;
}

void RollCall::Impl::conclude(const Verdict& verdict) {
  end_with(verdict_from(store_.compare_set(keys_.front(), kNoVerdict, to_text(verdict))));
}

void RollCall::Impl::end_with(const Verdict& verdict) {
  {
    const std::lock_guard lock(mutex_);
    if (!cause_ && verdict.kind == Verdict::Kind::kLost) lost_rank_ = verdict.loss.rank;
  }
  end_with(exception_of(verdict, self_.name));
}

void RollCall::Impl::end_with(std::exception_ptr cause) {
  std::function<void()> callback;
  {
    const std::lock_guard lock(mutex_);
    if (cause_) return;
    cause_ = std::move(cause);
    callback = std::move(callback_);
  }
  changed_.notify_all();
  if (callback) callback();
}

// Whoever serves the store has ended: by leaving, which hurts only those who still need it, or by dying.
void RollCall::Impl::store_is_gone(const StoreLost& lost) {
  if (server_rank_ < 0) return end_with(std::make_exception_ptr(lost));
  Verdict verdict;
  {
    const std::lock_guard lock(mutex_);
    const Beat& server = seen_[static_cast<size_t>(server_rank_)].beat;
    const bool left = server.presence == Presence::kGone;
    store_left_ = left;
    changed_.notify_all();
    if (left && !leaving_matters(server_rank_)) return;
    verdict.loss = loss_of(left ? LossKind::kLeft : LossKind::kDied, server_rank_, server,
                           cat("the store that it serves does not answer: ", lost.text().what));
  }
  end_with(verdict);
}

}  // namespace weft::comm
