#include "tests/support/rank_processes.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstring>
#include <stdexcept>

#include "tests/support/rank_entry.h"

namespace weft::test {
namespace {

constexpr size_t kShownBytes = 8 << 10;  // of each stream of a failed rank: the end is where the reason is

std::string end_of(const std::string& text) {
  return text.size() <= kShownBytes ? text : concat("...", text.substr(text.size() - kShownBytes));
}

std::string ending_text(int exit_code, int signal) {
  return signal == 0 ? concat("exit code ", exit_code) : concat("signal ", signal, " (", ::strsignal(signal), ")");
}

std::string describe(const RankResult& result) {
  std::string out = concat("rank ", result.rank, ": ", ending_text(result.exit_code, result.signal),
                           result.hung ? ", killed at the deadline" : "", " after ", result.seconds, " s; expected ",
                           ending_text(result.expected.exit_code, result.expected.signal), "\n");
  if (!result.err.empty()) out += concat("--- standard error\n", end_of(result.err), "\n");
  if (!result.out.empty()) out += concat("--- standard output\n", end_of(result.out), "\n");
  if (!result.stacks.empty()) out += concat("--- stacks\n", result.stacks, "\n");
  return out;
}

}  // namespace

bool RankResult::ok() const {
  const int wanted_code = expected.signal == 0 ? expected.exit_code : -1;
  return !hung && exit_code == wanted_code && signal == expected.signal;
}

RankProcesses::RankProcesses(std::string entry, int world, RankProcessOptions options)
    : entry_(std::move(entry)),
      world_(world),
      options_(std::move(options)),
      limit_(ranks_deadline(options_.deadline)),
      store_(dir_.path() / "store", -1, world, limit_),
      stop_(make_pipe()) {
  if (world < 1) throw std::invalid_argument(concat("a world needs at least one rank, not ", world));
  check_rank_main_exists(entry_);
}

RankProcesses::~RankProcesses() {
  if (!minder_.joinable()) return;  // children that nobody minds kill themselves in their destructors
  stop_.write_end.reset();
  minder_.join();
}

void RankProcesses::start() {
  if (!children_.empty()) throw std::logic_error("start() twice: make another RankProcesses for another run");
  // /proc/self/exe and not its path: the same program even when it has been built anew since.
  const std::string program = "/proc/self/exe";
  for (int rank = 0; rank < world_; ++rank) {
    const auto title = concat("rank ", rank, " of ", world_, ": ", entry_);  // for ps; nobody parses it
    children_.push_back(std::make_unique<ChildProcess>(std::vector{program, title}, environment_of(rank)));
  }
  minder_ = std::thread([this] { mind(); });
}

std::vector<std::string> RankProcesses::environment_of(int rank) const {
  auto changes = options_.env;
  const auto ours = rank_environment({.entry = entry_, .rank = rank, .world = world_, .dir = dir(), .limit = limit_});
  changes.insert(changes.end(), ours.begin(), ours.end());
  return environment_with(changes);
}

void RankProcesses::mind() {
  const Deadline deadline(limit_);
  FileStore store = store_;  // the test's thread uses the other one
  try {
    mind_children(children_, deadline, stop_.read_end.get(), [&](int rank) { store.mark_ended(rank); });
  } catch (...) {
    minder_failure_ = std::current_exception();  // wait() rethrows it
  }
}

bool RankProcesses::signal(int rank, int sig) { return children_.at(rank)->signal(sig); }

pid_t RankProcesses::pid(int rank) const { return children_.at(rank)->pid(); }

std::vector<RankResult> RankProcesses::wait() {
  if (children_.empty()) throw std::logic_error("wait() before start(): there are no ranks yet");
  if (minder_.joinable()) minder_.join();
  if (minder_failure_) std::rethrow_exception(minder_failure_);
  std::vector<RankResult> results;
  for (size_t i = 0; i < children_.size(); ++i) {
    const int rank = static_cast<int>(i);
    const auto expected = options_.expected.find(rank);
    results.push_back(
        {children_[i]->result(), rank, expected == options_.expected.end() ? RankEnding{} : expected->second});
    if (results.back().hung) write_all(STDERR_FILENO, describe(results.back()));
  }
  return results;
}

std::vector<RankResult> run_ranks_as_processes(const std::string& entry, int world, RankProcessOptions options) {
  RankProcesses ranks(entry, world, std::move(options));
  ranks.start();
  return ranks.wait();
}

void expect_all_ok(const std::vector<RankResult>& results, std::source_location where) {
  for (const auto& result : results) {
    if (!result.ok()) ADD_FAILURE_AT(where.file_name(), static_cast<int>(where.line())) << describe(result);
  }
}

}  // namespace weft::test
