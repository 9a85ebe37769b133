#include "weft/base/fd.h"

#include <fcntl.h>
#include <gtest/gtest.h>

namespace weft {
namespace {

int open_null() { return ::open("/dev/null", O_RDONLY | O_CLOEXEC); }
bool is_open(int fd) { return ::fcntl(fd, F_GETFD) >= 0; }

TEST(UniqueFd, ClosesWhenItGoes) {
  const int fd = open_null();
  {
    const UniqueFd owner(fd);
  }
  EXPECT_FALSE(is_open(fd));
}

TEST(UniqueFd, MovingPassesTheDescriptorOn) {
  UniqueFd first(open_null());
  const int fd = first.get();
  UniqueFd second(std::move(first));
  EXPECT_EQ(first.get(), -1);
  EXPECT_EQ(second.get(), fd);

  UniqueFd third(open_null());
  const int replaced = third.get();
  third = std::move(second);
  EXPECT_FALSE(is_open(replaced));
  EXPECT_TRUE(is_open(fd));
}

TEST(UniqueFd, ReleaseGivesItAway) {
  UniqueFd owner(open_null());
  const int fd = owner.release();
  owner.reset();
  EXPECT_TRUE(is_open(fd));
  ::close(fd);
}

TEST(RetryInterrupted, RepeatsOnlyForEintr) {
  int calls = 0;
  const int result = retry_interrupted([&] {
    errno = ++calls < 3 ? EINTR : EIO;
    return -1;
  });
  EXPECT_EQ(result, -1);
  EXPECT_EQ(errno, EIO);
  EXPECT_EQ(calls, 3);
}

}  // namespace
}  // namespace weft
