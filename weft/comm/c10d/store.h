// Small values shared by the ranks of a run, wherever they are: how they find each other, and how they learn of a loss.
//
//   Store store = Store::tcp({"10.0.0.1", 29500}, rank == 0, Deadline::after(60.0));
//   store.set("greeting", "hello");
//   store.get("greeting", Deadline::after(10.0));
//
// The values lie with one process (the server); the others talk to it over TCP, in c10d's protocol, so that a server
// that torchrun started will do. in_process() is for ranks that are threads.
//
// Ownership: a handle; copies share the connection, and the server ends with the last handle of the process that has
// it. Threads: any. Failure: every call ends, by its own limit if nothing else; StoreLost when the server does not
// answer, and from then on always.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "weft/base/clock.h"
#include "weft/base/error.h"
#include "weft/comm/c10d/network.h"

namespace weft::comm {

class StoreLost : public Error {
  using Error::Error;
};

class Store {
 public:
  // Port 0 of a server: a free one. A client waits until the deadline for the server to come.
  static Store tcp(const Endpoint& endpoint, bool is_server, Deadline deadline);
  static Store in_process();

  // When it returns, everyone sees it.
  void set(const std::string& key, const std::string& value) const;
  // Waits for the key; an Error naming it at the deadline.
  std::string get(const std::string& key, Deadline deadline) const;
  std::optional<std::string> find(const std::string& key) const;
  // Requires: all of them have been set.
  std::vector<std::string> get_all(const std::vector<std::string>& keys) const;
  // Sets `desired` where the key has `expected` ("": or is absent), in one step; the value it has then.
  std::string compare_set(const std::string& key, const std::string& expected, const std::string& desired) const;
  int64_t add(const std::string& key, int64_t delta) const;

  Store with_prefix(const std::string& prefix) const;
  // The longest that one exchange with the server may take before it counts as lost; 10 s unless told.
  Store with_limit(double seconds) const;

  // Where the server is; port 0 when it is this process itself.
  const Endpoint& endpoint() const;
  bool is_server() const;
  // An address of this host, in digits, that the other ranks can reach.
  std::string own_address() const;

 private:
  class Impl;
  Store(std::shared_ptr<Impl> impl, std::string prefix, double limit_s)
      : impl_(std::move(impl)), prefix_(std::move(prefix)), limit_s_(limit_s) {}

  std::shared_ptr<Impl> impl_;
  std::string prefix_;
  double limit_s_;
};

}  // namespace weft::comm
