#include "tests/support/rank_threads.h"

#include <pthread.h>

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

#include "tests/support/watchdog.h"

namespace weft::test {
namespace detail {

// All that the ranks of one run share, behind one lock and one condition: tests are small, clarity wins.
class ThreadBoard {
 public:
  explicit ThreadBoard(int num_ranks) : world(num_ranks), ended_(world, false), arrived_(world, false) {}

  void barrier(int rank, RankContext::Within within);
  void set(std::string_view key, std::string_view value);
  std::string get(int rank, std::string_view key, RankContext::Within within);
  int64_t add(std::string_view key, int64_t delta);

  // A rank's function returned or threw.
  void rank_returned(int rank);
  void rank_failed(RankFailure failure);

  // False when the deadline passed first.
  bool wait_for_all(const Deadline& deadline);
  std::string running_ranks();
  std::vector<RankFailure> take_failures();

  const int world;

 private:
  using Lock = std::unique_lock<std::mutex>;

  // Waits for `done`. `check_hope` throws when it can never come true; it is asked after `done`.
  template <typename Done, typename CheckHope>
  void wait(Lock& lock, RankContext::Within within, const std::string& doing, Done done, CheckHope check_hope);
  void throw_if_any_failed(const std::string& doing) const;
  void throw_if_any_left(const std::string& doing) const;
  void end_rank(int rank);
  std::string missing_ranks() const;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string, std::less<>> values_;
  std::vector<bool> ended_, arrived_;  // by rank
  int num_ended_ = 0;
  int num_arrived_ = 0;
  int64_t generation_ = 0;             // barriers completed
  std::vector<RankFailure> failures_;  // in the order they happened
};

template <typename Done, typename CheckHope>
void ThreadBoard::wait(Lock& lock, RankContext::Within within, const std::string& doing, Done done,
                       CheckHope check_hope) {
  using Clock = Deadline::Clock;
  const Clock::time_point until = within ? Deadline(*within).at() : Clock::time_point::max();
  while (!done()) {
    check_hope();
    if (Clock::now() >= until) throw TimedOut(concat(doing, ": not within ", within->count(), " s", missing_ranks()));
    changed_.wait_until(lock, until);
  }
}

void ThreadBoard::throw_if_any_failed(const std::string& doing) const {
  if (failures_.empty()) return;
  const auto& first = failures_.front();
  throw PeerFailed(concat(doing, ": rank ", first.rank, " failed: ", first.message), first.rank);
}

void ThreadBoard::barrier(int rank, RankContext::Within within) {
  Lock lock(mutex_);
  const int64_t generation = generation_;
  arrived_[rank] = true;
  if (++num_arrived_ == world) {
    arrived_.assign(world, false);
    num_arrived_ = 0;
    ++generation_;
    changed_.notify_all();
    return;
  }
  const std::string doing = concat("rank ", rank, " in barrier ", generation);
  try {
    wait(lock, within, doing, [&] { return generation_ != generation; }, [&] { throw_if_any_left(doing); });
  } catch (const std::runtime_error&) {
    arrived_[rank] = false;
    --num_arrived_;
    throw;
  }
}

void ThreadBoard::throw_if_any_left(const std::string& doing) const {
  throw_if_any_failed(doing);
  const auto left = std::find(ended_.begin(), ended_.end(), true) - ended_.begin();
  if (left == world) return;
  throw PeerFailed(concat(doing, ": rank ", left, " returned without arriving"), static_cast<int>(left));
}

// For a barrier that timed out; says nothing when nobody stands in one.
std::string ThreadBoard::missing_ranks() const {
  std::string out;
  for (int rank = 0; rank < world && num_arrived_ > 0; ++rank) {
    if (!arrived_[rank]) out += concat(out.empty() ? "; not in the barrier: rank " : ", rank ", rank);
  }
  return out;
}

void ThreadBoard::set(std::string_view key, std::string_view value) {
  const Lock lock(mutex_);
  values_.insert_or_assign(std::string(key), std::string(value));
  changed_.notify_all();
}

std::string ThreadBoard::get(int rank, std::string_view key, RankContext::Within within) {
  Lock lock(mutex_);
  const std::string doing = concat("rank ", rank, " waiting for '", key, "'");
  wait(
      lock, within, doing, [&] { return values_.contains(key); },
      [&] {
        throw_if_any_failed(doing);
        if (num_ended_ == world - 1) throw PeerFailed(concat(doing, ": every other rank has returned"), -1);
      });
  return values_.find(key)->second;
}

int64_t ThreadBoard::add(std::string_view key, int64_t delta) {
  const Lock lock(mutex_);
  std::string& value = values_[std::string(key)];
  const int64_t sum = (value.empty() ? 0 : std::stoll(value)) + delta;
  value = concat(sum);
  changed_.notify_all();
  return sum;
}

void ThreadBoard::rank_returned(int rank) {
  const Lock lock(mutex_);
  end_rank(rank);
}

void ThreadBoard::rank_failed(RankFailure failure) {
  const Lock lock(mutex_);
  const int rank = failure.rank;
  failures_.push_back(std::move(failure));
  end_rank(rank);
}

void ThreadBoard::end_rank(int rank) {
  ended_[rank] = true;
  ++num_ended_;
  changed_.notify_all();
}

bool ThreadBoard::wait_for_all(const Deadline& deadline) {
  Lock lock(mutex_);
  return changed_.wait_until(lock, deadline.at(), [&] { return num_ended_ == world; });
}

std::string ThreadBoard::running_ranks() {
  const Lock lock(mutex_);
  std::string out;
  for (int rank = 0; rank < world; ++rank) {
    if (!ended_[rank]) out += concat(out.empty() ? "" : ", ", "rank ", rank);
  }
  return out;
}

std::vector<RankFailure> ThreadBoard::take_failures() {
  const Lock lock(mutex_);
  return std::move(failures_);
}

}  // namespace detail

namespace {

using detail::ThreadBoard;

RankFailure describe_current_exception(int rank) {
  RankFailure out{.rank = rank, .message = "", .exception = std::current_exception()};
  try {
    throw;
  } catch (const PeerFailed& error) {
    out.message = error.what();
    out.from_peer = true;
  } catch (const std::exception& error) {
    out.message = error.what();
  } catch (...) {
    out.message = "an exception that is no std::exception";
  }
  return out;
}

void run_one_rank(ThreadBoard& board, int rank, const std::function<void(RankContext&)>& body) {
  ::pthread_setname_np(::pthread_self(), concat("rank ", rank).c_str());
  try {
    RankContext context(board, rank);
    body(context);
  } catch (...) {
    return board.rank_failed(describe_current_exception(rank));
  }
  board.rank_returned(rank);
}

void throw_failures(std::vector<RankFailure> failures, int world) {
  if (failures.empty()) return;
  std::stable_partition(failures.begin(), failures.end(), [](const RankFailure& f) { return !f.from_peer; });
  std::string text = concat(failures.size(), " of ", world, " ranks failed");
  for (const auto& failure : failures) text += concat("\nrank ", failure.rank, ": ", failure.message);
  throw RanksFailed(text, std::move(failures));
}

}  // namespace

int RankContext::world() const { return board_.world; }
void RankContext::barrier(Within within) { board_.barrier(rank_, within); }
void RankContext::set(std::string_view key, std::string_view value) { board_.set(key, value); }
std::string RankContext::get(std::string_view key, Within within) { return board_.get(rank_, key, within); }
int64_t RankContext::add(std::string_view key, int64_t delta) { return board_.add(key, delta); }

void run_ranks_as_threads(int world, const std::function<void(RankContext&)>& body, const RankThreadOptions& options) {
  if (world < 1) throw std::invalid_argument(concat("a world needs at least one rank, not ", world));
  const Seconds limit = ranks_deadline(options.deadline);
  const Deadline deadline(limit);
  ThreadBoard board(world);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world; ++rank) threads.emplace_back([&, rank] { run_one_rank(board, rank, body); });
  if (!board.wait_for_all(deadline)) {
    end_hung_process(concat(board.running_ranks(), " of ", world, " did not finish within ", limit.count(), " s"));
  }
  for (auto& thread : threads) thread.join();
  throw_failures(board.take_failures(), world);
}

}  // namespace weft::test
