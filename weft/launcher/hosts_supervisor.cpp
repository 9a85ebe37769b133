#include "weft/launcher/hosts_supervisor.h"

#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string_view>

#include "weft/base/error.h"
#include "weft/base/log.h"
#include "weft/base/text.h"
#include "weft/launcher/hosts_attempt.h"
#include "weft/launcher/preflight.h"

namespace weft::launcher {
namespace {

constexpr std::string_view kSentPrefixes[] = {"WEFT_", "OMP_",   "MKL_",     "NCCL_",
                                              "GLOO_", "TORCH_", "PYTORCH_", "PYTHON"};
constexpr size_t kDescriptorsPerHost = 4;

void check_master(const HostsSpec& spec) {
  const bool others_are_elsewhere = !std::ranges::all_of(spec.hosts, is_loopback);
  const Host first{.name = spec.launch.master_addr};
  if (!is_loopback(first) || !others_are_elsewhere) return;
  throw Error(ErrorKind::kInput,
              {.title = "the other hosts cannot reach the first one",
               .what = cat("rank 0 listens on ", spec.launch.master_addr, ", which every host takes for itself"),
               .where = "",
               .fix = "name the first host as the others know it, or give --master ADDR"});
}

}  // namespace

HostsSpec without(const HostsSpec& spec, const std::vector<size_t>& away) {
  HostsSpec left = spec;
  left.hosts.clear();
  left.launch.ranks_per_host.clear();
  std::vector<std::string> names;
  for (size_t i = 0; i < spec.hosts.size(); ++i) {
    if (std::ranges::find(away, i) != away.end()) {
      names.push_back(spec.hosts[i].name);
      continue;
    }
    left.hosts.push_back(spec.hosts[i]);
    left.launch.ranks_per_host.push_back(spec.hosts[i].num_ranks);
  }
  left.launch.num_hosts = static_cast<int>(left.hosts.size());
  if (names.empty() || spec.min_ranks == 0 || left.launch.world() < spec.min_ranks) return spec;
  // Where rank 0 listened on the first host by its name, it does so on the one that is first now.
  if (spec.launch.master_addr == address_of(spec.hosts.front()))
    left.launch.master_addr = address_of(left.hosts.front());
  log_warn("going on without ", join(names, ", "), ": ", left.launch.world(), " ranks");
  return left;
}

RunResult supervise_hosts(const HostsSpec& spec) {
  check_master(spec);
  make_room_for_descriptors(kDescriptorsPerHost * spec.hosts.size());
  SignalWatch signals;
  HostsSpec now = spec;
  const auto result = run_with_restarts(spec.launch, signals, [&](int number) {
    auto attempt = std::make_unique<HostsAttempt>(now, number, signals);
    Outcome outcome = attempt->run();
    const std::vector<size_t> away = attempt->away();
    attempt.reset();  // it looks at the hosts that it was made for
    now = without(now, away);
    return outcome;
  });
  if (!spec.launch.log_dir.empty()) {
    log_info("what the ranks printed is in ", spec.launch.log_dir, "/rank_*.attempt_*.log on their hosts");
  }
  return result;
}

std::map<std::string, std::string> sent_environment() {
  std::map<std::string, std::string> out;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const size_t equals = text.find('=');
    const auto is_prefix = [&](std::string_view prefix) { return text.starts_with(prefix); };
    if (equals == std::string_view::npos || std::ranges::none_of(kSentPrefixes, is_prefix)) continue;
    out.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return out;
}

}  // namespace weft::launcher
