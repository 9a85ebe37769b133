#include "weft/launcher/hosts_outcome.h"

#include "weft/base/text.h"
#include "weft/launcher/first_failure.h"

namespace weft::launcher {
namespace {

// A host that did not report has ranks whose end nobody knows.
AttemptResult record_of(const HostsSpec& spec, const HostsFacts& facts) {
  AttemptResult out;
  int rank = 0;
  for (size_t i = 0; i < spec.hosts.size(); ++i) {
    const Host& host = spec.hosts[i];
    auto ends = facts.reports[i] ? facts.reports[i]->ranks : std::vector<RankEnd>();
    for (int k = static_cast<int>(ends.size()); k < host.num_ranks; ++k) ends.push_back({.rank = rank + k});
    for (auto& end : ends) end.host = host.name;
    out.ranks.insert(out.ranks.end(), ends.begin(), ends.end());
    rank += host.num_ranks;
  }
  if (facts.first_failure) out.first_failure = facts.first_failure->rank;
  return out;
}

// With a log the last lines are on the rank's host, and came with its report.
Failure failure_of(const HostsSpec& spec, const HostsFacts& facts) {
  const LaunchSpec& launch = spec.launch;
  Failure out{.world = launch.world(), .attempt = facts.attempt, .max_restarts = launch.max_restarts};
  for (const auto& report : facts.reports) {
    if (report && report->failure && report->failure->end.rank == facts.first_failure->rank) {
      out.log = report->failure->log;
      out.last_lines = report->failure->last_lines;
    }
  }
  out.end = *facts.first_failure;
  return out;
}

int exit_code_after(const HostsFacts& facts) {
  if (facts.first_failure) return exit_code_of(*facts.first_failure->status);
  if (facts.error) return facts.error->exit_code();
  return facts.interrupted_by ? exit_code_of({.code = 0, .signal = *facts.interrupted_by}) : 0;
}

}  // namespace

Outcome outcome_of(const HostsSpec& spec, const HostsFacts& facts,
                   const std::function<std::vector<std::string>(int rank)>& last_lines) {
  Outcome out{.record = record_of(spec, facts), .exit_code = exit_code_after(facts)};
  if (facts.first_failure) {
    Failure failure = failure_of(spec, facts);
    if (failure.log.empty()) failure.last_lines = last_lines(failure.end.rank);
    out.last_words = describe(failure);
  } else if (facts.error) {
    out.last_words = cat(facts.error->what(), "\n");
  }
  // A host that was never reached will not be there in a second either; one that was lost may come back.
  out.is_final = facts.interrupted_by.has_value() || (!facts.started && facts.attempt == 0);
  return out;
}

}  // namespace weft::launcher
