#include "weft/launcher/agent.h"

#include <unistd.h>

#include <cstdlib>

#include "weft/base/build_info.h"
#include "weft/base/error.h"
#include "weft/base/text.h"
#include "weft/launcher/agent_link.h"
#include "weft/launcher/attempt.h"
#include "weft/launcher/copies_folder.h"
#include "weft/launcher/descendants.h"
#include "weft/launcher/port.h"
#include "weft/launcher/preflight.h"

namespace weft::launcher {
namespace {

// For the few frames outside an attempt; a pipe has room for them at once.
constexpr double kSendSeconds = 10;

void send(std::string_view start, const Frame& frame) {
  OutputPump pump({.framed = true});
  pump.send_raw(start);
  pump.send(frame);
  pump.flush(Deadline::after(kSendSeconds));
}

// Nothing when somebody wants us to end before there was a job.
std::optional<AgentJob> wait_for_job(AgentLink& link, SignalWatch& signals) {
  while (!link.gone()) {
    pollfd polled[] = {link.watched(), {signals.fd(), POLLIN, 0}};
    ::poll(polled, 2, link.silence().poll_ms());
    auto orders = link.take(polled[0]);
    for (int i = 0; i < orders.num_beats; ++i) send("", {.kind = FrameKind::kBeat});
    if (orders.job && orders.signals.empty()) return orders.job;
    if (!orders.signals.empty() || signals.take()) break;
  }
  return std::nullopt;
}

// The agent is this host's half of the user's shell: the folder and the variables are those of the command.
void enter(const AgentJob& job) {
  for (const auto& [name, value] : job.env) ::setenv(name.c_str(), value.c_str(), 1);
  if (::chdir(job.cwd.c_str()) == 0) return;
  const IoError error("enter the folder the run was started in", job.cwd, errno);
  throw Error(ErrorKind::kInput, {.title = error.text().title,
                                  .what = error.text().what,
                                  .where = job.cwd,
                                  .fix = "start the run in a folder that all hosts have"});
}

// Copies in memory are for the attempt that follows. One that somebody else gives up leaves them to the next launcher here.
void forget_copies(const AgentJob& job, const AgentReport& report, const AgentLink& link) {
  const bool has_ended_well = !report.failure && !report.interrupted_by;
  if (has_ended_well || link.is_last() || job.attempt >= job.launch.max_restarts)
    remove_copies(copies_folder(job.launch));
}

AgentReport run_job(const AgentJob& job, AgentLink& link, SignalWatch& signals) {
  enter(job);
  check_launch(job.launch);
  remove_stale_copies();
  if (job.attempt == 0) remove_copies(copies_folder(job.launch));
  Attempt attempt(job.launch, job.attempt, job.launch.master_port.value(), signals, &link);
  attempt.run();
  AgentReport report{.ranks = attempt.ends(),
                     .failure = attempt.failure(),
                     .interrupted_by = attempt.interrupted_by(),
                     .heard_nothing = link.gone()};
  forget_copies(job, report, link);
  return report;
}

}  // namespace

int run_agent() {
  SignalWatch signals;
  const Subreaper subreaper;
  AgentLink link(STDIN_FILENO);
  send(stream_start(), {.kind = FrameKind::kHello, .number = free_port(), .bytes = kVersion});
  const auto job = wait_for_job(link, signals);
  if (!job) return 0;
  try {
    send("", {.kind = FrameKind::kDone, .bytes = bytes_of_report(run_job(*job, link, signals))});
  } catch (const Error& error) {
    send("", {.kind = FrameKind::kRefused, .bytes = bytes_of_error(error)});
  }
  return 0;
}

}  // namespace weft::launcher
