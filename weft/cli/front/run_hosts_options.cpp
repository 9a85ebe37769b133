#include "weft/cli/front/run_hosts_options.h"

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <filesystem>

#include "weft/base/text.h"
#include "weft/cli/front/flags.h"
#include "weft/launcher/hosts_supervisor.h"
#include "weft/launcher/shell_words.h"

namespace weft::cli {
namespace {

namespace fs = std::filesystem;

// BatchMode: a question for a password would wait for an answer that cannot come, for the ssh is no foreground job.
constexpr const char* kSsh =
    "ssh -T -o BatchMode=yes -o ConnectTimeout=20 -o ServerAliveInterval=15 -o ServerAliveCountMax=4";

void refuse_without_hosts(const TypedHosts& t) {
  const char* flag = !t.ssh.empty()           ? "--ssh"
                     : !t.remote_weft.empty() ? "--remote-weft"
                     : !t.env.empty()         ? "--env"
                     : t.min_ranks > 0        ? "--min-ranks"
                                              : "";
  if (*flag != '\0') refuse(cat(flag, " is for ranks on other hosts"), "", "name them: --hosts a,b or --hostfile FILE");
}

void add_variable(const std::string& text, std::map<std::string, std::string>& env) {
  const size_t equals = text.find('=');
  const std::string name = text.substr(0, equals);
  if (name.empty()) refuse("--env is no variable", cat("'", text, "'"), "--env NAME, or --env NAME=VALUE");
  const char* value = equals == std::string::npos ? std::getenv(name.c_str()) : text.c_str() + equals + 1;
  if (value == nullptr) refuse(cat("--env ", name, " is not set here"), "", cat("--env ", name, "=VALUE"));
  env[name] = value;
}

void fill_launch(launcher::HostsSpec& spec) {
  launcher::LaunchSpec& launch = spec.launch;
  launch.num_hosts = static_cast<int>(spec.hosts.size());
  for (const auto& host : spec.hosts) launch.ranks_per_host.push_back(host.num_ranks);
}

}  // namespace

void add_hosts_flags(CLI::App& app, TypedHosts& t) {
  app.option_defaults()->group("Several hosts, started from here over ssh");
  app.add_option("--hosts", t.hosts,
                 "the hosts, with their ranks after a colon (default:\nthose of -n); the first has rank 0")
      ->type_name("A,B:2");
  app.add_option("--hostfile", t.hostfile, "the same, one a line: node0 slots=4, node0:4, or node0")->type_name("FILE");
  app.add_option(
         "--env", t.env,
         "a variable for the ranks, beside those of weft, OpenMP,\nNCCL, Gloo, torch and Python; may be repeated")
      ->type_name("NAME[=VALUE]")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->allow_extra_args(false);
  add_int(app, "--min-ranks", t.min_ranks, 0, int64_t{1} << 26,
          "with --restarts: hosts that stay away are left out as\nlong as so many ranks remain; 0: never");
  app.add_option("--ssh", t.ssh,
                 "the command to use in place of ssh; it gets the host and\none word for the shell there")
      ->type_name("COMMAND");
  app.add_option("--remote-weft", t.remote_weft, "where weft is on the hosts (default: where it is here)")
      ->type_name("PATH");
}

std::optional<launcher::HostsSpec> take_hosts(const TypedHosts& t, launcher::LaunchSpec launch) {
  if (!t.wanted()) refuse_without_hosts(t);
  if (!t.wanted()) return std::nullopt;
  if (!t.hosts.empty() && !t.hostfile.empty()) refuse("--hosts and --hostfile say the same", "", "leave one out");
  launcher::HostsSpec spec{.launch = std::move(launch)};
  const int ranks = spec.launch.num_local;
  spec.hosts = t.hosts.empty() ? launcher::read_hostfile(t.hostfile, ranks) : launcher::parse_hosts(t.hosts, ranks);
  fill_launch(spec);
  spec.ssh = launcher::split_words(t.ssh.empty() ? kSsh : t.ssh);
  if (spec.ssh.empty()) refuse("--ssh names no command", "", "--ssh 'ssh -J gateway'");
  spec.remote_weft = t.remote_weft.empty() ? fs::read_symlink("/proc/self/exe").string() : t.remote_weft;
  spec.min_ranks = static_cast<int>(t.min_ranks);
  spec.cwd = fs::current_path().string();
  spec.env = launcher::sent_environment();
  for (const auto& text : t.env) add_variable(text, spec.env);
  return spec;
}

}  // namespace weft::cli
