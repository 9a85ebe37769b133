#include <gtest/gtest.h>

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

}  // namespace
}  // namespace weft::detail
