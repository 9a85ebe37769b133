#include "weft/cli/front/run_options.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "weft/base/clock.h"
#include "weft/base/env.h"
#include "weft/base/error.h"
#include "weft/base/text.h"
#include "weft/base/units.h"
#include "weft/cli/front/flags.h"
#include "weft/cli/front/run_hosts_options.h"

namespace weft::cli {
namespace {

constexpr int64_t kMaxRestarts = 1000, kMaxThreads = 4096, kMaxPort = 65535, kMaxHosts = 1 << 16;

// The flags as they were typed, before they mean anything together.
struct TypedRun {
  int64_t num_ranks = 1, restarts = 0, num_hosts = 1;
  std::optional<int64_t> threads, master_port, host_rank;
  std::string linger = "2s", grace = "10s", bind = "none", master;
  bool no_prefix = false, resume = false;
  TypedHosts hosts;
};

void add_rank_flags(CLI::App& app, TypedRun& t) {
  app.option_defaults()->group("The ranks");
  add_int(app, "-n,--ranks", t.num_ranks, 1, launcher::kMaxLocalRanks,
          "ranks to start on this host, or on each of several");
  auto* restarts = add_int(
      app, "--restarts", t.restarts, 0, kMaxRestarts,
      "after a failure start all ranks again, this often at most\n(not after exit code 2, which is wrong usage)");
  app.add_flag(
         "--resume", t.resume,
         "ranks that are started again go on from their newest\ncheckpoint (WEFT_RESUME=1; weft train --save does so)")
      ->needs(restarts);
  app.add_option("--linger", t.linger,
                 "after a failure, time for the other ranks to say\nwhom they miss and to end by themselves")
      ->capture_default_str()
      ->type_name("DURATION");
  app.add_option("--grace", t.grace, "time to end after SIGTERM, before SIGKILL")
      ->capture_default_str()
      ->type_name("DURATION");
  add_int(app, "--threads", t.threads, 1, kMaxThreads,
          "OMP_NUM_THREADS of each rank (default: the environment's,\nelse the cores divided by the ranks)");
  add_choice(app, "--bind", t.bind, {"none", "cores"}, "cores: each rank runs on cores of its own")
      ->capture_default_str();
}

void add_output_flags(CLI::App& app, TypedRun& t, RunOptions& o) {
  app.option_defaults()->group("The output");
  app.add_option("--log-dir", o.launch.log_dir, "one file per rank and attempt there, and nothing here")
      ->type_name("DIR");
  app.add_flag("--no-prefix", t.no_prefix, "several ranks without [rank 3] before each line");
  app.add_option("--json", o.json_path, "write how each rank ended as JSON")->type_name("FILE");
}

void add_host_flags(CLI::App& app, TypedRun& t) {
  app.option_defaults()->group("Several hosts, by hand (the same command on each, but for --node-rank)");
  add_int(app, "--nnodes", t.num_hosts, 1, kMaxHosts, "hosts in all");
  add_int(app, "--node-rank", t.host_rank, 0, kMaxHosts - 1, "which of them this one is, from 0");
  app.add_option("--master", t.master, "the first host, as all can reach it (with --hosts: its\nname there)")
      ->type_name("ADDR[:PORT]");
  add_int(app, "--master-port", t.master_port, 1, kMaxPort,
          "where rank 0 listens (default: a free port; by hand with\nseveral hosts 29500)");
}

// "host", "host:29500", "10.0.0.1:29500", "[fe80::1]:29500", "fe80::1".
void take_master(const std::string& text, launcher::LaunchSpec& spec) {
  const size_t colon = text.rfind(':'), bracket = text.rfind(']');
  const bool is_bare_ipv6 = bracket == std::string::npos && text.find(':') != colon;
  const bool has_port =
      colon != std::string::npos && !is_bare_ipv6 && (bracket == std::string::npos || colon > bracket);
  std::string host = has_port ? text.substr(0, colon) : text;
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  int port = 0;
  const char* end = text.data() + text.size();
  const bool is_port =
      has_port && std::from_chars(text.data() + colon + 1, end, port).ptr == end && port > 0 && port <= kMaxPort;
  if (host.empty() || (has_port && !is_port)) {
    refuse("--master is no address", cat("'", text, "'; the port takes 1 to ", kMaxPort), "--master node0:29500");
  }
  spec.master_addr = host;
  if (has_port) spec.master_port = port;
}

void take_place(const TypedRun& t, launcher::LaunchSpec& spec) {
  const bool several = t.num_hosts > 1;
  if (t.hosts.wanted() && (several || t.host_rank)) {
    refuse("--hosts starts all of them from here", "--nnodes and --node-rank are for the same command on each",
           "leave --nnodes and --node-rank out");
  }
  if (several && (!t.host_rank || t.master.empty())) {
    refuse("several hosts must know each other", cat("--nnodes ", t.num_hosts, " needs --node-rank and --master"),
           "on each host: weft run --nnodes 2 --node-rank 0 (then 1) --master node0:29500 -n 8 -- PROGRAM");
  }
  if (t.host_rank.value_or(0) >= t.num_hosts) {
    refuse("--node-rank is not one of the hosts", cat("it is ", *t.host_rank, ", and --nnodes is ", t.num_hosts),
           cat("0 to ", t.num_hosts - 1));
  }
  if (several && t.restarts > 0) {
    refuse("--restarts works on one host", "the hosts do not know when another starts its ranks again",
           "start all from one place: weft run --hosts node0,node1 --restarts 3 ..., or leave --restarts out");
  }
  spec.num_hosts = static_cast<int>(t.num_hosts);
  spec.host_rank = static_cast<int>(t.host_rank.value_or(0));
  if (!t.master.empty()) take_master(t.master, spec);
  if (t.master_port) spec.master_port = static_cast<int>(*t.master_port);
}

// One name for the run in every rank's environment. Hosts that do not talk to each other can only agree on what they
// were all told.
std::string run_id_of(const launcher::LaunchSpec& spec) {
  const char* given = std::getenv("WEFT_RUN_ID");
  if (given != nullptr && *given != '\0') return given;
  if (spec.num_hosts == 1) return cat(file_stamp(), "-", ::getpid());
  return cat(spec.master_addr, ":", spec.master_port.value_or(launcher::kDefaultMasterPort));
}

void check_json_folder(const std::string& path) {
  const std::string folder = folder_of(path);
  const auto info = path.empty() ? FileInfo{.kind = FileKind::kFolder} : Env::posix().stat(folder);
  if (info && info->kind == FileKind::kFolder) return;
  refuse("the folder for --json does not exist", folder, cat("mkdir -p ", folder));
}

void take_launch(const TypedRun& t, launcher::LaunchSpec& spec) {
  spec.num_local = static_cast<int>(t.num_ranks);
  spec.max_restarts = static_cast<int>(t.restarts);
  spec.resume = t.resume;
  spec.linger = parse_duration(t.linger).value();
  spec.grace = parse_duration(t.grace).value();
  if (t.threads) spec.threads = static_cast<int>(*t.threads);
  spec.prefix = !t.no_prefix;
  spec.bind_cores = t.bind == "cores";
  take_place(t, spec);
  spec.run_id = run_id_of(spec);
}

// Those used to other launchers leave out the "--", and then the program's words are taken for flags of ours.
bool parse_before_separator(CLI::App& app, const std::vector<std::string>& flags, bool has_separator) {
  try {
    return parse_flags(app, flags);
  } catch (const Error& error) {
    if (has_separator) throw;
    ErrorText text = error.text();
    text.fix += "; the program stands after --: weft run -n 4 -- python3 train.py";
    throw Error(error.kind(), text);
  }
}

}  // namespace

std::optional<RunOptions> parse_run_options(const std::vector<std::string>& arguments) {
  RunOptions o;
  TypedRun t;
  auto app =
      make_app("run",
               "Run any program as several ranks, with the environment torchrun gives them (RANK, WORLD_SIZE, "
               "MASTER_ADDR, ...).\n"
               "When one fails the others are ended, and its error is shown last. No process is ever left behind.",
               "weft run -n 4 -- python3 train.py --epochs 3\n"
               "  weft run -n 8 --restarts 3 --resume -- weft train --save state --save-every 100\n"
               "  weft run -n 8 --hosts node0,node1 -- python3 train.py\n"
               "  weft run -n 8 --nnodes 2 --node-rank 0 --master node0:29500 -- python3 train.py\n"
               "Exit codes: that of the first rank to fail (128 + signal if one killed it), 128 + signal after Ctrl-C, "
               "2 wrong usage.");
  add_rank_flags(*app, t);
  add_output_flags(*app, t, o);
  add_hosts_flags(*app, t.hosts);
  add_host_flags(*app, t);
  const auto separator = std::ranges::find(arguments, "--");
  const bool has_separator = separator != arguments.end();
  if (!parse_before_separator(*app, {arguments.begin(), separator}, has_separator)) return std::nullopt;
  if (has_separator) o.launch.argv.assign(separator + 1, arguments.end());
  if (o.launch.argv.empty()) refuse("no program to run", "", "put it after --: weft run -n 4 -- python3 train.py");
  take_launch(t, o.launch);
  o.hosts = take_hosts(t.hosts, o.launch);
  if (o.hosts && t.master.empty()) o.hosts->launch.master_addr = launcher::address_of(o.hosts->hosts.front());
  check_json_folder(o.json_path);
  return o;
}

}  // namespace weft::cli
