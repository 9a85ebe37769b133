// Messages between processes of one host, each with at most one descriptor: sequenced packets over unix sockets in the
// abstract namespace, where names belong to no folder and vanish with their owner.
//
// A message is one trivially copyable struct; a packet of any other size is a fault of the sender. Threads: a socket has
// one owner. Failure: IoError, except where a Status says what is ordinary (nobody there yet, gone, deadline).
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <type_traits>

#include "weft/base/clock.h"
#include "weft/base/fd.h"

namespace weft::fabric {

enum class Status { kOk, kClosed, kLate };

// Listens under `name`; nothing when somebody listens there already.
std::optional<UniqueFd> listen_local(const std::string& name);
// Tries once; nothing when nobody listens there (yet), or when its queue is full.
std::optional<UniqueFd> connect_local(const std::string& name);
// The next one who connected and runs under our user id, whoever else tries; nothing when nobody waits.
std::optional<UniqueFd> accept_local(int listener);

// Waits until `fd` can be read, at most until the deadline; false when it cannot.
bool wait_readable(int fd, Deadline deadline);

Status send_packet(int socket, std::span<const std::byte> bytes, int fd);
// Fills `into` exactly. `fd` gets the descriptor that came along, or nothing.
Status receive_packet(int socket, std::span<std::byte> into, UniqueFd& fd, Deadline deadline);

template <typename Message>
Status send_message(int socket, const Message& message, int fd = -1) {
  static_assert(std::is_trivially_copyable_v<Message>);
  return send_packet(socket, std::as_bytes(std::span(&message, 1)), fd);
}

template <typename Message>
Status receive_message(int socket, Message& message, UniqueFd& fd, Deadline deadline) {
  static_assert(std::is_trivially_copyable_v<Message>);
  return receive_packet(socket, std::as_writable_bytes(std::span(&message, 1)), fd, deadline);
}

}  // namespace weft::fabric
