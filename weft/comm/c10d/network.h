// The few things about addresses that c10d leaves to its caller, or says with a page of its own source lines: whether a
// name resolves, whether a port is free, whether somebody listens there yet, and which of our addresses leads to it.
//
// Threads: free functions, any thread. Failure: Error(kInput) for a name, a port or an interface that cannot be right;
// Error(kEnvironment) for a listener that does not come.
#pragma once

#include <string>

#include "weft/base/clock.h"
#include "weft/base/fd.h"

namespace weft::comm {

struct Endpoint {
  std::string host;  // a name or an address
  int port = 0;
};

// "10.0.0.1:29500", "[::1]:29500".
std::string to_text(const Endpoint& endpoint);

// A socket that listens on all our addresses. Port 0: one that is free; port_of() tells which.
UniqueFd listen_on(int port);
int port_of(int socket);

// Returns when somebody accepts connections there. Names that the resolver cannot look up just now are asked again.
void await_listener(const Endpoint& endpoint, Deadline deadline);

// Our own address, in digits, on the way to `endpoint`; nothing is sent. "" when there is no way.
std::string address_towards(const Endpoint& endpoint);
// The first address, in digits, of an interface that is up and no loopback; "" when there is none.
std::string outward_address();
bool is_loopback(const std::string& address);

}  // namespace weft::comm
