#include "weft/comm/c10d/roll_call.h"

#include <algorithm>

#include "weft/base/text.h"
#include "weft/comm/c10d/roll_call_impl.h"

namespace weft::comm {

GroupIdentity part_of(const Group& whole, const std::vector<int>& ranks, const std::string& name) {
  std::vector<std::string> members;
  for (const int rank : ranks) members.push_back(cat(rank));
  return {.name = cat(whole.name(), "/", name, "/", join(members, ",")),
          .rank = rank_among(ranks, whole),
          .world = static_cast<int>(ranks.size()),
          .deadline_s = whole.deadline_s()};
}
namespace {

constexpr char kVerdictKey[] = "verdict";

std::string member_key(int rank) { return cat("member/", rank); }

std::chrono::duration<double> seconds(double count) { return std::chrono::duration<double>(count); }

double store_limit_s(double deadline_s) {
  return std::max(kMissedBeats * beat_interval_s(deadline_s), std::min(1.0, deadline_s));
}

std::vector<std::string> watched_keys(int world) {
  std::vector<std::string> keys = {kVerdictKey};
  for (int rank = 0; rank < world; ++rank) keys.push_back(cat("beat/", rank));
  return keys;
}

}  // namespace

double beat_interval_s(double deadline_s) { return std::clamp(deadline_s / 10, 0.05, 2.0); }

RollCall::RollCall(const GroupIdentity& self, const Store& store, Deadline deadline)
    : impl_(std::make_unique<Impl>(self, store, deadline)) {}
RollCall::~RollCall() = default;
void RollCall::begin(const Doing& what) { impl_->begin(what); }
void RollCall::done(const Doing& what) { impl_->done(what); }
bool RollCall::has_ended() const { return impl_->has_ended(); }
void RollCall::throw_cause() const { impl_->throw_cause(); }
void RollCall::throw_cause(const Failure& failure) { impl_->throw_cause(failure); }
void RollCall::on_end(std::function<void()> callback) { impl_->on_end(std::move(callback)); }

RollCall::Impl::Impl(const GroupIdentity& self, const Store& store, Deadline deadline)
    : self_(self),
      interval_s_(beat_interval_s(self.deadline_s)),
      store_(store.with_prefix(self.name).with_limit(store_limit_s(self.deadline_s))),
      own_member_(Member::self(self.world, store.is_server())),
      keys_(watched_keys(self.world)),
      seen_(static_cast<size_t>(self.world)) {
  try {
    join(deadline);
  } catch (...) {
    leave();
    throw;
  }
  if (self_.world > 1) thread_ = std::thread([this] { watch(); });
}

RollCall::Impl::~Impl() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  leave();
}

void RollCall::Impl::join(Deadline deadline) {
  store_.compare_set(kVerdictKey, "", kNoVerdict);
  const std::string record = to_text(own_member_);
  const std::string standing = store_.compare_set(member_key(self_.rank), "", record);
  if (standing != record)
    refuse(cat("rank ", self_.rank, " is ", member_from(standing).who(), ", and also ", own_member_.who()));
  is_member_ = true;
  beat();
  await_members(deadline);
  for (const auto& member : members_) {
    if (member.serves) server_rank_ = static_cast<int>(neighbours_.size());
    const bool is_neighbour = member.host_identity == own_member_.host_identity;
    const bool is_other = member.pid != own_member_.pid;
    neighbours_.push_back(is_neighbour && is_other ? fabric::PeerWatch(member.pid, member.start_time)
                                                   : fabric::PeerWatch());
  }
}

// Another rank with our number, or of another world: all are told, since none of them can go on.
void RollCall::Impl::refuse(const std::string& why) {
  Verdict verdict;
  verdict.kind = Verdict::Kind::kRefused;
  verdict.text = why;
  conclude(verdict);
  throw_cause();
}

void RollCall::Impl::await_members(Deadline deadline) {
  members_.assign(static_cast<size_t>(self_.world), Member());
  std::vector<int> missing;
  for (int rank = 0; rank < self_.world; ++rank) missing.push_back(rank);
  auto pause = std::chrono::milliseconds(1);
  while (true) {
    std::erase_if(missing, [&](int rank) {
      const auto record = store_.find(member_key(rank));
      if (!record || !store_.find(keys_[static_cast<size_t>(rank) + 1])) return false;
      members_[static_cast<size_t>(rank)] = member_from(*record);
      check_member(rank);
      return true;
    });
    const std::string verdict = store_.find(kVerdictKey).value_or(kNoVerdict);
    if (verdict != kNoVerdict) end_with(verdict_from(verdict));
    if (has_ended()) throw_cause();
    if (missing.empty()) return;
    if (deadline.expired()) break;
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::milliseconds(20));
  }
  std::vector<std::string> names;
  for (const int rank : missing) names.push_back(std::to_string(rank));
  Verdict verdict;
  verdict.loss = loss_of(LossKind::kSilent, missing.front(), Beat(), cat("never came: rank ", weft::join(names, ", ")));
  verdict.loss.waiting_in = "join";
  conclude(verdict);
  throw_cause();
}

void RollCall::Impl::check_member(int rank) {
  const Member& member = members_[static_cast<size_t>(rank)];
  if (member.world == self_.world) return;
  refuse(cat("rank ", rank, ", ", member.who(), ", says that there are ", member.world, " ranks; rank ", self_.rank,
             ", ", own_member_.who(), ", says ", self_.world));
}

void RollCall::Impl::begin(const Doing& what) {
  std::unique_lock lock(mutex_);
  if (!cause_ && store_left_) {
    const auto server = static_cast<size_t>(server_rank_);
    Verdict verdict;
    verdict.loss = loss_of(LossKind::kLeft, server_rank_, seen_[server].beat, "");
    lock.unlock();
    end_with(verdict);
    lock.lock();
  }
  if (cause_) std::rethrow_exception(cause_);
  if (what.peer >= 0) {
    messages_.push_back(what);
    return;
  }
  ++own_.num_begun;
  own_.operation = what.operation;
  own_.sequence = what.sequence;
  own_.fingerprint = what.fingerprint;
  own_.call = what.call;
  own_.is_inside = true;
}

void RollCall::Impl::done(const Doing& what) {
  const std::lock_guard lock(mutex_);
  if (what.peer < 0) {
    own_.is_inside = false;
    return;
  }
  const auto same = [&](const Doing& one) { return one.peer == what.peer && one.operation == what.operation; };
  messages_.erase(std::ranges::find_if(messages_, same));
}

bool RollCall::Impl::has_ended() const {
  const std::lock_guard lock(mutex_);
  return cause_ != nullptr;
}

void RollCall::Impl::throw_cause() const {
  const std::lock_guard lock(mutex_);
  std::rethrow_exception(cause_);
}

void RollCall::Impl::on_end(std::function<void()> callback) {
  {
    const std::lock_guard lock(mutex_);
    if (!cause_) {
      callback_ = std::move(callback);
      return;
    }
  }
  if (callback) callback();
}

// A connection also breaks when somebody who knows better has given up, so a broken one waits for the beats to tell.
void RollCall::Impl::throw_cause(const Failure& failure) {
  {
    std::unique_lock lock(mutex_);
    const double patience_s =
        failure.timed_out ? 0 : (kMissedBeats + 2) * interval_s_ + store_limit_s(self_.deadline_s);
    changed_.wait_for(lock, seconds(patience_s), [&] { return cause_ != nullptr || store_left_; });
  }
  if (has_ended()) throw_cause();
  try {
    conclude(blame(failure, read_beats()));
  } catch (const StoreLost& lost) {
    store_is_gone(lost);
    if (!has_ended()) end_with(blame(failure, {}));
  }
  throw_cause();
}

void RollCall::Impl::leave() noexcept {
  if (!is_member_) return;
  try {
    {
      const std::lock_guard lock(mutex_);
      own_.presence = Presence::kGone;
    }
    beat();
    if (store_.is_server()) linger();
  } catch (...) {  // a store that is gone needs no farewell
    return;
  }
}

// The store ends with us: the others must have read why before it does, or they would blame us.
void RollCall::Impl::linger() {
  const Deadline patience = Deadline::after(kMissedBeats * interval_s_);
  while (!all_were_told() && !patience.expired()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

bool RollCall::Impl::all_were_told() {
  if (members_.empty()) return true;
  const std::vector<bool> alive = neighbours_.empty() ? std::vector<bool>(members_.size(), true) : neighbours_alive();
  for (int rank = 0; rank < self_.world; ++rank) {
    const auto index = static_cast<size_t>(rank);
    if (rank == self_.rank || rank == lost_rank_ || !alive[index]) continue;
    const auto text = store_.find(keys_[index + 1]);
    if (text && beat_from(*text).presence == Presence::kHere) return false;
  }
  return true;
}

}  // namespace weft::comm
