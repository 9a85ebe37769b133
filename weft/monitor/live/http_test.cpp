#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <latch>
#include <thread>

#include "weft/base/clock.h"
#include "weft/base/fd.h"
#include "weft/base/text.h"
#include "weft/monitor/live/http_impl.h"
#include "weft/monitor/live/test_sockets_impl.h"

namespace weft::detail {
namespace {

const ListenAddress kHere("127.0.0.1");

void ask(const UniqueFd& fd) {
  constexpr std::string_view kRequest = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
  ASSERT_EQ(::send(fd.get(), kRequest.data(), kRequest.size(), MSG_NOSIGNAL), static_cast<ssize_t>(kRequest.size()));
}

// A server whose one stream waits until it may not any more, and then says `last`.
class StreamServer {
 public:
  explicit StreamServer(std::string last) : last_(std::move(last)) {}
  int port() const { return server_->port(); }
  void wait_until_streaming() { streaming_.wait(); }
  double stop_s() {
    const Stopwatch watch;
    server_.reset();
    return watch.elapsed_s();
  }
  bool was_last = false, was_sent = false;

 private:
  HttpReply answer() {
    return {.type = "text/plain", .body = "", .stream = [this](HttpStream& stream) {
              stream.send("first\n");
              streaming_.count_down();
              while (stream.wait(60)) {
              }
              was_last = stream.is_last();
              was_sent = was_last && stream.send(last_);
            }};
  }
  const std::string last_;
  std::latch streaming_{1};
  std::unique_ptr<HttpServer> server_ =
      std::make_unique<HttpServer>(kHere, 0, [this](const HttpRequest&) { return answer(); }, HttpLimits{});
};

TEST(HttpStream, HasTheLastWordWhenTheServerStops) {
  StreamServer server("last\n");
  const UniqueFd client = connect_to(server.port());
  ask(client);
  server.wait_until_streaming();
  server.stop_s();
  EXPECT_TRUE(server.was_last && server.was_sent);
  const std::string all = receive(client);
  EXPECT_NE(all.find("last\n"), std::string::npos) << all;
}

TEST(HttpStream, AClientThatDoesNotReadHoldsNobodyUp) {
  StreamServer server(std::string(16 << 20, 'x'));  // more than the kernel keeps for a connection
  const UniqueFd client = connect_to(server.port(), 4096);
  ask(client);
  server.wait_until_streaming();
  EXPECT_LT(server.stop_s(), 3);  // 0.2 s and a busy machine; a client that is waited for costs five
  EXPECT_TRUE(server.was_last);
  EXPECT_FALSE(server.was_sent);
}

TEST(ListenAddress, IsJudgedByWhereItLeadsNotByItsSpelling) {
  for (const char* host : {"127.0.0.1", "127.8.9.10", "localhost", "::1", "0:0:0:0:0:0:0:1", "2130706433", "0x7f000001",
                           "::ffff:127.0.0.1"})
    EXPECT_TRUE(ListenAddress(host).is_loopback()) << host;
  for (const char* host : {"0.0.0.0", "::", "192.0.2.1", "10.127.0.1", "::ffff:10.0.0.1"})
    EXPECT_FALSE(ListenAddress(host).is_loopback()) << host;
  EXPECT_THROW(ListenAddress("127.foo.invalid"), Error) << "a name, and nobody's";
}

TEST(HttpServer, APortThatIsNoneIsRefused) {
  for (const int port : {-1, 65536, 71542}) {
    try {
      const HttpServer server(kHere, port, [](const HttpRequest&) { return HttpReply{}; }, HttpLimits{});
      ADD_FAILURE() << "served at " << server.port();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInput);
      EXPECT_NE(error.text().what.find(cat("the port is ", port, ";")), std::string::npos) << error.what();
    }
  }
}

// Takes one connection and does with it what a stranger would, until the client is gone, the test ends, or ten seconds
// have passed: a client without bounds must fail the test, not hang it.
class Stranger {
 public:
  using Act = std::function<bool(int fd)>;  // false: the client is gone

  explicit Stranger(Act act) : listen_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)), act_(std::move(act)) {
    sockaddr_in address{.sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
    ::bind(listen_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address);
    ::listen(listen_.get(), 1);
    socklen_t size = sizeof address;
    ::getsockname(listen_.get(), reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] {
      const UniqueFd fd(::accept4(listen_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      const Deadline until = Deadline::after(10);
      while (!over_ && !until.expired() && act_(fd.get())) {
      }
    });
  }
  ~Stranger() {
    over_ = true;
    thread_.join();
  }
  Stranger(const Stranger&) = delete;
  Stranger& operator=(const Stranger&) = delete;
  int port() const { return port_; }

 private:
  const UniqueFd listen_;
  const Act act_;
  int port_ = 0;
  std::atomic<bool> over_ = false;
  std::thread thread_;
};

std::string trouble_with(const Stranger& stranger, HttpAnswerLimits limits) {
  const auto answer = http_get("127.0.0.1", stranger.port(), "/api/state", "", limits);
  return answer.ok() ? "" : answer.error().text().what;
}

TEST(HttpGet, AServerThatDripsIsGivenUp) {
  for (const char* begin : {"HTTP/1.1 200 OK\r\nX", "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"}) {
    bool begun = false;
    const Stranger stranger([&](int fd) {
      if (!std::exchange(begun, true)) return send_text(fd, begin);
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      return send_text(fd, "x");
    });
    const Stopwatch watch;
    EXPECT_EQ(trouble_with(stranger, {.answer_s = 0.3}), "its answer was not whole after 0.3 s");
    EXPECT_LT(watch.elapsed_s(), 5);
  }
}

TEST(HttpGet, AServerThatFloodsIsGivenUp) {
  const std::string piece(64 << 10, 'x');
  for (const char* begin : {"HTTP/1.1 200 OK\r\nContent-Length: 1000000000000\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n"}) {
    int sent = 0;
    const Stranger stranger(
        [&](int fd) { return sent < 1024 && send_text(fd, sent++ > 0 ? piece : begin); });  // 64 MiB will do
    EXPECT_EQ(trouble_with(stranger, {.answer_bytes = 1 << 20}), "it sends more than 1.0 MiB");
  }
}

TEST(HttpGet, NothingIsUnpacked) {
  const Stranger stranger([](int fd) {
    send_text(fd, "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\n\x1f\x8bzz");
    return false;
  });
  auto answer = http_get("127.0.0.1", stranger.port(), "/", "");
  ASSERT_TRUE(answer.ok()) << answer.error().what();
  EXPECT_EQ(answer.value().body, "\x1f\x8bzz");
}

}  // namespace
}  // namespace weft::detail
