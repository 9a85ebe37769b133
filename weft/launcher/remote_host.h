// One host of several, as the `weft run` that starts it sees it: an ssh, the agent at its other end, and the frames
// between. Never blocks: the caller's poll loop asks what to watch and hands back what is ready.
//
// Threads: one. The destructor kills the ssh; the agent notices, and ends its ranks.
// Failure: Error(kInput) when ssh itself cannot be run, IoError; frames that make no sense count as a lost host.
#pragma once

#include <poll.h>

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "weft/base/clock.h"
#include "weft/base/error.h"
#include "weft/base/process.h"
#include "weft/launcher/frames.h"
#include "weft/launcher/hosts_spec.h"
#include "weft/launcher/lines.h"

namespace weft::launcher {

class RemoteHost {
 public:
  static constexpr size_t kNumPolled = 4;

  // Starts the ssh.
  RemoteHost(const HostsSpec& spec, const Host& host);

  const std::string& name() const { return host_.name; }

  // Appends kNumPolled entries; serve() takes exactly those back. With `paused` its output stays where it is.
  void watch(std::vector<pollfd>& polled, bool paused) const;
  using OnFrame = std::function<void(const Frame&)>;
  void serve(std::span<const pollfd> polled, const OnFrame& on_frame, const OnLine& on_line);

  // To the agent, as fast as it takes them.
  void send(const Frame& frame);
  // Ends the agent's input: it ends its ranks, if it has any, and itself.
  void hang_up();
  void kill();

  // The agent has said hello.
  bool is_ready() const { return is_ready_; }
  // The ssh has ended, and everything that came was handed over.
  bool has_ended() const { return status_.has_value(); }
  // Nothing came for so long that the host counts as lost.
  bool is_silent() const { return heard_.elapsed_s() > kMaxSilenceSeconds; }

  // Why it ended too early, as an error that names the host.
  Error loss() const;

 private:
  static constexpr double kMaxSilenceSeconds = 60;

  void read_frames(const OnFrame& on_frame);
  void read_errors(const OnLine& on_line);
  void on_end(const OnFrame& on_frame, const OnLine& on_line);
  void write_some();
  std::string last_words() const;

  const Host host_;
  const std::vector<std::string> ssh_;
  const std::string remote_weft_;
  Process process_;
  UniqueFd in_, out_, err_;  // its pipes
  std::optional<ExitStatus> status_;
  FrameReader reader_{true};
  LineCutter error_lines_;
  LastLines last_errors_;
  std::string pending_;  // for the agent
  bool is_ready_ = false;
  std::string nonsense_;  // what came in place of a frame
  Stopwatch heard_;
};

}  // namespace weft::launcher
