// The agent's end of the connection: what the `weft run` that started it says, read from standard input through the
// agent's poll loop. A connection that breaks, or on which nothing comes for kSilenceSeconds, counts as an order to end:
// whoever started the ranks can no longer end them.
//
// Threads: one. Failure: Error(kEnvironment) for bytes that are no order.
#pragma once

#include <poll.h>

#include <optional>
#include <vector>

#include "weft/base/clock.h"
#include "weft/launcher/agent_job.h"
#include "weft/launcher/frames.h"

namespace weft::launcher {

// Each side says something at least this often, and gives the other up after so long a silence.
inline constexpr double kBeatSeconds = 5, kSilenceSeconds = 60;

struct Orders {
  std::optional<AgentJob> job = {};
  std::vector<int> signals = {};  // SIGTERM among them, once, when the other side is gone
  bool kill = false;
  int num_beats = 0;
};

class AgentLink {
 public:
  explicit AgentLink(int fd) : fd_(fd) {}

  pollfd watched() const { return {gone_ ? -1 : fd_, POLLIN, 0}; }
  Deadline silence() const { return gone_ ? Deadline::never() : silence_; }

  // After poll(2): reads once when there is something, and says what came.
  Orders take(const pollfd& polled);

  bool gone() const { return gone_; }
  // Somebody wants the run to end, and not only this attempt.
  bool is_last() const { return gone_ || is_last_; }

 private:
  void read_some(Orders& orders);

  const int fd_;
  FrameReader reader_{false};
  Deadline silence_ = Deadline::after(kSilenceSeconds);
  bool gone_ = false, is_last_ = false;
};

}  // namespace weft::launcher
