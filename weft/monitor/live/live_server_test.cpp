#include "weft/monitor/live/live_server.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <csignal>
#include <fstream>
#include <thread>

#include "tests/support/temp_dir.h"
#include "weft/base/error.h"
#include "weft/base/fd.h"
#include "weft/base/text.h"
#include "weft/monitor/live/test_sockets_impl.h"

namespace weft {
namespace {

using detail::connect_to, detail::receive, detail::send_text;

std::string get(int port, const std::string& path, const std::string& extra = "") {
  const UniqueFd fd = connect_to(port);
  send_text(fd.get(), cat("GET ", path, " HTTP/1.1\r\nHost: localhost\r\n", extra, "\r\n"));
  return receive(fd);
}

class Server : public testing::Test {
 protected:
  Server() { std::ofstream(dir_ / "metrics.jsonl") << "{\"step\":7,\"loss\":2.5}\n"; }
  std::string folder() const { return dir_.path().string(); }
  test::TempDir dir_;
};

TEST_F(Server, ServesAndEnds) {
  int port = 0;
  {
    const LiveServer server(Env::posix(), folder(), {.port = 0});
    port = server.port();
    EXPECT_EQ(server.url(), cat("http://127.0.0.1:", port, "/"));
    EXPECT_TRUE(get(port, "/api/state").starts_with("HTTP/1.1 200"));
    EXPECT_NE(get(port, "/metrics").find("\nweft_step 7\n"), std::string::npos);
    EXPECT_NE(get(port, "/").find("weft live"), std::string::npos);
  }
  EXPECT_FALSE(connect_to(port)) << "the port is free again";
}

TEST_F(Server, OpenConnectionsDoNotKeepItFromEnding) {
  auto server = std::make_unique<LiveServer>(Env::posix(), folder(), LiveServerOptions{.port = 0});
  const UniqueFd silent = connect_to(server->port()), half = connect_to(server->port()),
                 events = connect_to(server->port());
  send_text(half.get(), "GET / HTT");
  send_text(events.get(), "GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_NE(receive(events, "event: state").find("event: state"), std::string::npos);
  server.reset();
  EXPECT_EQ(receive(silent), "");
}

TEST_F(Server, APortInUseMovesItToTheNext) {
  const LiveServer first(Env::posix(), folder(), {.port = 0});
  const LiveServer second(Env::posix(), folder(), {.port = first.port()});
  EXPECT_GT(second.port(), first.port());
  EXPECT_LE(second.port(), first.port() + 15);
  EXPECT_THROW(LiveServer(Env::posix(), folder(), {.port = first.port(), .num_ports = 1}), IoError);
}

TEST_F(Server, BeyondThisMachineItHasAToken) {
  const LiveServer server(Env::posix(), folder(), {.host = "0.0.0.0", .port = 0});
  EXPECT_EQ(server.token().size(), 32u);
  EXPECT_TRUE(server.url().ends_with("?token=" + server.token()));
  EXPECT_TRUE(get(server.port(), "/api/state").starts_with("HTTP/1.1 401"));
  EXPECT_TRUE(get(server.port(), "/api/state", cat("Authorization: Bearer ", server.token(), "\r\n"))
                  .starts_with("HTTP/1.1 200"));
}

TEST_F(Server, WhetherItNeedsATokenGoesByTheAddressNotByItsSpelling) {
  EXPECT_EQ(LiveServer(Env::posix(), folder(), {.host = "2130706433", .port = 0}).token(), "") << "is 127.0.0.1";
  EXPECT_EQ(LiveServer(Env::posix(), folder(), {.host = "0", .port = 0}).token().size(), 32u) << "is 0.0.0.0";
  EXPECT_THROW(LiveServer(Env::posix(), folder(), {.host = "127.foo.invalid", .port = 0}), Error);
}

TEST_F(Server, AnAddressThatIsNotOursIsRefused) {
  EXPECT_THROW(LiveServer(Env::posix(), folder(), {.host = "no.such.host.invalid", .port = 0}), Error);
  EXPECT_THROW(LiveServer(Env::posix(), folder(), {.host = "192.0.2.1", .port = 0}), Error);
}

TEST_F(Server, LeavesTheSignalsOfTheProcessAlone) {
  struct sigaction before{}, after{};
  ::signal(SIGPIPE, SIG_DFL);
  ::sigaction(SIGPIPE, nullptr, &before);
  const LiveServer server(Env::posix(), folder(), {.port = 0});
  for (int i = 0; i < 20; ++i) {  // whoever leaves before the answer must not raise SIGPIPE
    const UniqueFd fd = connect_to(server.port());
    const linger at_once{.l_onoff = 1, .l_linger = 0};
    ::setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    send_text(fd.get(), "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
  }
  EXPECT_TRUE(get(server.port(), "/api/state").starts_with("HTTP/1.1 200"));
  ::sigaction(SIGPIPE, nullptr, &after);
  EXPECT_EQ(before.sa_handler, after.sa_handler);
}

TEST_F(Server, AnnouncesItselfWhileItServes) {
  const std::string path = dir_ / "dashboard.json";
  {
    const LiveServer server(Env::posix(), folder(), {.port = 0, .announce = true});
    EXPECT_NE(read_file(Env::posix(), path, 1 << 10).find(server.url()), std::string::npos);
  }
  EXPECT_FALSE(Env::posix().stat(path));
}

TEST_F(Server, ManyAtOnceAreAnsweredOrTurnedAway) {
  const LiveServer server(Env::posix(), folder(), {.port = 0});
  std::vector<std::thread> threads;
  std::atomic<int> answered = 0, other = 0;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&] {
      for (int j = 0; j < 25; ++j) {
        const std::string reply = get(server.port(), "/api/state");
        ++(reply.starts_with("HTTP/1.1 200") || reply.starts_with("HTTP/1.1 503") ? answered : other);
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(answered, 200);
  EXPECT_EQ(other, 0);
}

}  // namespace
}  // namespace weft
