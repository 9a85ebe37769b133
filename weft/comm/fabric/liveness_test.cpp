#include "weft/comm/fabric/liveness.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include "weft/base/process.h"

namespace weft::fabric {
namespace {

TEST(Liveness, KnowsWhenAProcessStarted) {
  EXPECT_GT(start_time_of(1), 0U);
  EXPECT_GT(start_time_of(::getpid()), start_time_of(1));
  EXPECT_EQ(start_time_of(::getpid()), start_time_of(::getpid()));
  EXPECT_EQ(start_time_of(1 << 30), 0U);
}

TEST(Liveness, SeesAProcessEnd) {
  Process child = Process::spawn({.argv = {"sleep", "60"}, .die_with_parent = true});
  const PeerWatch watch(child.pid(), start_time_of(child.pid()));
  EXPECT_TRUE(watch.alive());
  child.signal(SIGSTOP);
  EXPECT_TRUE(watch.alive());
  child.signal(SIGKILL);
  ASSERT_TRUE(child.wait(Deadline::after(30)));
  EXPECT_FALSE(watch.alive());
  EXPECT_FALSE(PeerWatch(child.pid(), 1).alive());
}

TEST(Liveness, AReusedNumberIsAnotherProcess) {
  EXPECT_TRUE(PeerWatch(::getpid(), start_time_of(::getpid())).alive());
  EXPECT_FALSE(PeerWatch(::getpid(), start_time_of(::getpid()) - 1).alive());
}

}  // namespace
}  // namespace weft::fabric
