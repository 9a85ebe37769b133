#include <httplib.h>
#include <netdb.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <csignal>
#include <cstring>
#include <list>
#include <thread>

#include "weft/base/clock.h"
#include "weft/base/fd.h"
#include "weft/base/text.h"
#include "weft/base/units.h"
#include "weft/monitor/live/http_impl.h"

namespace weft::detail {
namespace {

// Ready for `events` within the deadline; false at the deadline, on a stop, and when the client hung up.
bool wait_for(int fd, short events, int stop_fd, const Deadline& deadline) {
  pollfd both[2] = {{.fd = fd, .events = events, .revents = 0}, {.fd = stop_fd, .events = POLLIN, .revents = 0}};
  const int ready = static_cast<int>(retry_interrupted([&] { return ::poll(both, 2, deadline.poll_ms()); }));
  return ready > 0 && both[1].revents == 0 && (both[0].revents & events) != 0;
}

// One connection as cpp-httplib sees it, of a server or of a client. Reading has one deadline and one sum of bytes for
// all that comes, so that a peer that sends a byte a second is not waited for; a write waits as long as bytes move.
class Connection final : public httplib::Stream, public HttpStream {
 public:
  Connection(int fd, int stop_fd, const HttpLimits& limits)
      : fd_(fd), stop_fd_(stop_fd), limits_(limits), request_by_(Deadline::after(limits.request_s)) {}

  bool is_readable() const override { return true; }
  bool is_writable() const override { return is_open_; }
  socket_t socket() const override { return fd_; }
  void get_remote_ip_and_port(std::string&, int&) const override {}
  void get_local_ip_and_port(std::string&, int&) const override {}

  // cpp-httplib asks for one byte at a time.
  ssize_t read(char* into, size_t size) override {
    if (taken_ == buffer_.size() && !fill()) return -1;
    const size_t count = std::min(size, buffer_.size() - taken_);
    std::copy_n(buffer_.data() + taken_, count, into);
    taken_ += count;
    return static_cast<ssize_t>(count);
  }

  ssize_t write(const char* from, size_t size) override {
    for (size_t sent = 0; sent < size;) {
      const ssize_t now = ::send(fd_, from + sent, size - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (now > 0) {
        sent += static_cast<size_t>(now);
        continue;
      }
      const bool may_come = now < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
      is_open_ = may_come && can_write();
      if (!is_open_) return -1;
    }
    return static_cast<ssize_t>(size);
  }

  bool send(std::string_view text) override { return sink_->write(text.data(), text.size()) && is_open_; }

  bool wait(double seconds) override {
    const Deadline until = Deadline::after(seconds);
    // Nothing more is expected of the client: readable means that it hung up or talks out of turn.
    pollfd both[2] = {{.fd = fd_, .events = POLLRDHUP, .revents = 0}, {.fd = stop_fd_, .events = POLLIN, .revents = 0}};
    const auto ready = retry_interrupted([&] { return ::poll(both, 2, until.poll_ms()); });
    if (ready > 0 && both[0].revents == 0)
      last_by_ = Deadline::after(limits_.last_s);
    else if (ready > 0)
      is_open_ = false;
    return is_open_ && !last_by_;
  }

  bool is_last() const override { return is_open_ && last_by_.has_value(); }

  bool was_too_long() const { return total_ >= limits_.request_bytes; }
  bool was_too_slow() const { return request_by_.expired(); }

  void set_sink(httplib::DataSink* sink) { sink_ = sink; }

 private:
  bool can_write() const {
    if (last_by_) return wait_for(fd_, POLLOUT, -1, *last_by_);
    return wait_for(fd_, POLLOUT, stop_fd_, Deadline::after(limits_.write_s));
  }

  bool fill() {
    if (total_ >= limits_.request_bytes || !wait_for(fd_, POLLIN, stop_fd_, request_by_)) return false;
    buffer_.resize(4096);
    taken_ = 0;
    const ssize_t got = retry_interrupted([&] { return ::recv(fd_, buffer_.data(), buffer_.size(), MSG_DONTWAIT); });
    buffer_.resize(got > 0 ? static_cast<size_t>(got) : 0);
    total_ += buffer_.size();
    return got > 0;
  }

  const int fd_, stop_fd_;
  const HttpLimits& limits_;
  const Deadline request_by_;
  std::optional<Deadline> last_by_;  // once the server stops
  std::string buffer_;
  size_t taken_ = 0, total_ = 0;
  bool is_open_ = true;
  httplib::DataSink* sink_ = nullptr;
};

// cpp-httplib hands its handlers the request alone; which connection it came by stands here meanwhile.
thread_local Connection* current_connection = nullptr;

// The library's parser and writer without its accept loop.
class Protocol final : public httplib::Server {
 public:
  Protocol(HttpServer::Handle handle, int listen_fd) : handle_(std::move(handle)) {
    set_payload_max_length(1024);  // no request of ours has a body
    set_keep_alive_max_count(1);
    // Streams go on while this is a socket, and end when it is none.
    svr_sock_ = listen_fd;
    set_pre_routing_handler([this](const httplib::Request& request, httplib::Response& response) {
      answer(request, response);
      return HandlerResponse::Handled;
    });
  }

  void end_streams() { svr_sock_ = INVALID_SOCKET; }

  void serve(Connection& connection) {
    current_connection = &connection;
    bool closed = false;
    process_request(connection, true, closed, [](httplib::Request& request) {
      // Brotli at its default would cost seconds of a core that trains; pieces of files are nothing we serve.
      request.headers.erase("Accept-Encoding");
      request.headers.erase("Range");
    });
    current_connection = nullptr;
  }

 private:
  void answer(const httplib::Request& request, httplib::Response& response) const {
    HttpReply reply;
    try {
      reply = handle_(seen_as(request));
    } catch (const std::exception&) {
      reply = {.status = 500, .body = "weft could not answer this\n"};
    }
    response.status = reply.status;
    for (const auto& [name, value] : reply.headers) response.set_header(name, value);
    if (!reply.stream) {
      response.set_content(reply.body, reply.type);
      return;
    }
    Connection* connection = current_connection;
    response.set_chunked_content_provider(
        reply.type, [connection, stream = std::move(reply.stream)](size_t, httplib::DataSink& sink) {
          connection->set_sink(&sink);
          stream(*connection);
          sink.done();
          return true;
        });
  }

  static HttpRequest seen_as(const httplib::Request& request) {
    const auto header = [&request](const char* name) -> std::optional<std::string> {
      return request.has_header(name) ? std::optional(request.get_header_value(name)) : std::nullopt;
    };
    const auto parameter = [&request](const char* name) -> std::optional<std::string> {
      return request.has_param(name) ? std::optional(request.get_param_value(name)) : std::nullopt;
    };
    return {.method = request.method, .path = request.path, .header = header, .parameter = parameter};
  }

  const HttpServer::Handle handle_;
};

// cpp-httplib's constructor makes the whole process ignore SIGPIPE. Our writes raise none, and the process's own
// choice stays.
class KeepSigpipe {
 public:
  KeepSigpipe() { ::sigaction(SIGPIPE, nullptr, &before_); }
  ~KeepSigpipe() { ::sigaction(SIGPIPE, &before_, nullptr); }
  KeepSigpipe(const KeepSigpipe&) = delete;
  KeepSigpipe& operator=(const KeepSigpipe&) = delete;

 private:
  struct sigaction before_{};
};

std::unique_ptr<Protocol> make_protocol(HttpServer::Handle handle, int listen_fd) {
  const KeepSigpipe guard;
  return std::make_unique<Protocol>(std::move(handle), listen_fd);
}

std::string address_text(const std::string& host, int port) { return cat(host, ":", port); }

void set_port(sockaddr_storage& address, int port) {
  const in_port_t in_order = htons(static_cast<uint16_t>(port));
  if (address.ss_family == AF_INET6)
    reinterpret_cast<sockaddr_in6*>(&address)->sin6_port = in_order;
  else
    reinterpret_cast<sockaddr_in*>(&address)->sin_port = in_order;
}

UniqueFd listen_on(const ListenAddress& where, int port) {
  if (port < 0 || port > 65535)
    throw Error(ErrorKind::kInput,
                {.title = "the page cannot be served at that port",
                 .what = cat("the port is ", port, "; ports are 1 to 65535, and 0 means any free one"),
                 .where = where.host(),
                 .fix = ""});
  sockaddr_storage address = where.address();
  set_port(address, port);
  UniqueFd fd(::socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  // Without it the port of a server that ended a moment ago stays taken for a minute.
  if (fd) ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (!fd || ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), where.size()) != 0 ||
      ::listen(fd.get(), 128) != 0)
    throw IoError("listen for the page", address_text(where.host(), port), errno);
  return fd;
}

int bound_port(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  if (address.ss_family == AF_INET6) return ntohs(reinterpret_cast<sockaddr_in6*>(&address)->sin6_port);
  return ntohs(reinterpret_cast<sockaddr_in*>(&address)->sin_port);
}

// Threads started under it take no signal: those are for the training.
class AllSignalsBlocked {
 public:
  AllSignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~AllSignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  AllSignalsBlocked(const AllSignalsBlocked&) = delete;
  AllSignalsBlocked& operator=(const AllSignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

// The training goes first. Linux has a priority for each thread, and threads it starts inherit it.
void make_this_thread_lowest() { ::setpriority(PRIO_PROCESS, static_cast<id_t>(::syscall(SYS_gettid)), 19); }

constexpr std::string_view kTooMany =
    "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 2\r\nConnection: close\r\nContent-Type: text/plain\r\n"
    "Content-Length: 21\r\n\r\ntoo many connections\n";

}  // namespace

ListenAddress::ListenAddress(const std::string& host) : host_(host) {
  const addrinfo hints{.ai_flags = AI_PASSIVE, .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
  addrinfo* found = nullptr;
  if (const int code = ::getaddrinfo(host.c_str(), nullptr, &hints, &found); code != 0)
    throw Error(ErrorKind::kInput, {.title = "the page cannot be served there",
                                    .what = ::gai_strerror(code),
                                    .where = host,
                                    .fix = "give --host an address of this machine: 127.0.0.1, or 0.0.0.0 for all"});
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> list(found, ::freeaddrinfo);
  size_ = list->ai_addrlen;
  std::memcpy(&address_, list->ai_addr, size_);
}

bool ListenAddress::is_loopback() const {
  if (address_.ss_family == AF_INET)
    return ntohl(reinterpret_cast<const sockaddr_in*>(&address_)->sin_addr.s_addr) >> 24 == 127;
  const in6_addr& six = reinterpret_cast<const sockaddr_in6*>(&address_)->sin6_addr;
  return IN6_IS_ADDR_LOOPBACK(&six) || (IN6_IS_ADDR_V4MAPPED(&six) && six.s6_addr[12] == 127);
}

class HttpServer::Impl {
 public:
  Impl(const ListenAddress& address, int port, Handle handle, HttpLimits limits)
      : limits_(limits),
        listen_fd_(listen_on(address, port)),
        stop_fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        protocol_(make_protocol(std::move(handle), listen_fd_.get())),
        port_(bound_port(listen_fd_.get())) {
    if (!stop_fd_) throw IoError("make an eventfd", "", errno);
    const AllSignalsBlocked guard;
    acceptor_ = std::thread([this] { accept_all(); });
  }

  ~Impl() {
    protocol_->end_streams();
    const uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(stop_fd_.get(), &one, sizeof one);
    acceptor_.join();
    for (auto& worker : workers_) worker.thread.join();
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  int port() const { return port_; }

 private:
  struct Worker {
    std::thread thread;
    std::atomic<bool> is_done = false;
  };

  void accept_all() {
    make_this_thread_lowest();
    for (;;) {
      pollfd both[2] = {{.fd = listen_fd_.get(), .events = POLLIN, .revents = 0},
                        {.fd = stop_fd_.get(), .events = POLLIN, .revents = 0}};
      retry_interrupted([&] { return ::poll(both, 2, -1); });
      if (both[1].revents != 0) return;
      UniqueFd client(::accept4(listen_fd_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (client)
        take_in(std::move(client));
      else  // no descriptors left, as a rule: poll would say "ready" again at once
        wait_for(stop_fd_.get(), POLLIN, -1, Deadline::after(0.05));
    }
  }

  void take_in(UniqueFd client) {
    std::erase_if(workers_, [](Worker& worker) {
      if (!worker.is_done) return false;
      worker.thread.join();
      return true;
    });
    if (static_cast<int>(workers_.size()) >= limits_.max_connections) {
      turn_away(client.get());
      return;
    }
    Worker& worker = workers_.emplace_back();
    try {
      worker.thread = std::thread([this, &worker, fd = client.get()] { serve(UniqueFd(fd), worker); });
      client.release();
    } catch (const std::system_error&) {  // no more threads; the client sees its connection closed
      workers_.pop_back();
    }
  }

  static void turn_away(int fd) {
    [[maybe_unused]] const auto sent = ::send(fd, kTooMany.data(), kTooMany.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    linger(fd);
  }

  // Closing with bytes unread would reset the connection, and the client might never see our answer.
  static void linger(int fd) {
    ::shutdown(fd, SHUT_WR);
    char unread[4096];
    for (int i = 0; i < 16 && ::recv(fd, unread, sizeof unread, MSG_DONTWAIT) > 0;) ++i;
  }

  void serve(UniqueFd fd, Worker& worker) {
    try {
      Connection connection(fd.get(), stop_fd_.get(), limits_);
      protocol_->serve(connection);
      linger(fd.get());
    } catch (...) {  // NOLINT(bugprone-empty-catch): a page must never end a training
    }
    fd.reset();
    worker.is_done = true;
  }

  const HttpLimits limits_;
  const UniqueFd listen_fd_, stop_fd_;
  const std::unique_ptr<Protocol> protocol_;
  const int port_;
  std::list<Worker> workers_;  // of the acceptor's thread, until it has ended
  std::thread acceptor_;
};

HttpServer::HttpServer(const ListenAddress& address, int port, Handle handle, HttpLimits limits)
    : impl_(std::make_unique<Impl>(address, port, std::move(handle), limits)) {}
HttpServer::~HttpServer() = default;
int HttpServer::port() const { return impl_->port(); }

namespace {

// The library's client, which times each read and takes a body of any size, over our bounded connection.
class BoundedClient final : public httplib::ClientImpl {
 public:
  BoundedClient(const std::string& host, int port, HttpAnswerLimits limits)
      : ClientImpl(host, port), limits_{.request_s = limits.answer_s, .request_bytes = limits.answer_bytes} {
    set_connection_timeout(3);
    set_decompress(false);  // a small answer may unpack to a huge one
  }

  // Why the answer was given up, or what the library says.
  std::string trouble(httplib::Error error) const { return trouble_.empty() ? httplib::to_string(error) : trouble_; }

 private:
  bool process_socket(const Socket& socket, std::function<bool(httplib::Stream&)> talk) override {
    Connection connection(socket.sock, -1, limits_);
    if (talk(connection)) return true;
    if (connection.was_too_long())
      trouble_ = cat("it sends more than ", format_bytes(limits_.request_bytes));
    else if (connection.was_too_slow())
      trouble_ = cat("its answer was not whole after ", limits_.request_s, " s");
    return false;
  }

  const HttpLimits limits_;
  std::string trouble_;
};

}  // namespace

weft::Result<HttpAnswer> http_get(const std::string& host, int port, const std::string& path, const std::string& token,
                                  HttpAnswerLimits limits) {
  BoundedClient client(host, port, limits);
  httplib::Headers headers{{"Host", address_text(host, port)}, {"Accept-Encoding", "identity"}};
  if (!token.empty()) headers.emplace("Authorization", "Bearer " + token);
  const auto answer = client.Get(path, headers);
  if (answer) return HttpAnswer{.status = answer->status, .body = answer->body};
  return weft::Error(ErrorKind::kEnvironment, {.title = "no answer from the server of the run",
                                               .what = client.trouble(answer.error()),
                                               .where = address_text(host, port),
                                               .fix = "is `weft watch` or the training still running there?"});
}

}  // namespace weft::detail
