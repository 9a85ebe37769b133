// How `weft run` and its agent on another host talk, through the agent's standard input and output: a stream of frames,
// each a kind, a number and some bytes.
//
//   std::string out = stream_start();
//   append_frame(out, {.kind = FrameKind::kOutput, .number = 3, .bytes = "loss 3.1\n"});
//   FrameReader reader;
//   reader.feed(out, [](const Frame& frame) { ... });
//
// What comes before stream_start() is no frame: a login shell may greet its user on standard output.
//
// Threads: values with one owner. Failure: Error(kEnvironment) for bytes that are no frame.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace weft::launcher {

enum class FrameKind : char {
  // To the agent.
  kJob = 'j',  // what to start, see agent_job.h
  // Number: the signal that asks its ranks to end, nothing when they were asked already; bytes: see kLastWord.
  kSignal = 's',
  kKill = 'k',  // do not wait for them any longer
  // To the one who started it.
  kHello = 'h',    // number: a port that is free there; bytes: its version
  kOutput = 'o',   // number: the rank that printed the bytes
  kErrors = 'e',   // the same, on standard error
  kFailure = 'f',  // the first of its ranks failed; bytes: how it ended
  kDone = 'd',     // all its ranks have ended, and this is the last frame; bytes: how
  kRefused = 'r',  // nothing was started; bytes: why
  // Both ways.
  kBeat = 'b',  // "I am here"; the agent answers one with one
};

struct Frame {
  FrameKind kind = FrameKind::kBeat;
  int number = 0;
  std::string_view bytes = {};  // lives as long as the call that hands it over
};

// Changes whenever a frame changes its meaning: two versions that would misunderstand each other do not start to talk.
inline constexpr int kProtocol = 2;

// With kSignal: no attempt follows this one.
inline constexpr std::string_view kLastWord = "last";

// The first bytes of the agent's stream.
std::string stream_start();

void append_frame(std::string& out, const Frame& frame);

class FrameReader {
 public:
  static constexpr size_t kMaxFrameBytes = 64 << 20;

  // `greeted`: the stream begins with stream_start().
  explicit FrameReader(bool greeted) : started_(!greeted) {}

  void feed(std::string_view bytes, const std::function<void(const Frame&)>& on_frame);

  // stream_start() has come.
  bool started() const { return started_; }
  // What came before it: the last of it, when it is long.
  std::string noise() const { return started_ ? noise_ : noise_ + begun_; }

 private:
  bool skip_noise();
  // The bytes it takes up in `begun_` from `at`, or 0 when it is not whole yet.
  size_t take_frame(size_t at, const std::function<void(const Frame&)>& on_frame) const;

  bool started_;
  std::string noise_, begun_;
};

}  // namespace weft::launcher
