#include "weft/launcher/hosts_attempt.h"

#include <algorithm>
#include <cstring>

#include "weft/base/build_info.h"
#include "weft/base/log.h"
#include "weft/base/text.h"
#include "weft/base/units.h"
#include "weft/launcher/agent_link.h"
#include "weft/monitor/terminal.h"

namespace weft::launcher {
namespace {

constexpr double kConnectSeconds = 60;
// What an agent may take beyond the grace period to sweep up, drain and report, and to end when nothing was started.
constexpr double kReportSeconds = 15, kHurrySeconds = 10, kCloseSeconds = 5;
// News of one failure and of its consequences elsewhere travel by different ways: a rank that a signal killed within so
// long of the first report is the cause, as in first_of().
constexpr double kSettleSeconds = 0.5;

OutputOptions output_options(const HostsSpec& spec) {
  return {.prefix = spec.launch.prefix && spec.launch.world() > 1,
          .colour_out = detect_terminal(STDOUT_FILENO).colour,
          .colour_err = detect_terminal(STDERR_FILENO).colour};
}

// The agent's error, with the host it came from.
Error on_host(const Error& error, const std::string& host) {
  ErrorText text = error.text();
  text.title += cat(" (on host ", host, ")");
  return {error.kind(), text};
}

// The agent ended its ranks, and neither a failure nor we made it.
Error not_from_here(const AgentReport& report, const std::string& host) {
  if (report.heard_nothing) {
    return {ErrorKind::kEnvironment,
            {.title = cat("host ", host, " has given this run up"),
             .what = cat("it heard nothing from here for ", kSilenceSeconds, " s, and ended its ranks"),
             .where = "",
             .fix = "let weft run go on running: stopped (Ctrl-Z) it counts as gone"}};
  }
  return {ErrorKind::kEnvironment,
          {.title = cat("somebody ended the ranks of host ", host),
           .what = cat("its weft got SIG", ::sigabbrev_np(*report.interrupted_by), ", and not from here"),
           .where = "",
           .fix = ""}};
}

void check_rank(const HostsSpec& spec, const Frame& frame) {
  const bool has_rank = frame.kind == FrameKind::kOutput || frame.kind == FrameKind::kErrors;
  if (!has_rank || (frame.number >= 0 && frame.number < spec.launch.world())) return;
  throw Error(ErrorKind::kEnvironment,
              {.title = cat("there is no rank ", frame.number), .what = "", .where = "", .fix = ""});
}

}  // namespace

HostsAttempt::HostsAttempt(const HostsSpec& spec, int number, SignalWatch& signals)
    : spec_(spec),
      signals_(signals),
      pump_(output_options(spec)),
      deadline_(Deadline::after(kConnectSeconds)),
      next_beat_(Deadline::after(kBeatSeconds)),
      facts_{.attempt = number} {
  for (int rank = 0; rank < spec.launch.world(); ++rank) pump_.add_rank(rank, {}, {});
  places_.reserve(spec.hosts.size());
  for (const auto& host : spec.hosts) places_.push_back({.host = RemoteHost(spec, host)});
}

Outcome HostsAttempt::run() {
  while (!all_closed() || !(pump_.drained() || hurry_)) turn();
  close();
  pump_.close_pipes();
  pump_.flush(Deadline::after(kFlushSeconds));
  for (auto& place : places_) facts_.reports.push_back(std::move(place.report));
  return outcome_of(spec_, facts_, [&](int rank) { return pump_.last_lines(rank); });
}

void HostsAttempt::turn() {
  polled_.clear();
  polled_.push_back({signals_.fd(), POLLIN, 0});
  for (const auto& place : places_) place.host.watch(polled_, pump_.is_full());
  const size_t num_before_pump = polled_.size();
  pump_.watch(polled_);
  const auto wait_ms =
      std::min<unsigned>(static_cast<unsigned>(deadline_.poll_ms()), static_cast<unsigned>(next_beat_.poll_ms()));
  ::poll(polled_.data(), polled_.size(), static_cast<int>(wait_ms));

  while (const auto number = signals_.take()) on_signal(*number);
  const std::span<const pollfd> all = polled_;
  for (size_t i = 0; i < places_.size(); ++i) {
    const auto note = [&](std::string_view line) { pump_.note(cat("[host ", places_[i].host.name(), "] ", line)); };
    const auto polled = all.subspan(1 + i * RemoteHost::kNumPolled, RemoteHost::kNumPolled);
    places_[i].host.serve(polled, [&](const Frame& frame) { on_frame(i, frame); }, note);
  }
  pump_.serve(all.subspan(num_before_pump));
  check_hosts();
  if (next_beat_.expired()) beat();
  if (deadline_.expired()) on_deadline();
}

void HostsAttempt::on_signal(int number) {
  if (number == SIGCHLD) return;
  if (!facts_.interrupted_by) facts_.interrupted_by = number;
  if (!facts_.started && !asked_to_end_) say(cat("SIG", ::sigabbrev_np(number), ": no rank was started yet"));
  if (facts_.started && !asked_to_end_) {
    say(cat("SIG", ::sigabbrev_np(number), ": passed on to the ranks of all hosts; those that still run in ",
            format_duration(spec_.launch.grace), " are killed (a second signal: at once)"));
  }
  hurry_ = asked_to_end_;
  ask_to_end(number);
}

void HostsAttempt::on_frame(size_t index, const Frame& frame) {
  const std::string& host = places_[index].host.name();
  check_rank(spec_, frame);
  switch (frame.kind) {
    case FrameKind::kHello: return on_hello(index, frame);
    case FrameKind::kOutput: return pump_.feed(frame.number, false, frame.bytes);
    case FrameKind::kErrors: return pump_.feed(frame.number, true, frame.bytes);
    case FrameKind::kFailure: return on_failure(end_of_bytes(frame.bytes), host);
    case FrameKind::kDone: return on_report(index, report_of_bytes(frame.bytes));
    case FrameKind::kRefused:
      places_[index].has_refused = true;
      return trouble(on_host(error_of_bytes(frame.bytes), host));
    case FrameKind::kJob:
    case FrameKind::kSignal:
    case FrameKind::kKill:
    case FrameKind::kBeat: return;
  }
}

void HostsAttempt::on_hello(size_t index, const Frame& frame) {
  if (frame.bytes != kVersion) {
    log_warn("host ", places_[index].host.name(), " has weft ", frame.bytes, ", this one is ", kVersion);
  }
  if (index == 0) port_ = frame.number;
  ++num_ready_;
  if (num_ready_ == places_.size() && !asked_to_end_) start_ranks();
}

// Only now: had one host not answered, no rank would have run anywhere.
void HostsAttempt::start_ranks() {
  facts_.started = true;
  deadline_ = Deadline::never();
  AgentJob job{.launch = spec_.launch, .attempt = facts_.attempt, .cwd = spec_.cwd, .env = spec_.env};
  job.launch.master_port = spec_.launch.master_port.value_or(port_);
  for (size_t i = 0; i < places_.size(); ++i) {
    job.launch.host_rank = static_cast<int>(i);
    job.launch.num_local = spec_.hosts[i].num_ranks;
    job.launch.host_name = spec_.hosts[i].name;
    places_[i].host.send({.kind = FrameKind::kJob, .bytes = bytes_of_job(job)});
  }
}

void HostsAttempt::on_failure(const RankEnd& end, const std::string& host) {
  if (facts_.interrupted_by || facts_.error) return;
  const bool is_cause = facts_.first_failure && since_failure_.elapsed_s() < kSettleSeconds &&
                        end.status->signal != 0 && facts_.first_failure->status->signal == 0;
  if (facts_.first_failure && !is_cause) return;
  const bool is_first = !facts_.first_failure;
  facts_.first_failure = end;
  facts_.first_failure->host = host;
  if (!is_first) return;
  since_failure_.restart();
  say(cat("rank ", end.rank, " on host ", host, " failed (", end.status->describe(),
          "): ", ending_the_others(spec_.launch)));
  deadline_ = Deadline::after(spec_.launch.linger);
}

void HostsAttempt::on_report(size_t index, AgentReport report) {
  auto& place = places_[index];
  place.report = std::move(report);
  place.host.hang_up();
  if (place.report->interrupted_by && !asked_to_end_) trouble(not_from_here(*place.report, place.host.name()));
}

void HostsAttempt::check_hosts() {
  for (size_t i = 0; i < places_.size(); ++i) {
    auto& place = places_[i];
    if (place.is_open() && place.host.is_silent()) place.host.kill();
    const bool is_lost = place.host.has_ended() && !place.report && !place.has_refused;
    // Once we end them ourselves they say nothing about who is there.
    if (is_lost && !place.counted && !facts_.started && !asked_to_end_) away_.push_back(i);
    if (is_lost && !place.counted && !facts_.interrupted_by) trouble(place.host.loss());
    place.counted = place.counted || is_lost;
  }
}

void HostsAttempt::trouble(const Error& error) {
  if (facts_.error || facts_.first_failure || facts_.interrupted_by) return;
  facts_.error = error;
  if (facts_.started && !asked_to_end_) say(cat(error.text().title, ": ending the ranks of the other hosts"));
  ask_to_end(SIGTERM);
}

void HostsAttempt::ask_to_end(int signal) {
  asked_to_end_ = true;
  const auto grace_s = std::chrono::duration<double>(spec_.launch.grace).count();
  deadline_ = Deadline::after(!facts_.started ? kCloseSeconds : hurry_ ? kHurrySeconds : grace_s + kReportSeconds);
  for (auto& place : places_) {
    if (facts_.started && place.is_open()) {
      place.host.send({.kind = hurry_ ? FrameKind::kKill : FrameKind::kSignal,
                       .number = signal,
                       .bytes = facts_.interrupted_by ? kLastWord : ""});
    }
    // No agent there has ranks: one that is idle goes when its input ends, and an ssh that connects has nothing to lose.
    if (!facts_.started && place.host.is_ready()) place.host.hang_up();
    if (!facts_.started && !place.host.is_ready()) place.host.kill();
  }
}

void HostsAttempt::beat() {
  next_beat_ = Deadline::after(kBeatSeconds);
  for (auto& place : places_) {
    if (place.host.is_ready() && place.is_open()) place.host.send({.kind = FrameKind::kBeat});
  }
}

// Those that have not answered: to our hello, or to the order to end.
void HostsAttempt::on_deadline() {
  if (facts_.first_failure && !asked_to_end_) return ask_to_end(SIGTERM);  // the linger is over
  deadline_ = Deadline::never();
  if (!asked_to_end_) {
    for (size_t i = 0; i < places_.size(); ++i) {
      if (!places_[i].host.is_ready()) away_.push_back(i);
    }
    if (!away_.empty()) return trouble(places_[away_.front()].host.loss());
  }
  for (auto& place : places_) {
    if (!place.is_open()) continue;
    if (facts_.started)
      say(cat("host ", place.host.name(), " does not answer; its ranks end when it notices that we are gone"));
    place.host.kill();
  }
}

bool HostsAttempt::all_closed() const {
  return std::ranges::none_of(places_, [](const Place& place) { return place.is_open(); });
}

// The agents have reported, and go; an ssh that stays longer is killed by its owner's end.
void HostsAttempt::close() {
  for (auto& place : places_) place.host.hang_up();
  const Deadline deadline = Deadline::after(kCloseSeconds);
  const auto has_ended = [](const Place& place) { return place.host.has_ended(); };
  while (!std::ranges::all_of(places_, has_ended) && !deadline.expired()) {
    polled_.clear();
    for (const auto& place : places_) place.host.watch(polled_, false);
    ::poll(polled_.data(), polled_.size(), deadline.poll_ms());
    for (size_t i = 0; i < places_.size(); ++i) {
      const auto polled = std::span<const pollfd>(polled_).subspan(i * RemoteHost::kNumPolled, RemoteHost::kNumPolled);
      places_[i].host.serve(polled, [](const Frame&) {}, [](std::string_view) {});
    }
  }
}

void HostsAttempt::say(const std::string& text) {
  pump_.flush(Deadline::after(kFlushSeconds));
  log_info(text);
}

}  // namespace weft::launcher
