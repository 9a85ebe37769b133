#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <thread>

#include "weft/base/clock.h"
#include "weft/base/fd.h"
#include "weft/base/text.h"
#include "weft/monitor/live/http_impl.h"

namespace weft::detail {
namespace {

const ListenAddress kHere("127.0.0.1");

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

// Takes one connection and does with it what a stranger would, until the client is gone or the test ends.
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
      while (!over_ && act_(fd.get())) {
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

bool send_text(int fd, std::string_view text) {
  return ::send(fd, text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size());
}

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
    bool begun = false;
    const Stranger stranger([&](int fd) { return send_text(fd, std::exchange(begun, true) ? piece : begin); });
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
