#include "weft/comm/fabric/channel.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "weft/base/error.h"
#include "weft/base/text.h"

namespace weft::fabric {
namespace {

constexpr size_t kRingBytes = 64 << 10;

struct Header {
  uint64_t bytes;
  int64_t tag;
};

[[noreturn]] void throw_size(int from, int tag, size_t expected, size_t got) {
  throw Error(ErrorKind::kBug, {.title = "a message has another size than its receiver expects",
                                .what = cat("expected ", expected, " bytes, got ", got),
                                .where = cat("from rank ", from, ", tag ", tag),
                                .fix = "send and recv must name tensors of one size"});
}

}  // namespace

// Kept by `owner` about one peer: how much it wrote to it, how much it read from it.
struct alignas(64) Channels::Ends {
  std::atomic<uint64_t> written;
  alignas(64) std::atomic<uint64_t> read;
};

struct Channels::Ring {
  std::byte bytes[kRingBytes];
};

size_t Channels::bytes_for(int world) { return static_cast<size_t>(world) * (sizeof(Ends) + sizeof(Ring)); }

Channels::Channels(Region region, Control& control)
    : region_(std::move(region)),
      control_(control),
      rank_(control.rank()),
      receivers_(static_cast<size_t>(control.world())),
      senders_(static_cast<size_t>(control.world())) {}

Channels::Ends& Channels::ends(int owner, int peer) const { return reinterpret_cast<Ends*>(region_.of(owner))[peer]; }

Channels::Ring& Channels::ring(int from, int to) const {
  std::byte* const rings = region_.of(from) + static_cast<size_t>(control_.world()) * sizeof(Ends);
  return reinterpret_cast<Ring*>(rings)[to];
}

void Channels::write(const std::byte* data, size_t bytes, int to, Deadline deadline) {
  std::atomic<uint64_t>& written = ends(rank_, to).written;
  const std::atomic<uint64_t>& read = ends(to, rank_).read;
  Ring& into = ring(rank_, to);
  while (bytes > 0) {
    const uint64_t at = written.load(std::memory_order_relaxed);
    const auto room = [&] { return kRingBytes - (at - read.load(std::memory_order_seq_cst)); };
    control_.wait_for_peer(to, [&] { return room() > 0; }, receivers_[static_cast<size_t>(to)].watch, deadline);
    const size_t place = at % kRingBytes, num = std::min({bytes, room(), kRingBytes - place});
    std::memcpy(into.bytes + place, data, num);
    written.store(at + num, std::memory_order_seq_cst);
    control_.ring();
    data += num;
    bytes -= num;
  }
}

void Channels::read(std::byte* data, size_t bytes, int from, Deadline deadline) {
  const std::atomic<uint64_t>& written = ends(from, rank_).written;
  std::atomic<uint64_t>& read = ends(rank_, from).read;
  const Ring& out_of = ring(from, rank_);
  while (bytes > 0) {
    const uint64_t at = read.load(std::memory_order_relaxed);
    const auto there = [&] { return written.load(std::memory_order_seq_cst) - at; };
    control_.wait_for_peer(from, [&] { return there() > 0; }, senders_[static_cast<size_t>(from)].watch, deadline);
    const size_t place = at % kRingBytes, num = std::min({bytes, there(), kRingBytes - place});
    std::memcpy(data, out_of.bytes + place, num);
    read.store(at + num, std::memory_order_seq_cst);
    control_.ring();
    data += num;
    bytes -= num;
  }
}

void Channels::send(const std::byte* data, size_t bytes, int to, int tag, Deadline deadline) {
  const Header header{bytes, tag};
  write(reinterpret_cast<const std::byte*>(&header), sizeof header, to, deadline);
  write(data, bytes, to, deadline);
}

bool Channels::take_aside(std::byte* data, size_t bytes, int from, int tag) {
  auto& aside = senders_[static_cast<size_t>(from)].aside;
  const auto found = std::find_if(aside.begin(), aside.end(), [&](const Aside& one) { return one.tag == tag; });
  if (found == aside.end()) return false;
  if (found->bytes.size() != bytes) throw_size(from, tag, bytes, found->bytes.size());
  std::copy(found->bytes.begin(), found->bytes.end(), data);
  aside.erase(found);
  return true;
}

void Channels::receive(std::byte* data, size_t bytes, int from, int tag, Deadline deadline) {
  while (!take_aside(data, bytes, from, tag)) {
    Header header;
    read(reinterpret_cast<std::byte*>(&header), sizeof header, from, deadline);
    if (header.tag == tag && header.bytes != bytes) throw_size(from, tag, bytes, header.bytes);
    if (header.tag == tag) return read(data, bytes, from, deadline);
    Aside other{static_cast<int>(header.tag), std::vector<std::byte>(header.bytes)};
    read(other.bytes.data(), other.bytes.size(), from, deadline);
    senders_[static_cast<size_t>(from)].aside.push_back(std::move(other));
  }
}

}  // namespace weft::fabric
