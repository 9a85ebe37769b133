#include "weft/comm/c10d/network.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <thread>

#include "weft/base/error.h"
#include "weft/base/text.h"

namespace weft::comm {
namespace {

constexpr double kResolverPatienceS = 3;
constexpr int kConnectMs = 2000;
constexpr std::chrono::milliseconds kRetry{50};

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

// The addresses, or getaddrinfo's code.
int look_up(const Endpoint& endpoint, int socket_type, Addresses& into) {
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = socket_type;
  addrinfo* found = nullptr;
  const int code = ::getaddrinfo(endpoint.host.c_str(), std::to_string(endpoint.port).c_str(), &hints, &found);
  into = Addresses(code == 0 ? found : nullptr, &::freeaddrinfo);
  return code;
}

Addresses resolve(const Endpoint& endpoint, Deadline deadline) {
  Addresses addresses(nullptr, &::freeaddrinfo);
  const Deadline patience = Deadline::after(kResolverPatienceS);
  int code = look_up(endpoint, SOCK_STREAM, addresses);
  while (code == EAI_AGAIN && !deadline.expired() && !patience.expired()) {
    std::this_thread::sleep_for(kRetry);
    code = look_up(endpoint, SOCK_STREAM, addresses);
  }
  if (code == 0) return addresses;
  throw Error(ErrorKind::kInput, {.title = cat("the host '", endpoint.host, "' cannot be found"),
                                  .what = cat("looking it up: ", ::gai_strerror(code)),
                                  .fix = "give rank 0's address in digits, or a name that every host can look up"});
}

UniqueFd socket_for(const addrinfo& address) {
  return UniqueFd(::socket(address.ai_family, address.ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, address.ai_protocol));
}

// 0 when somebody accepted, the errno otherwise.
int try_connect(const addrinfo& address, Deadline deadline) {
  const UniqueFd fd = socket_for(address);
  if (!fd) return errno;
  if (::connect(fd.get(), address.ai_addr, address.ai_addrlen) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  pollfd entry{fd.get(), POLLOUT, 0};
  const int patience_ms = deadline.is_never() ? kConnectMs : std::min(deadline.poll_ms(), kConnectMs);
  if (::poll(&entry, 1, patience_ms) <= 0) return ETIMEDOUT;
  int code = 0;
  socklen_t size = sizeof code;
  if (::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &code, &size) != 0) return errno;
  return code;
}

std::string digits_of(const sockaddr* address, socklen_t size) {
  char text[NI_MAXHOST] = {};
  if (::getnameinfo(address, size, text, sizeof text, nullptr, 0, NI_NUMERICHOST) != 0) return "";
  return text;
}

socklen_t size_of(const sockaddr* address) {
  return address->sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
}

[[noreturn]] void throw_cannot_listen(int port, int code) {
  if (code == EADDRINUSE)
    throw Error(ErrorKind::kInput,
                {.title = cat("port ", port, " is in use on this host"),
                 .what = "another program, or another run, listens there",
                 .fix = cat("give this run another port, or see who has it: ss -ltnp 'sport = :", port, "'")});
  if (code == EACCES)
    throw Error(ErrorKind::kInput,
                {.title = cat("port ", port, " is not for ordinary users"), .fix = "give a port above 1023"});
  throw IoError("listen on a port", std::to_string(port), code);
}

// Listens, or says why not. IPv6 sockets take IPv4 callers too; a kernel without IPv6 has only the other kind.
int listen_once(int family, int port, UniqueFd& into) {
  UniqueFd fd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd) return errno;
  const int on = 1, off = 0;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in6 six = {};
  six.sin6_family = AF_INET6;
  six.sin6_port = htons(static_cast<uint16_t>(port));
  sockaddr_in four = {};
  four.sin_family = AF_INET;
  four.sin_port = six.sin6_port;
  if (family == AF_INET6) ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  const auto* address = family == AF_INET6 ? reinterpret_cast<const sockaddr*>(&six)    // NOLINT(*-reinterpret-cast)
                                           : reinterpret_cast<const sockaddr*>(&four);  // NOLINT(*-reinterpret-cast)
  if (::bind(fd.get(), address, size_of(address)) != 0) return errno;
  if (::listen(fd.get(), SOMAXCONN) != 0) return errno;
  into = std::move(fd);
  return 0;
}

}  // namespace

std::string to_text(const Endpoint& endpoint) {
  const bool is_v6 = endpoint.host.find(':') != std::string::npos;
  return is_v6 ? cat("[", endpoint.host, "]:", endpoint.port) : cat(endpoint.host, ":", endpoint.port);
}

UniqueFd listen_on(int port) {
  if (port < 0 || port > 65535)
    throw Error(ErrorKind::kInput, {.title = cat(port, " is no port"), .fix = "give a port from 1024 to 65535"});
  UniqueFd fd;
  int code = listen_once(AF_INET6, port, fd);
  if (code == EAFNOSUPPORT || code == EADDRNOTAVAIL) code = listen_once(AF_INET, port, fd);
  if (code != 0) throw_cannot_listen(port, code);
  return fd;
}

int port_of(int socket) {
  sockaddr_storage address = {};
  socklen_t size = sizeof address;
  auto* plain = reinterpret_cast<sockaddr*>(&address);  // NOLINT(*-reinterpret-cast): the sockets API
  if (::getsockname(socket, plain, &size) != 0) throw IoError("ask for a socket's port", "", errno);
  const bool is_v6 = address.ss_family == AF_INET6;
  return ntohs(is_v6 ? reinterpret_cast<const sockaddr_in6*>(plain)->sin6_port  // NOLINT(*-reinterpret-cast)
                     : reinterpret_cast<const sockaddr_in*>(plain)->sin_port);  // NOLINT(*-reinterpret-cast)
}

void await_listener(const Endpoint& endpoint, Deadline deadline) {
  const Addresses addresses = resolve(endpoint, deadline);
  const Stopwatch watch;
  int code = 0;
  do {
    for (const addrinfo* one = addresses.get(); one != nullptr; one = one->ai_next) {
      code = try_connect(*one, deadline);
      if (code == 0) return;
    }
    std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(deadline.remaining(), kRetry));
  } while (!deadline.expired());
  throw Error(
      ErrorKind::kEnvironment,
      {.title = cat("nobody listens at ", to_text(endpoint)),
       .what = cat("tried for ", watch.elapsed_s(), " s; the last answer: ", ::strerror(code)),
       .fix = "see that rank 0 runs on that host and was given the same port, and that no firewall is between"});
}

std::string address_towards(const Endpoint& endpoint) {
  Addresses addresses(nullptr, &::freeaddrinfo);
  if (look_up(endpoint, SOCK_DGRAM, addresses) != 0) return "";
  for (const addrinfo* one = addresses.get(); one != nullptr; one = one->ai_next) {
    const UniqueFd fd = socket_for(*one);
    if (!fd || ::connect(fd.get(), one->ai_addr, one->ai_addrlen) != 0) continue;
    sockaddr_storage own = {};
    socklen_t size = sizeof own;
    auto* plain = reinterpret_cast<sockaddr*>(&own);  // NOLINT(*-reinterpret-cast): the sockets API
    if (::getsockname(fd.get(), plain, &size) == 0) return digits_of(plain, size);
  }
  return "";
}

std::string outward_address() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return "";
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, &::freeifaddrs);
  for (const ifaddrs* one = list; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != AF_INET) continue;
    if ((one->ifa_flags & IFF_UP) == 0 || (one->ifa_flags & IFF_LOOPBACK) != 0) continue;
    return digits_of(one->ifa_addr, size_of(one->ifa_addr));
  }
  return "";
}

bool is_loopback(const std::string& address) { return address.starts_with("127.") || address == "::1"; }

}  // namespace weft::comm
