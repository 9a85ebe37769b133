// For this room's tests: the other end of a server's connections.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "weft/base/fd.h"

namespace weft::detail {

// A connection to this port of this host; an empty one when it is refused.
inline UniqueFd connect_to(int port, int receive_bytes = 0) {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (receive_bytes > 0) ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof receive_bytes);
  sockaddr_in address{.sin_family = AF_INET,
                      .sin_port = htons(static_cast<uint16_t>(port)),
                      .sin_addr = {htonl(INADDR_LOOPBACK)},
                      .sin_zero = {}};
  if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) return UniqueFd();
  return fd;
}

inline bool send_text(int fd, std::string_view text) {
  return ::send(fd, text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size());
}

// Up to the end of the connection, or until `until` was seen.
inline std::string receive(const UniqueFd& fd, const std::string& until = "") {
  std::string all;
  char piece[4096];
  for (ssize_t got = 0; (got = ::recv(fd.get(), piece, sizeof piece, 0)) > 0;) {
    all.append(piece, static_cast<size_t>(got));
    if (!until.empty() && all.find(until) != std::string::npos) break;
  }
  return all;
}

}  // namespace weft::detail
