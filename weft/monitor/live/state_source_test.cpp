#include "weft/monitor/live/state_source.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/temp_dir.h"
#include "weft/base/error.h"
#include "weft/base/text.h"
#include "weft/monitor/live/http_impl.h"
#include "weft/monitor/live/live_server.h"

namespace weft {
namespace {

TEST(ServerAddress, TakesWhatWatchPrints) {
  const auto plain = parse_server_address("node-a:6006");
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->host, "node-a");
  EXPECT_EQ(plain->port, 6006);
  const auto pasted = parse_server_address("http://10.0.0.7:6007/?token=3f2a");
  ASSERT_TRUE(pasted);
  EXPECT_EQ(pasted->host, "10.0.0.7");
  EXPECT_EQ(pasted->port, 6007);
  EXPECT_EQ(pasted->token, "3f2a");
  EXPECT_EQ(parse_server_address("[::1]:80")->host, "::1");
  for (const char* text : {"", "runs", "runs/mine", "a/b:80", ":80", "a:", "a:0", "a:70000", "a:8x", "https://a:80"})
    EXPECT_FALSE(parse_server_address(text)) << text;
}

TEST(StateSource, AFolderAndItsServerSayTheSame) {
  test::TempDir dir;
  std::ofstream(dir / "metrics.jsonl") << "{\"step\":7,\"loss\":2.5}\n";
  Env& env = Env::posix();
  const LiveServer server(env, dir.path().string(), {.port = 0, .token = "t"});
  const auto folder = open_state_source(env, dir.path().string(), ""),
             remote = open_state_source(env, cat("127.0.0.1:", server.port()), "t");
  EXPECT_EQ(folder->read().step, 7);
  EXPECT_EQ(remote->read().step, 7);
  EXPECT_EQ(remote->read().latest.get("loss"), 2.5);
  EXPECT_EQ(open_state_source(env, server.url(), "")->read().step, 7) << "the address as it is printed";
  EXPECT_THROW(open_state_source(env, cat("127.0.0.1:", server.port()), "wrong")->read(), Error);
}

TEST(StateSource, WhatAServerSaysInsteadOfAStateCannotDriveTheTerminal) {
  for (const int status : {200, 500}) {
    const detail::HttpReply reply = {.status = status,
                                     .body =
                                         "\033]0;owned\a\xC2\x9B"
                                         "2J"};
    const detail::HttpServer server(detail::ListenAddress("127.0.0.1"), 0,
                                    [&](const detail::HttpRequest&) { return reply; }, {});
    try {
      open_state_source(Env::posix(), cat("127.0.0.1:", server.port()), "")->read();
      ADD_FAILURE();
    } catch (const Error& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find("owned"), std::string::npos) << text;
      for (const char* bad : {"\033", "\a", "\xC2\x9B"}) EXPECT_EQ(text.find(bad), std::string::npos) << status;
    }
  }
}

TEST(StateSource, NeitherFolderNorServer) {
  Env& env = Env::posix();
  EXPECT_THROW(open_state_source(env, "no/such/folder", ""), Error);
  test::TempDir dir;
  int port = 0;
  {
    std::ofstream(dir / "log.txt") << "x\n";
    port = LiveServer(env, dir.path().string(), {.port = 0}).port();
  }
  EXPECT_THROW(open_state_source(env, cat("127.0.0.1:", port), "")->read(), Error) << "nobody is there any more";
}

}  // namespace
}  // namespace weft
