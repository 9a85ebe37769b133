#include "weft/comm/fabric/segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <atomic>
#include <limits>
#include <utility>

#include "weft/base/check.h"
#include "weft/base/error.h"
#include "weft/base/units.h"

namespace weft::fabric {
namespace {

// Younger than the headers of the distributions we build on.
constexpr unsigned kNoExecSeal = 0x0008U;  // MFD_NOEXEC_SEAL, Linux 6.3
constexpr int kPopulateWrite = 23;         // MADV_POPULATE_WRITE, Linux 5.14
constexpr int kCollapse = 25;              // MADV_COLLAPSE, Linux 6.1
constexpr size_t kHugePageBytes = size_t{2} << 20;
constexpr int kSizeSeals = F_SEAL_SHRINK | F_SEAL_GROW;

std::atomic<size_t> num_bytes_created = 0;

std::string shared_memory(size_t bytes) { return cat(format_bytes(bytes), " of shared memory"); }

UniqueFd make_memfd(const std::string& name, size_t bytes) {
  // A host may demand the no-exec flag (vm.memfd_noexec=2); an older kernel does not know it.
  int fd = ::memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING | kNoExecSeal);
  if (fd < 0 && errno == EINVAL) fd = ::memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) throw IoError(cat("make ", shared_memory(bytes)), "memfd_create", errno);
  return UniqueFd(fd);
}

void give_size(int fd, size_t bytes) {
  if (bytes > static_cast<size_t>(std::numeric_limits<off_t>::max())) {
    throw IoError(cat("make ", shared_memory(bytes)), "ftruncate", EFBIG);
  }
  if (retry_interrupted([&] { return ::ftruncate(fd, static_cast<off_t>(bytes)); }) < 0) {
    throw IoError(cat("make ", shared_memory(bytes)), "ftruncate", errno);
  }
  // With the size fixed, a peer's mistake cannot turn our reads into a SIGBUS.
  if (::fcntl(fd, F_ADD_SEALS, kSizeSeals | F_SEAL_SEAL) < 0)
    throw IoError("fix the size of a segment", "fcntl", errno);
}

size_t up_to(size_t value, size_t multiple) { return (value + multiple - 1) / multiple * multiple; }

// Addresses for `bytes` that begin with a huge page: only there can one be mapped. Null where there is no room: the kernel then chooses.
std::byte* reserve_aligned(size_t bytes) {
  if (bytes < kHugePageBytes || bytes > std::numeric_limits<size_t>::max() / 2) return nullptr;
  const size_t wanted = up_to(bytes, kPageBytes), room = wanted + kHugePageBytes;
  void* const at = ::mmap(nullptr, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) return nullptr;
  auto* const begin = static_cast<std::byte*>(at);
  const auto address = reinterpret_cast<size_t>(at);
  const size_t before = up_to(address, kHugePageBytes) - address, behind = room - before - wanted;
  if (before > 0) ::munmap(begin, before);
  if (behind > 0) ::munmap(begin + before + wanted, behind);
  return begin + before;
}

}  // namespace

Segment Segment::create(size_t bytes, const std::string& name) {
  WEFT_CHECK_GT(bytes, size_t{0});
  Segment segment;
  segment.fd_ = make_memfd(name, bytes);
  give_size(segment.fd(), bytes);
  segment.bytes_ = bytes;
  segment.map();
  segment.created_bytes_ = bytes;
  num_bytes_created.fetch_add(bytes, std::memory_order_relaxed);
  return segment;
}

size_t Segment::bytes_created() { return num_bytes_created.load(std::memory_order_relaxed); }

Segment Segment::adopt(UniqueFd fd, size_t bytes) {
  struct stat about{};
  if (::fstat(fd.get(), &about) < 0) throw IoError("look at a peer's segment", "fstat", errno);
  const int seals = ::fcntl(fd.get(), F_GET_SEALS);
  const bool fixed = seals >= 0 && (seals & kSizeSeals) == kSizeSeals;
  if (!fixed || static_cast<size_t>(about.st_size) != bytes) {
    throw Error(ErrorKind::kEnvironment, {.title = "a peer's segment is not what it said",
                                          .what = cat(about.st_size, " bytes, ", fixed ? "sealed" : "not sealed",
                                                      "; expected ", bytes, " bytes, sealed"),
                                          .fix = "run the same version of weft in every rank"});
  }
  Segment segment;
  segment.fd_ = std::move(fd);
  segment.bytes_ = bytes;
  segment.map();
  return segment;
}

void Segment::map() {
  std::byte* const place = reserve_aligned(bytes_);
  const int flags = MAP_SHARED | (place != nullptr ? MAP_FIXED : 0);
  void* const at = ::mmap(place, bytes_, PROT_READ | PROT_WRITE, flags, fd_.get(), 0);
  if (at == MAP_FAILED) {
    const int code = errno;
    if (place != nullptr) ::munmap(place, bytes_);
    throw IoError(cat("map ", shared_memory(bytes_)), "mmap", code);
  }
  data_ = static_cast<std::byte*>(at);
  // Advice only: where shmem huge pages are off, small ones do until populate().
  if (bytes_ >= kHugePageBytes) ::madvise(at, bytes_, MADV_HUGEPAGE);
}

void Segment::unmap() noexcept {
  if (data_ != nullptr) ::munmap(data_, bytes_);
  data_ = nullptr;
  num_bytes_created.fetch_sub(std::exchange(created_bytes_, 0), std::memory_order_relaxed);
}

void Segment::swap(Segment& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(created_bytes_, other.created_bytes_);
}

void Segment::populate(size_t offset, size_t bytes) {
  WEFT_CHECK(offset <= bytes_ && bytes <= bytes_ - offset);
  if (bytes == 0) return;
  take_huge_pages(offset, bytes);
  const int done = retry_interrupted([&] { return ::madvise(data_ + offset, bytes, kPopulateWrite); });
  // EINVAL: the kernel is too old for it. EFAULT is how it says that the pages could not be had.
  if (done < 0 && errno != EINVAL)
    throw IoError(cat("get ", shared_memory(bytes)), "madvise", errno == EFAULT ? ENOMEM : errno);
}

// Most hosts hand out small pages only (shmem_enabled is "never"), but make a huge one of what is there of it for whoever asks: its first
// small page is enough, and that is also the quickest way to have the memory. Where it fails, small pages do.
void Segment::take_huge_pages(size_t offset, size_t bytes) noexcept {
  const size_t end = (offset + bytes) / kHugePageBytes * kHugePageBytes;
  for (size_t at = up_to(offset, kHugePageBytes); at < end; at += kHugePageBytes) {
    if (::madvise(data_ + at, kPageBytes, kPopulateWrite) != 0) return;
    if (::madvise(data_ + at, kHugePageBytes, kCollapse) != 0) return;
  }
}

}  // namespace weft::fabric
