// Ranks as threads of this process.
//
//   run_ranks_as_threads(4, [](RankContext& ctx) {
//     ctx.set(concat("value ", ctx.rank()), "...");
//     ctx.barrier();
//     EXPECT_EQ(ctx.get("value 0"), "...");
//   });
//
// Threads: a RankContext belongs to its rank's thread. Failure: a rank that throws frees the others from their waits
// (they throw PeerFailed, naming it), and run_ranks_as_threads throws RanksFailed. A rank that returns early frees
// those that wait for it in a barrier. A rank still running at the deadline ends the process: stacks, exit code 124.
// GoogleTest's assertions work in every rank; a fatal one leaves the rank's function, which counts as a return.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/deadline.h"

namespace weft::test {

namespace detail {
class ThreadBoard;
}

// What a rank's wait throws when another rank has failed or left: the wait could never end.
class PeerFailed : public std::runtime_error {
 public:
  PeerFailed(const std::string& text, int peer) : std::runtime_error(text), peer_(peer) {}
  int peer() const { return peer_; }

 private:
  int peer_;
};

struct RankFailure {
  int rank = -1;
  std::string message;
  std::exception_ptr exception;
  bool from_peer = false;  // a PeerFailed: the consequence of another rank's failure
};

// At least one rank threw. The text lists every failure, causes before consequences.
class RanksFailed : public std::runtime_error {
 public:
  RanksFailed(const std::string& text, std::vector<RankFailure> failures)
      : std::runtime_error(text), failures_(std::move(failures)) {}
  const std::vector<RankFailure>& failures() const { return failures_; }

 private:
  std::vector<RankFailure> failures_;
};

class RankContext {
 public:
  // How long a wait may take before it throws TimedOut. Empty: until the common deadline, which ends the process.
  using Within = std::optional<Seconds>;

  RankContext(detail::ThreadBoard& board, int rank) : board_(board), rank_(rank) {}

  int rank() const { return rank_; }
  int world() const;

  void barrier(Within within = {});
  // A store shared by the ranks of this run.
  void set(std::string_view key, std::string_view value);
  std::string get(std::string_view key, Within within = {});  // waits until some rank has set it
  int64_t add(std::string_view key, int64_t delta);           // a missing key counts as 0; returns the new value

 private:
  detail::ThreadBoard& board_;
  const int rank_;
};

struct RankThreadOptions {
  Seconds deadline{0};  // 0: see ranks_deadline
};

void run_ranks_as_threads(int world, const std::function<void(RankContext&)>& body,
                          const RankThreadOptions& options = {});

}  // namespace weft::test
