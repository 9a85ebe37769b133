#include "weft/launcher/attempt.h"

#include <cstring>

#include "weft/base/log.h"
#include "weft/base/text.h"
#include "weft/base/units.h"
#include "weft/launcher/descendants.h"
#include "weft/monitor/terminal.h"

namespace weft::launcher {
namespace {

// For what SIGKILL does not end at once, and for pipes that somebody else holds: never reached in ordinary life.
constexpr double kSweepSeconds = 5, kDrainSeconds = 2;
OutputOptions output_options(const LaunchSpec& spec) {
  return {.prefix = spec.prefix,
          .colour_out = detect_terminal(STDOUT_FILENO).colour,
          .colour_err = detect_terminal(STDERR_FILENO).colour,
          .framed = spec.is_agent};
}

Deadline earlier(const Deadline& a, const Deadline& b) { return a.remaining() < b.remaining() ? a : b; }

}  // namespace

Attempt::Attempt(const LaunchSpec& spec, int number, int port, SignalWatch& signals, AgentLink* link)
    : spec_(spec),
      number_(number),
      signals_(signals),
      link_(link),
      pump_(output_options(spec)),
      group_(spec, number, port, pump_) {}

void Attempt::run() {
  while (!swept_ || !(pump_.drained() || hurry_)) turn();
  pump_.close_pipes();
  pump_.flush(Deadline::after(kFlushSeconds));
}

void Attempt::turn() {
  polled_.clear();
  polled_.push_back({signals_.fd(), POLLIN, 0});
  polled_.push_back(link_ == nullptr ? pollfd{-1, 0, 0} : link_->watched());
  const size_t num_before_group = polled_.size();
  group_.watch(polled_);
  const size_t num_before_pump = polled_.size();
  pump_.watch(polled_);
  const Deadline silence = link_ == nullptr ? Deadline::never() : link_->silence();
  ::poll(polled_.data(), polled_.size(), earlier(deadline_, silence).poll_ms());

  const std::span<const pollfd> all = polled_;
  while (const auto number = signals_.take()) on_signal(*number);
  if (link_ != nullptr) on_orders(link_->take(all[1]));
  pump_.serve(all.subspan(num_before_pump));
  on_ends(group_.note_ends(all.subspan(num_before_group, num_before_pump - num_before_group)));
  if (deadline_.expired()) on_deadline();
  if (group_.all_ended() && !swept_) sweep();
}

void Attempt::on_orders(const Orders& orders) {
  for (const int number : orders.signals) {
    // A failure here and the order to end that follows it, or failed ranks on two hosts: no reason to hurry.
    if (!asked_to_end_) on_signal(number);
  }
  hurry_ = hurry_ || orders.kill;
  if (orders.kill) group_.kill();
  for (int i = 0; i < orders.num_beats; ++i) pump_.send({.kind = FrameKind::kBeat});
}

void Attempt::on_signal(int number) {
  if (number == SIGCHLD) return reap_orphans(group_.pids());
  if (!interrupted_by_) interrupted_by_ = number;
  // They were asked already, by the first signal or after a failure; somebody does not want to wait.
  hurry_ = asked_to_end_ || swept_;
  if (hurry_) return group_.kill();
  // An agent leaves the words to the one who started it: many hosts would say the same.
  if (link_ == nullptr)
    say(cat("SIG", ::sigabbrev_np(number), ": passed on to the ranks; those that still run in ",
            format_duration(spec_.grace), " are killed (a second signal: at once)"));
  ask_to_end(number);
}

void Attempt::on_ends(const std::vector<size_t>& ended) {
  if (first_failure_ || interrupted_by_) return;
  first_failure_ = first_of(group_.ends(), ended);
  if (!first_failure_) return;
  if (link_ != nullptr) send_failure();
  if (group_.all_ended()) return;
  const RankEnd& end = group_.ends()[*first_failure_];
  if (link_ == nullptr)
    say(cat("rank ", end.rank, " failed (", end.status->describe(), "): ", ending_the_others(spec_)));
  deadline_ = Deadline::after(spec_.linger);
}

void Attempt::send_failure() {
  const std::string bytes = bytes_of_end(group_.ends()[*first_failure_]);
  pump_.send({.kind = FrameKind::kFailure, .bytes = bytes});
}

void Attempt::ask_to_end(int signal) {
  asked_to_end_ = true;
  group_.signal(signal);
  deadline_ = Deadline::after(spec_.grace);
}

void Attempt::on_deadline() {
  if (!asked_to_end_ && !swept_) return ask_to_end(SIGTERM);  // the linger after a failure is over
  deadline_ = Deadline::never();
  if (swept_) return pump_.close_pipes();
  say(cat("killing the ranks that still run after ", format_duration(spec_.grace)));
  group_.kill();
}

void Attempt::sweep() {
  group_.kill();
  if (!end_descendants(group_.pids(), Deadline::after(kSweepSeconds))) {
    say("something that a rank started could not be killed");
  }
  swept_ = true;
  deadline_ = Deadline::after(kDrainSeconds);
}

void Attempt::say(const std::string& text) {
  pump_.flush(Deadline::after(kFlushSeconds));
  log_info(text);
}

std::optional<Failure> Attempt::failure() const {
  if (!first_failure_) return std::nullopt;
  const RankEnd& end = group_.ends()[*first_failure_];
  Failure out{.end = end, .world = spec_.world(), .attempt = number_, .max_restarts = spec_.max_restarts};
  if (!spec_.log_dir.empty()) out.log = log_path(spec_, end.rank, number_);
  out.last_lines = out.log.empty() ? pump_.last_lines(end.rank) : last_lines_of_file(out.log);
  return out;
}

}  // namespace weft::launcher
