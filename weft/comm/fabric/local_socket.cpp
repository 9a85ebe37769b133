#include "weft/comm/fabric/local_socket.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstddef>
#include <cstring>

#include "weft/base/check.h"
#include "weft/base/error.h"

namespace weft::fabric {
namespace {

struct Address {
  sockaddr_un value{};
  socklen_t bytes = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&value); }
};

// A leading zero byte is what makes a name abstract; the rest is counted, not terminated.
Address abstract_address(const std::string& name) {
  Address address;
  WEFT_CHECK_LT(name.size() + 1, sizeof address.value.sun_path);
  address.value.sun_family = AF_UNIX;
  std::memcpy(address.value.sun_path + 1, name.data(), name.size());
  address.bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}

UniqueFd make_socket() {
  const int fd = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) throw IoError("make a unix socket", "socket", errno);
  return UniqueFd(fd);
}

bool is_ours(int socket) {
  ucred who{};
  socklen_t bytes = sizeof who;
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &who, &bytes) == 0 && who.uid == ::geteuid();
}

// Room for one descriptor beside a packet, aligned as the kernel wants it.
struct Attachment {
  alignas(cmsghdr) char space[CMSG_SPACE(sizeof(int))] = {};
};

UniqueFd take_fd(msghdr& header) {
  const cmsghdr* const control = CMSG_FIRSTHDR(&header);
  if (control == nullptr || control->cmsg_level != SOL_SOCKET || control->cmsg_type != SCM_RIGHTS) return {};
  int fd = -1;
  std::memcpy(&fd, CMSG_DATA(control), sizeof fd);
  return UniqueFd(fd);
}

bool is_gone(int code) { return code == EPIPE || code == ECONNRESET || code == ENOTCONN; }

}  // namespace

std::optional<UniqueFd> listen_local(const std::string& name) {
  UniqueFd socket = make_socket();
  const Address address = abstract_address(name);
  if (::bind(socket.get(), address.get(), address.bytes) < 0) {
    if (errno == EADDRINUSE) return std::nullopt;
    throw IoError("name a unix socket", name, errno);
  }
  if (::listen(socket.get(), SOMAXCONN) < 0) throw IoError("listen on a unix socket", name, errno);
  return socket;
}

std::optional<UniqueFd> connect_local(const std::string& name) {
  UniqueFd socket = make_socket();
  const Address address = abstract_address(name);
  if (retry_interrupted([&] { return ::connect(socket.get(), address.get(), address.bytes); }) == 0) return socket;
  if (errno == ECONNREFUSED || errno == EAGAIN) return std::nullopt;
  throw IoError("reach rank 0 through a unix socket", name, errno);
}

std::optional<UniqueFd> accept_local(int listener) {
  for (;;) {
    const int fd =
        retry_interrupted([&] { return ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK); });
    if (fd < 0 && (errno == EAGAIN || errno == ECONNABORTED)) return std::nullopt;
    if (fd < 0) throw IoError("accept a rank", "accept4", errno);
    // The abstract namespace knows no permissions, so anybody on the host can knock.
    if (UniqueFd socket(fd); is_ours(socket.get())) return socket;
  }
}

bool wait_readable(int fd, Deadline deadline) {
  pollfd entry{fd, POLLIN, 0};
  const int ready = retry_interrupted([&] { return ::poll(&entry, 1, deadline.poll_ms()); });
  if (ready < 0) throw IoError("wait for a message", "poll", errno);
  return ready > 0;
}

Status send_packet(int socket, std::span<const std::byte> bytes, int fd) {
  iovec piece{const_cast<std::byte*>(bytes.data()), bytes.size()};
  msghdr header{};
  header.msg_iov = &piece;
  header.msg_iovlen = 1;
  Attachment attachment;
  if (fd >= 0) {
    header.msg_control = attachment.space;
    header.msg_controllen = sizeof attachment.space;
    cmsghdr* const control = CMSG_FIRSTHDR(&header);
    control->cmsg_level = SOL_SOCKET;
    control->cmsg_type = SCM_RIGHTS;
    control->cmsg_len = CMSG_LEN(sizeof fd);
    std::memcpy(CMSG_DATA(control), &fd, sizeof fd);
  }
  const ssize_t sent = retry_interrupted([&] { return ::sendmsg(socket, &header, MSG_NOSIGNAL); });
  if (sent >= 0) return Status::kOk;
  // Our packets are few and small: a full queue means that the receiver has stopped reading.
  if (errno == EAGAIN) return Status::kLate;
  if (is_gone(errno)) return Status::kClosed;
  throw IoError("send to a rank of this host", "sendmsg", errno);
}

Status receive_packet(int socket, std::span<std::byte> into, UniqueFd& fd, Deadline deadline) {
  if (!wait_readable(socket, deadline)) return Status::kLate;
  iovec piece{into.data(), into.size()};
  Attachment attachment;
  msghdr header{};
  header.msg_iov = &piece;
  header.msg_iovlen = 1;
  header.msg_control = attachment.space;
  header.msg_controllen = sizeof attachment.space;
  const ssize_t got = retry_interrupted([&] { return ::recvmsg(socket, &header, MSG_CMSG_CLOEXEC); });
  if (got < 0 && !is_gone(errno)) throw IoError("hear from a rank of this host", "recvmsg", errno);
  if (got <= 0) return Status::kClosed;
  fd = take_fd(header);
  // A stranger's packet, or another version's: as good as nobody.
  if (static_cast<size_t>(got) != into.size() || (header.msg_flags & MSG_TRUNC) != 0) return Status::kClosed;
  return Status::kOk;
}

}  // namespace weft::fabric
