#include "weft/launcher/port.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "weft/base/error.h"
#include "weft/base/fd.h"
#include "weft/base/text.h"

namespace weft::launcher {
namespace {

UniqueFd tcp_socket() {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd) throw IoError("make a socket", "", errno);
  return fd;
}

// On all interfaces, as torch's store listens.
sockaddr_in any_address(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  return address;
}

int bind_to(const UniqueFd& fd, sockaddr_in& address) {
  return ::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address);
}

}  // namespace

int free_port() {
  const UniqueFd fd = tcp_socket();
  sockaddr_in address = any_address(0);
  socklen_t size = sizeof address;
  if (bind_to(fd, address) != 0 || ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    throw IoError("find a free port", "", errno);
  }
  return ntohs(address.sin_port);
}

void require_free_port(int port) {
  const UniqueFd fd = tcp_socket();
  // Connections of an earlier run that linger in TIME_WAIT do not stop torch, so they must not stop us.
  const int yes = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  sockaddr_in address = any_address(port);
  if (bind_to(fd, address) == 0) return;
  const int code = errno;
  throw Error(ErrorKind::kInput,
              {.title = cat("rank 0 cannot listen on port ", port),
               .what = std::strerror(code),
               .where = "",
               .fix = code == EADDRINUSE ? cat("another run may be using it (ss -ltnp 'sport = :", port,
                                               "'); choose another port, or on one host none at all")
                                         : "choose a port above 1023"});
}

}  // namespace weft::launcher
