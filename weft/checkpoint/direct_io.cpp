#include "weft/checkpoint/direct_io.h"

#include <fcntl.h>

#include <cstdlib>
#include <new>

namespace weft::checkpoint {

uint64_t rounded_up(uint64_t count) { return (count + kDirectAlignment - 1) / kDirectAlignment * kDirectAlignment; }

AlignedBytes aligned_bytes(uint64_t count) {
  auto* const at = static_cast<std::byte*>(std::aligned_alloc(kDirectAlignment, rounded_up(count)));
  if (at == nullptr) throw std::bad_alloc();
  return {at, std::free};
}

bool set_direct(int fd, bool on) {
  const int flags = fd < 0 ? -1 : ::fcntl(fd, F_GETFL);
  return flags >= 0 && ::fcntl(fd, F_SETFL, on ? flags | O_DIRECT : flags & ~O_DIRECT) == 0;
}

}  // namespace weft::checkpoint
