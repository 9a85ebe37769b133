#include "weft/comm/fabric/segment.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <fstream>
#include <string>

#include "weft/base/error.h"
#include "weft/comm/fabric/test_data_impl.h"

namespace weft::fabric {
namespace {

TEST(Segment, TwoMappingsShowTheSameMemory) {
  const Segment one = Segment::create(10'000, "weft-fabric-test");
  const Segment two = Segment::adopt(UniqueFd(::fcntl(one.fd(), F_DUPFD_CLOEXEC, 0)), 10'000);
  EXPECT_NE(one.data(), two.data());
  EXPECT_EQ(two.data()[9'999], std::byte{0});
  one.data()[9'999] = std::byte{42};
  EXPECT_EQ(two.data()[9'999], std::byte{42});
}

TEST(Segment, NobodyCanChangeItsSize) {
  const Segment segment = Segment::create(8192, "weft-fabric-test");
  EXPECT_EQ(::ftruncate(segment.fd(), 4096), -1);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(::ftruncate(segment.fd(), 16384), -1);
}

TEST(Segment, IsGoneWithItsOwner) {
  const size_t num_fds = num_open_fds();
  {
    Segment segment = Segment::create(4 << 20, "weft-fabric-test");
    Segment moved = std::move(segment);
    segment = std::move(moved);
    EXPECT_EQ(num_mapped_segments(), 1U);
    segment.close_fd();
    EXPECT_EQ(num_open_fds(), num_fds);
    segment.data()[0] = std::byte{1};
  }
  EXPECT_EQ(num_mapped_segments(), 0U);
}

TEST(Segment, PopulatesAPartOfItself) {
  Segment segment = Segment::create(1 << 20, "weft-fabric-test");
  segment.populate(4096, 8192);
  segment.populate(1 << 20, 0);
  EXPECT_EQ(segment.data()[5000], std::byte{0});
  EXPECT_THROW(segment.populate(1 << 20, 1), Error);
}

constexpr size_t kHuge = size_t{2} << 20;

// Of this process's shared memory, in huge pages.
size_t huge_kib() {
  std::ifstream rollup("/proc/self/smaps_rollup");
  size_t kib = 0;
  for (std::string word; rollup >> word;) {
    if (word == "ShmemPmdMapped:") rollup >> kib;
  }
  return kib;
}

TEST(Segment, LargeOnesBeginWithAHugePage) {
  const Segment one = Segment::create(3 * kHuge + 5000, "weft-fabric-test"),
                two = Segment::create(kHuge, "weft-fabric-test");
  for (const Segment* segment : {&one, &two}) EXPECT_EQ(reinterpret_cast<size_t>(segment->data()) % kHuge, 0U);
  EXPECT_EQ(num_mapped_segments(), 2U);
}

TEST(Segment, PopulatedPagesAreHugeForAllWhoMapThem) {
  Segment one = Segment::create(4 * kHuge + 5000, "weft-fabric-test");
  const Segment two = Segment::adopt(UniqueFd(::fcntl(one.fd(), F_DUPFD_CLOEXEC, 0)), one.bytes());
  one.data()[kHuge + 9000] = std::byte{7};
  one.populate(5000, kHuge + 5000);  // half a page, and no whole one
  EXPECT_EQ(huge_kib(), 0U);
  one.populate(kHuge, 3 * kHuge + 5000);
  EXPECT_EQ(two.data()[kHuge + 9000], std::byte{7}) << "what was there already";
  for (size_t i = 0; i < one.bytes(); i += 4096) {
    EXPECT_EQ(two.data()[i], std::byte{0}) << i;
    one.data()[i] = static_cast<std::byte>(i / 4096 % 251);
  }
  for (size_t i = 0; i < two.bytes(); i += 4096) ASSERT_EQ(two.data()[i], static_cast<std::byte>(i / 4096 % 251)) << i;
  if (::madvise(one.data(), kHuge, 25 /*MADV_COLLAPSE*/) != 0) GTEST_SKIP() << "this kernel makes no huge pages";
  EXPECT_GE(huge_kib(), 3 * kHuge / 1024);
}

TEST(Segment, RefusedMemoryIsAnIoErrorThatSaysHowMuch) {
  for (const size_t bytes : {size_t{1} << 62, SIZE_MAX}) {
    try {
      Segment::create(bytes, "weft-fabric-test");
      FAIL() << "got " << bytes;
    } catch (const IoError& error) {
      EXPECT_NE(error.text().title.find("of shared memory"), std::string::npos) << error.what();
    }
  }
  EXPECT_EQ(num_mapped_segments(), 0U);
}

TEST(Segment, AFileThatCouldShrinkIsNotAdopted) {
  UniqueFd file(::memfd_create("weft-fabric-test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(file.get(), 4096), 0);
  try {
    Segment::adopt(std::move(file), 4096);
    FAIL() << "adopted";
  } catch (const Error& error) {
    EXPECT_EQ(error.text().what, "4096 bytes, not sealed; expected 4096 bytes, sealed");
  }
}

TEST(Segment, AFileOfAnotherSizeIsNotAdopted) {
  const Segment segment = Segment::create(4096, "weft-fabric-test");
  EXPECT_THROW(Segment::adopt(UniqueFd(::fcntl(segment.fd(), F_DUPFD_CLOEXEC, 0)), 8192), Error);
}

}  // namespace
}  // namespace weft::fabric
