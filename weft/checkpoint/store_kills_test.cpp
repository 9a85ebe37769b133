// Ranks that save step after step, as processes, and are killed at random moments, 40 times a run of the test:
//
//   checkpoint_format_test --gtest_filter='StoreKills.*' --gtest_repeat=250     10,000 kills
//
// tests/cli/checkpoint_soak.py does the same to whole training runs, whose start takes a hundred times as long as a save.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/deadline.h"
#include "tests/support/temp_dir.h"
#include "weft/checkpoint/store_example_impl.h"
#include "weft/checkpoint/store_lock.h"

namespace weft::checkpoint {
namespace {

using std::chrono::microseconds;

// What the ranks and the one who kills them see of each other.
struct Board {
  std::atomic<int64_t> first_step = 0;  // set by rank 0 once it has looked into the store
  std::atomic<int64_t> committed = 0;   // the last step that rank 0's save_step returned for
  std::atomic<int> saved = 0;           // ranks' saves so far: all have ended one before the first begins the next
};

class SharedBoard {
 public:
  SharedBoard() : at_(::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {
    if (at_ == MAP_FAILED) std::abort();
    new (at_) Board;
  }
  ~SharedBoard() { ::munmap(at_, sizeof(Board)); }
  SharedBoard(const SharedBoard&) = delete;
  SharedBoard& operator=(const SharedBoard&) = delete;
  Board& operator*() const { return *static_cast<Board*>(at_); }

 private:
  void* at_;
};

// One start of all ranks, up to the kill.
struct Attempt {
  std::string store;
  int world = 2;
  int number = 0;  // the salt of all that it saves
};

[[noreturn]] void save_for_ever(Board& board, const Attempt& attempt, int rank) {
  Env& env = Env::posix();
  std::optional<StoreLock> lock;
  if (rank == 0) {
    lock.emplace(env, attempt.store);
    const auto found = find_newest(env, attempt.store, Check::kManifest);
    board.first_step = found ? found->step + 1 : 1;
  }
  while (board.first_step == 0) std::this_thread::yield();
  for (int round = 0;; ++round) {
    const ExampleSave save{
        .step = board.first_step + round, .world = attempt.world, .salt = attempt.number, .block_bytes = kBlockBytes};
    SaveRequest request = example_request(save, rank, cat("k", attempt.number, "r", round));
    request.keep = PrunePolicy{.keep_last = 2};
    save_example_rank(env, attempt.store, save, request);
    if (rank == 0) board.committed = save.step;
    ++board.saved;
    while (board.saved < attempt.world * (round + 1)) std::this_thread::yield();
  }
}

// Exits with 3 where a save failed: nothing but a kill may end it. _exit: this is a copy of the test, whose ends are not its own.
pid_t start_rank(Board& board, const Attempt& attempt, int rank) {
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  try {
    save_for_ever(board, attempt, rank);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
  }
  ::_exit(3);
}

bool comes(const std::atomic<int64_t>& value, int64_t above) {
  const test::Deadline deadline(test::Seconds(20) * test::kSlowdown);
  while (value <= above && !deadline.passed()) std::this_thread::sleep_for(microseconds(200));
  return value > above;
}

// In any order and not at the same moment: a rank may go on for a while without another.
void kill_all(std::vector<pid_t> ranks, std::mt19937_64& chance) {
  std::ranges::shuffle(ranks, chance);
  for (const pid_t rank : ranks) {
    ::kill(rank, SIGKILL);
    std::this_thread::sleep_for(microseconds(chance() % 2 == 0 ? 0 : chance() % 3000));
  }
  for (const pid_t rank : ranks) {
    int status = 0;
    ASSERT_EQ(::waitpid(rank, &status, 0), rank);
    EXPECT_TRUE(WIFSIGNALED(status)) << "a rank ended by itself, with " << status;
  }
}

// The newest step verifies, none that was committed is gone, and all of it is of one attempt.
void look(const Attempt& attempt, int64_t committed) {
  const auto found = find_newest(Env::posix(), attempt.store, Check::kEveryBlock);
  ASSERT_TRUE(found) << "the store is empty after attempt " << attempt.number;
  EXPECT_GE(found->step, committed);
  EXPECT_TRUE(found->passed_over.empty()) << found->passed_over.front().what();
  const int salt = std::stoi(found->manifest.sections.at("salt"));
  EXPECT_TRUE(holds_example(Env::posix(), *found, {.step = found->step, .world = found->manifest.world, .salt = salt}));
}

TEST(StoreKills, NoCommittedStepIsLostAndNoBadOneFound) {
  if (test::kThreadSanitizer) GTEST_SKIP() << "ThreadSanitizer cannot follow forks of a process with threads";
  constexpr int kKills = 40;
  const test::TempDir dir;
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937_64 chance(seed);
  int64_t last = 0;
  for (int number = 1; number <= kKills && !HasFailure(); ++number) {
    const Attempt attempt{.store = dir / "store", .world = 1 + static_cast<int>(chance() % 4), .number = number};
    const SharedBoard board;
    std::vector<pid_t> ranks;
    for (int rank = 0; rank < attempt.world; ++rank) ranks.push_back(start_rank(*board, attempt, rank));
    EXPECT_TRUE(comes((*board).committed, last)) << "no new step in attempt " << number;
    std::this_thread::sleep_for(microseconds(chance() % 20000));
    kill_all(ranks, chance);
    last = (*board).committed;
    look(attempt, last);
  }
}

}  // namespace
}  // namespace weft::checkpoint
