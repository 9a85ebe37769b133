// Memory that several processes of one host can see: an anonymous file of fixed size, mapped.
//
// It has no name in any folder, so nothing is left behind by a crash, and a container's small /dev/shm does not matter:
// the kernel frees the pages when the last mapping and the last descriptor are gone. Whoever gets the descriptor (see
// local_socket.h) maps the same pages with adopt().
//
// Ownership: a Segment owns its descriptor and its mapping. Threads: the object has one owner; the memory is shared, and
// ordering accesses to it is up to those who use it. Failure: IoError when the kernel refuses the file or the memory.
#pragma once

#include <cstddef>
#include <string>

#include "weft/base/fd.h"

namespace weft::fabric {

inline constexpr size_t kPageBytes = 4096;  // the kernel gives memory in pages

class Segment {
 public:
  Segment() = default;
  ~Segment() { unmap(); }
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;
  Segment(Segment&& other) noexcept { swap(other); }
  Segment& operator=(Segment&& other) noexcept {
    Segment(std::move(other)).swap(*this);
    return *this;
  }

  // Zeroed memory of exactly `bytes`, whose size nobody can change any more. `name` shows up in /proc/PID/maps only.
  // Requires: bytes > 0.
  static Segment create(size_t bytes, const std::string& name);
  // Maps what another process created. A file of another size, or one that could still shrink under us, is refused.
  static Segment adopt(UniqueFd fd, size_t bytes);

  std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  int fd() const { return fd_.get(); }
  // The mapping stays; there is nothing left to hand over.
  void close_fd() { fd_.reset(); }

  // Of the segments that this process created and still has.
  static size_t bytes_created();

  // Brings the pages of a range into being now, on the caller's memory node, instead of at the first touch, where a
  // refusal would be a SIGBUS. Kernels before 5.14 cannot; the pages then come at the first touch. Whole huge pages in the range are such
  // where the kernel can make them (from 6.1 on).
  void populate(size_t offset, size_t bytes);

 private:
  void map();
  void take_huge_pages(size_t offset, size_t bytes) noexcept;
  void unmap() noexcept;
  void swap(Segment& other) noexcept;

  UniqueFd fd_;
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
  size_t created_bytes_ = 0;  // 0: adopted
};

}  // namespace weft::fabric
