// Bytes between two ranks, as a network transport moves them: what the collectives of wire_collectives.h are made of.
//
// Messages from one rank to another with one tag arrive in the order sent; each must be met by a receive of the same
// size. Even and odd tags are two lanes that move at the same time.
// Ownership: a Transfer's memory is the caller's, and must last until it has been waited for or dropped. Threads:
// posting and waiting from any. Failure: what the group's roll call finds: PeerLost, in send(), receive() and wait()
// alike.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "weft/base/clock.h"

namespace weft::comm {

class Transfer {
 public:
  Transfer() = default;
  virtual ~Transfer() = default;
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;
  // Until the memory may be used again: a message is then on its way, or here.
  virtual void wait(Deadline deadline) = 0;
};

class Wire {
 public:
  Wire(int rank, int world) : rank_(rank), world_(world) {}
  virtual ~Wire() = default;
  Wire(const Wire&) = delete;
  Wire& operator=(const Wire&) = delete;

  int rank() const { return rank_; }
  int world() const { return world_; }

  virtual std::unique_ptr<Transfer> send(std::span<const std::byte> bytes, int to, uint32_t tag) = 0;
  virtual std::unique_ptr<Transfer> receive(std::span<std::byte> bytes, int from, uint32_t tag) = 0;

 private:
  const int rank_, world_;
};

// Several at once. Empty messages are not sent, and large ones go in halves over both lanes: both ends know their size.
class Transfers {
 public:
  explicit Transfers(Wire& wire) : wire_(wire) {}
  void send(std::span<const std::byte> bytes, int to, uint32_t tag) {
    for (const auto half : {first_half(bytes), bytes.subspan(first_half(bytes).size())})
      if (!half.empty()) pending_.push_back(wire_.send(half, to, tag++));
  }
  void receive(std::span<std::byte> bytes, int from, uint32_t tag) {
    for (const auto half : {first_half(bytes), bytes.subspan(first_half(bytes).size())})
      if (!half.empty()) pending_.push_back(wire_.receive(half, from, tag++));
  }
  void wait(Deadline deadline) {
    for (const auto& one : pending_) one->wait(deadline);
    pending_.clear();
  }

 private:
  static constexpr size_t kLargeBytes = 256 << 10;

  // All of what is not large.
  template <typename Byte>
  static std::span<Byte> first_half(std::span<Byte> bytes) {
    return bytes.first(bytes.size() < kLargeBytes ? bytes.size() : bytes.size() / 128 * 64);
  }

  Wire& wire_;
  std::vector<std::unique_ptr<Transfer>> pending_;
};

}  // namespace weft::comm
