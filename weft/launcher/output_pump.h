// Carries what the ranks print to our own streams, line by line and without a thread: the caller's poll loop asks what
// to watch and hands back what is ready.
//
//   OutputPump pump({.out_fd = 1, .err_fd = 2, ...});
//   pump.add_rank(3, std::move(process.out()), std::move(process.err()));
//   std::vector<pollfd> polled;
//   pump.watch(polled);
//   ::poll(polled.data(), polled.size(), -1);
//   pump.serve(polled);
//
// An agent's pump is `framed`: the bytes go to standard output as frames, uncut, and the pump on the host that started
// the agent gets them through feed().
//
// Nothing here blocks: a reader that is slow (a terminal held with Ctrl-S) stops the ranks' output and not our signals.
// A reader that left loses the text and nothing else. Requires: SIGPIPE is ignored.
//
// Threads: one. Failure: IoError when a pipe cannot be read.
#pragma once

#include <poll.h>

#include <map>
#include <span>
#include <string>
#include <vector>

#include "weft/base/clock.h"
#include "weft/base/fd.h"
#include "weft/launcher/frames.h"
#include "weft/launcher/lines.h"

namespace weft::launcher {

struct OutputOptions {
  int out_fd = STDOUT_FILENO, err_fd = STDERR_FILENO;
  bool prefix = true;  // "[rank 3] " before each line
  bool colour_out = false, colour_err = false;
  bool framed = false;  // the other four mean nothing then
};

// How long flush() waits for a slow reader at the end of a run, and before a log line.
inline constexpr double kFlushSeconds = 1;

class OutputPump {
 public:
  explicit OutputPump(OutputOptions options);

  // Takes over both pipes. Empty ones are fine.
  void add_rank(int rank, UniqueFd out, UniqueFd err);

  // What a rank elsewhere printed. Requires: add_rank, with empty pipes.
  void feed(int rank, bool is_err, std::string_view bytes);
  // One line of nobody's rank, on standard error.
  void note(std::string_view line);
  // Requires: framed.
  void send(const Frame& frame);
  void send_raw(std::string_view bytes);

  // So much waits to be written that nothing more should be taken.
  bool is_full() const;

  // Appends what to wait for; serve() takes exactly those entries back.
  void watch(std::vector<pollfd>& polled) const;
  void serve(std::span<const pollfd> polled);

  // Every pipe has come to its end and every line is written.
  bool drained() const;
  // Takes what lies in the pipes now and closes them: somebody who is not ours may hold the other end.
  void close_pipes();
  // Waits until what was taken is written.
  void flush(Deadline deadline);

  // The end of what the rank printed on standard error.
  std::vector<std::string> last_lines(int rank) const;

 private:
  struct Sink {
    int fd;
    bool colour;
    std::string pending = {};
    size_t num_written = 0;

    bool empty() const { return num_written == pending.size(); }
    void write_some();
  };
  struct Source {
    int rank;
    bool is_err;
    UniqueFd pipe;
    LineCutter cutter = {};
  };
  bool take(Source& source);  // one read; false: nothing there now, or ever again
  void pass_on(Source& source, std::string_view bytes);
  void show(const Source& source, std::string_view line);

  const OutputOptions options_;
  Sink out_, err_;
  std::vector<Source> sources_;
  std::map<int, LastLines> last_;
};

}  // namespace weft::launcher
