// Where the state of a run comes from: its folder, or a server of it somewhere else. What `weft top` and `weft watch`
// take as their argument.
//
// Threads: one owner. Failure: open_state_source throws Error(kInput) for what is neither; read() throws
// Error(kEnvironment) while a server does not answer, and may be called again.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "weft/base/env.h"
#include "weft/monitor/live/run_state.h"

namespace weft {

class StateSource {
 public:
  StateSource() = default;
  virtual ~StateSource() = default;
  StateSource(const StateSource&) = delete;
  StateSource& operator=(const StateSource&) = delete;

  virtual LiveState read() = 0;
  virtual std::string name() const = 0;
};

struct ServerAddress {
  std::string host;
  int port = 0;
  std::string token;
};

// "HOST:PORT", or the address that `weft watch` prints, with or without its token. Nothing for other text.
std::optional<ServerAddress> parse_server_address(const std::string& text);

// What exists on the disk is a folder; `token` goes to a server.
std::unique_ptr<StateSource> open_state_source(Env& env, const std::string& text, const std::string& token);

}  // namespace weft
