// HTTP/1.1 as this room needs it, and the only place that knows cpp-httplib: a server with bounds on everything a
// stranger can use up, and a client for one GET.
//
// cpp-httplib parses requests and writes answers. Accepting, threads and sockets are ours, because the library queues
// every connection (each a file descriptor of the training process), waits on a client as long as it trickles, stops
// serving when a signal arrives, and changes the process's handling of SIGPIPE. Here: a thread a connection and never
// more than max_connections (beyond that 503 and close), one request a connection, a deadline for the whole request.
//
// Threads: `handle` is called from several at once. Failure: start throws Error; after that nothing does.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weft/base/error.h"

namespace weft::detail {

struct HttpRequest {
  std::string method, path;  // path: decoded, without the query
  std::function<std::optional<std::string>(const char*)> header = {}, parameter = {};
};

// The body of an answer that goes on, on the connection's own thread.
class HttpStream {
 public:
  virtual ~HttpStream() = default;
  // False: the client left or does not read, or the server stops. Nothing more can be sent.
  virtual bool send(std::string_view text) = 0;
  // Waits; false as above, and then at once.
  virtual bool wait(double seconds) = 0;
  // After a wait that gave false: the server stops and the client still listens. What is sent now is the last, and has
  // HttpLimits::last_s to go out, so that a client that does not read cannot hold up the end of a run.
  virtual bool is_last() const = 0;
};

struct HttpReply {
  int status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers = {};
  std::function<void(HttpStream&)> stream = {};  // instead of a body
};

struct HttpLimits {
  int max_connections = 64;
  double request_s = 5;  // until the whole request is there
  double write_s = 5;    // that a client may take no bytes
  double last_s = 0.2;   // for the last words of a stream, from the stop on
  size_t request_bytes = 32 << 10;
};

// Where to listen, looked up once: whether it is this machine alone must be judged by the very address that is bound. A
// name may begin with "127." and lead anywhere.
class ListenAddress {
 public:
  // Failure: Error(kInput) for a host that has no address.
  explicit ListenAddress(const std::string& host);

  bool is_loopback() const;
  const std::string& host() const { return host_; }
  const sockaddr_storage& address() const { return address_; }
  socklen_t size() const { return size_; }

 private:
  std::string host_;
  sockaddr_storage address_{};
  socklen_t size_ = 0;
};

class HttpServer {
 public:
  using Handle = std::function<HttpReply(const HttpRequest&)>;

  // Listens at once. Port 0: any free one. Failure: IoError with EADDRINUSE and so on; Error(kInput) for a port that is
  // none.
  HttpServer(const ListenAddress& address, int port, Handle handle, HttpLimits limits);
  // Ends every connection and waits for their threads.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  int port() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

struct HttpAnswer {
  int status = 0;
  std::string body;
};

// What a server may use up of ours.
struct HttpAnswerLimits {
  double answer_s = 10;  // until the whole answer is there, however it trickles
  size_t answer_bytes = 16 << 20;
};

// One GET; `token` goes into the Authorization header when not empty. Failure: Error(kEnvironment) when nobody answers,
// or not within the limits.
Result<HttpAnswer> http_get(const std::string& host, int port, const std::string& path, const std::string& token,
                            HttpAnswerLimits limits = {});

}  // namespace weft::detail
