// Serves the live page of one run over HTTP: from `weft watch`, or from rank 0 of the training itself.
//
//   LiveServer server(Env::posix(), "runs/mine", {.port = 6006});
//   log_info("the run can be watched at ", server.url());
//
// Everything it shows comes from the run folder (docs/watching.md), so it needs nothing of the training but to be kept.
// Its threads run at the lowest priority, take no signals, and hold no lock that the training takes; the folder is read
// only while somebody looks.
//
// Without a token it listens on this machine alone. For any other address a token is required, and made where none is
// given.
//
// Threads: construct and destroy from one; url() from any. Failure: the constructor throws Error; after that nothing
// does, and no signal is raised.
#pragma once

#include <memory>
#include <string>

#include "weft/base/env.h"

namespace weft {

struct LiveServerOptions {
  std::string host = "127.0.0.1";  // a name or an address of this machine
  int port = 6006;                 // 0: any
  int num_ports = 16;              // tried one after the other while a port is in use; 1: this one or none
  std::string token = {};          // empty: none on this machine, a random one elsewhere
  bool announce = false;  // write dashboard.json into the run folder while serving; with a token for its owner alone
  int max_event_clients = 16;  // pages that may be open at a time
};

class LiveServer {
 public:
  LiveServer(Env& env, const std::string& folder, LiveServerOptions options = {});
  ~LiveServer();
  LiveServer(const LiveServer&) = delete;
  LiveServer& operator=(const LiveServer&) = delete;

  // "http://127.0.0.1:6006/", with ?token=... where one is needed.
  std::string url() const;
  // The same without the token.
  std::string address() const;
  int port() const;
  const std::string& token() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft
