#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>

#include "weft/base/env.h"
#include "weft/base/error.h"
#include "weft/base/text.h"
#include "weft/cli/front/command.h"
#include "weft/cli/front/flags.h"
#include "weft/cli/front/top.h"
#include "weft/monitor/json_text.h"
#include "weft/monitor/live/live_server.h"
#include "weft/monitor/live/run_view.h"
#include "weft/monitor/terminal.h"

namespace weft::cli {
namespace {

struct WatchOptions {
  std::string run, host = "127.0.0.1", token;
  std::optional<int64_t> port;
  TopOptions top;
};

// The server's threads take no signals; this one waits for the one that ends it.
void wait_for_end() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&set, number);
  int got = 0;
  sigwait(&set, &got);
}

void block_ending_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&set, number);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

void say_where(const LiveServer& server, const std::string& folder, const WatchOptions& options, int wanted_port) {
  if (options.top.json) {
    std::string out = "{\"schema\":1,\"url\":";
    append_json_string(out, server.url());
    out += ",\"folder\":";
    append_json_string(out, folder);
    std::printf("%s\n", cat(out, ",\"port\":", server.port(), ",\"pid\":", ::getpid(), "}").c_str());
  } else {
    if (wanted_port != 0 && server.port() != wanted_port)
      std::printf("port %d is in use, so it is %d\n", wanted_port, server.port());
    std::printf("%s is at %s\n", printable(folder, {}).c_str(), server.url().c_str());
    if (!server.token().empty())
      std::printf("whoever has this address can see the run; for Prometheus: Authorization: Bearer %s\n",
                  server.token().c_str());
    std::printf("Ctrl-C ends it\n");
  }
  std::fflush(stdout);
}

int serve(const WatchOptions& options) {
  const std::string folder = find_run_folder(Env::posix(), options.run);
  constexpr int kUsualPort = 6006;
  const int port = static_cast<int>(options.port.value_or(kUsualPort));
  block_ending_signals();
  const LiveServer server(Env::posix(), folder, {.host = options.host, .port = port, .token = options.token});
  say_where(server, folder, options, port);
  wait_for_end();
  return 0;
}

// What a browser can open of a server that runs already. Not on standard output: that is the run's state.
std::string say_page(const ServerAddress& server) {
  const std::string host = server.host.find(':') == std::string::npos ? server.host : cat("[", server.host, "]");
  const std::string page = cat("http://", host, ":", server.port, "/");
  const std::string with_token = cat(page, server.token.empty() ? "" : cat("?token=", server.token));
  std::fprintf(stderr, "in a browser: %s%s\n", printable(with_token, {}).c_str(),
               server.token.empty() ? " (with ?token=... behind it where the server wants a token)" : "");
  return page;
}

int show_server(WatchOptions options, ServerAddress server) {
  if (!options.token.empty()) server.token = options.token;
  if (!options.top.once && !options.top.json) options.top.page = say_page(server);
  const auto source = open_state_source(Env::posix(), options.run, options.token);
  return show_top(*source, options.top);
}

}  // namespace

int run_watch(const Arguments& arguments) {
  WatchOptions options;
  auto app =
      make_app("watch",
               "Serve the live page of a run for a browser, until Ctrl-C: curves, targets, ranks, log; /metrics is\n"
               "for Prometheus. Only this machine can open it, unless --host says otherwise; then a token is needed.\n"
               "With HOST:PORT, say the address to open in a browser, and show in the terminal what such a server\n"
               "says, as `weft top` does. Where the server wants a token, both need it.",
               "weft watch runs/mine\n"
               "  weft watch runs --host 0.0.0.0        the newest run there, for the network, with a token\n"
               "  weft watch node-a:6006 --token 3f...   a run that is served there already\n"
               "Exit codes: 0 fine, 1 no port is free or nobody answers, 2 no run there.");
  app->add_option("RUN", options.run, "folder of a run, folder of runs (the newest), or HOST:PORT of a server")
      ->required()
      ->type_name("");
  add_int(*app, "--port", options.port, 0, 65535, "port to serve at, or the next free one; 0: any (default: 6006)");
  app->add_option("--host", options.host, "address to serve at; 0.0.0.0: the whole network")
      ->capture_default_str()
      ->type_name("ADDRESS");
  app->add_option("--token", options.token, "what a browser has to show (default: made where --host needs one)")
      ->type_name("TEXT");
  app->add_flag("--once", options.top.once, "serve nothing: show the state once and leave");
  app->add_flag("--json", options.top.json, "print where it serves, or with --once the state, as JSON");
  if (!parse_flags(*app, arguments)) return 0;
  Env& env = Env::posix();
  const auto server = env.stat(options.run) ? std::nullopt : parse_server_address(options.run);
  if (server) return show_server(options, *server);
  if (!options.top.once) return serve(options);
  const auto source = open_state_source(env, options.run, options.token);
  return show_top(*source, options.top);
}

}  // namespace weft::cli
