#include "weft/launcher/port.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "weft/base/error.h"
#include "weft/base/fd.h"
#include "weft/base/text.h"

namespace weft::launcher {
namespace {

TEST(Port, AFreeOneIsFree) {
  const int port = free_port();
  EXPECT_GT(port, 1023);
  EXPECT_LT(port, 65536);
  EXPECT_NO_THROW(require_free_port(port));
}

TEST(Port, OneThatIsListenedOnIsRefused) {
  const UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ASSERT_EQ(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(::listen(listener.get(), 1), 0);
  ASSERT_EQ(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  const int port = ntohs(address.sin_port);
  try {
    require_free_port(port);
    FAIL() << port << " was taken for free";
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), 2);
    EXPECT_EQ(error.text().title, cat("rank 0 cannot listen on port ", port));
    EXPECT_NE(error.text().fix.find("choose another port"), std::string::npos);
  }
}

}  // namespace
}  // namespace weft::launcher
