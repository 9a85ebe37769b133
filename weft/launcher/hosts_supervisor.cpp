#include "weft/launcher/hosts_supervisor.h"

#include <unistd.h>

#include <algorithm>
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

RunResult supervise_hosts(const HostsSpec& spec) {
  check_master(spec);
  make_room_for_descriptors(kDescriptorsPerHost * spec.hosts.size());
  SignalWatch signals;
  const auto result =
      run_with_restarts(spec.launch, signals, [&](int number) { return HostsAttempt(spec, number, signals).run(); });
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
