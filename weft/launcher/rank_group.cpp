#include "weft/launcher/rank_group.h"

#include <cerrno>
#include <csignal>

#include "weft/base/check.h"
#include "weft/base/error.h"
#include "weft/base/text.h"
#include "weft/launcher/rank_environment.h"

namespace weft::launcher {
namespace {

// A rank is no foreground job: reading from the terminal would stop it. A file or a pipe goes to one rank, for several
// readers would each get a part. An agent's input is its orders.
Stream input_of(const LaunchSpec& spec, int local_rank) {
  const bool is_theirs = local_rank == 0 && !spec.is_agent && ::isatty(STDIN_FILENO) == 0;
  return is_theirs ? Stream::inherit() : Stream::null();
}

Stream output_of(const LaunchSpec& spec, int rank, int attempt) {
  if (!spec.log_dir.empty()) return Stream::file(log_path(spec, rank, attempt));
  return spec.forwards_output() ? Stream::pipe() : Stream::inherit();
}

// A log file that cannot be opened is named there instead, and speaks for itself.
bool is_about_program(const std::string& program, const IoError& error) {
  const bool is_theirs = error.code() == ENOENT || error.code() == EACCES || error.code() == ENOEXEC;
  return is_theirs && error.text().where == program;
}

// The first rank meets it, before any program of the user's has run.
Error cannot_run(const std::string& program, const IoError& error) {
  const std::string interpreter = cat("name its interpreter: weft run ... -- python3 ", program);
  if (error.code() == ENOENT) {
    return {ErrorKind::kInput,
            {.title = cat("there is no program ", program),
             .what = program.find('/') == std::string::npos ? "it is in no folder of PATH" : "",
             .where = "",
             .fix = cat("check the spelling (one in this folder is ./NAME), or ", interpreter)}};
  }
  return {ErrorKind::kInput,
          {.title = cat("the program ", program, " cannot be run"),
           .what = error.text().what,
           .where = "",
           .fix = cat("chmod +x it and begin it with a line such as #!/bin/sh, or ", interpreter)}};
}

}  // namespace

std::string log_path(const LaunchSpec& spec, int rank, int attempt) {
  return cat(spec.log_dir, "/rank_", rank, ".attempt_", attempt, ".log");
}

RankGroup::RankGroup(const LaunchSpec& spec, int attempt, int port, OutputPump& pump) : cpus_(allowed_cpus()) {
  for (int i = 0; i < spec.num_local; ++i) {
    started_.emplace_back();
    processes_.push_back(start(spec, i, attempt, port));
    Process& process = processes_.back();
    ends_.push_back({.rank = spec.rank_of(i), .pid = process.pid()});
    if (spec.forwards_output()) pump.add_rank(spec.rank_of(i), std::move(process.out()), std::move(process.err()));
  }
}

Process RankGroup::start(const LaunchSpec& spec, int local_rank, int attempt, int port) const {
  const Stream output = output_of(spec, spec.rank_of(local_rank), attempt);
  const ProcessSpec process{
      .argv = spec.argv,
      .env = rank_environment(spec, local_rank, attempt, port, static_cast<int>(cpus_.size())),
      .in = input_of(spec, local_rank),
      .out = output,
      .err = output,
      .cpus = spec.bind_cores ? cpus_of_rank(cpus_, spec.num_local, local_rank) : std::vector<int>(),
      .new_group = true,
      .die_with_parent = true};
  try {
    return Process::spawn(process);
  } catch (const IoError& error) {
    if (!is_about_program(spec.argv[0], error)) throw;
    throw cannot_run(spec.argv[0], error);
  }
}

void RankGroup::watch(std::vector<pollfd>& polled) const {
  for (size_t i = 0; i < ends_.size(); ++i) {
    polled.push_back({ends_[i].status ? -1 : processes_[i].pidfd(), POLLIN, 0});
  }
}

std::vector<size_t> RankGroup::note_ends(std::span<const pollfd> polled) {
  WEFT_CHECK_EQ(polled.size(), ends_.size());
  std::vector<size_t> ended;
  for (size_t i = 0; i < ends_.size(); ++i) {
    if (polled[i].revents == 0 || ends_[i].status) continue;
    ends_[i].status = processes_[i].wait();
    ends_[i].seconds = started_[i].elapsed_s();
    ended.push_back(i);
  }
  num_ended_ += ended.size();
  return ended;
}

void RankGroup::signal(int number) const {
  for (size_t i = 0; i < ends_.size(); ++i) {
    if (!ends_[i].status) processes_[i].kill_group(number);
  }
}

void RankGroup::kill() const {
  for (const auto& process : processes_) process.kill_group(SIGKILL);
}

std::vector<pid_t> RankGroup::pids() const {
  std::vector<pid_t> out;
  for (const auto& end : ends_) out.push_back(end.pid);
  return out;
}

}  // namespace weft::launcher
