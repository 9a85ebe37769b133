// What the frames between `weft run` and its agents hold: the job, and how it went. CBOR with byte strings, because
// arguments, paths and variables may hold any bytes.
//
// Free functions, any thread. Failure: Error(kEnvironment) for bytes that hold something else.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/base/error.h"
#include "weft/launcher/first_failure.h"
#include "weft/launcher/launch_spec.h"
#include "weft/launcher/rank_group.h"

namespace weft::launcher {

struct AgentJob {
  LaunchSpec launch = {};  // of that host; master_port is chosen
  int attempt = 0;
  std::string cwd = {};
  std::map<std::string, std::string> env = {};  // to be set there before anything is started
};

struct AgentReport {
  std::vector<RankEnd> ranks = {};
  std::optional<Failure> failure = {};
  std::optional<int> interrupted_by = {};  // a signal to the agent, from its own host or from us
  bool heard_nothing = false;              // it is the silence that ended the ranks
};

std::string bytes_of_job(const AgentJob& job);
AgentJob job_of_bytes(std::string_view bytes);

std::string bytes_of_report(const AgentReport& report);
AgentReport report_of_bytes(std::string_view bytes);

std::string bytes_of_end(const RankEnd& end);
RankEnd end_of_bytes(std::string_view bytes);

std::string bytes_of_error(const Error& error);
Error error_of_bytes(std::string_view bytes);

}  // namespace weft::launcher
