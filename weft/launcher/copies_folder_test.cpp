#include "weft/launcher/copies_folder.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/support/temp_dir.h"
#include "weft/base/fd.h"
#include "weft/base/text.h"

namespace weft::launcher {
namespace {

namespace fs = std::filesystem;

const LaunchSpec kSpec{.argv = {"true"}, .max_restarts = 2, .resume = true, .run_id = "a/b c"};

TEST(CopiesFolder, IsForRunsThatGoOn) {
  EXPECT_EQ(copies_folder(kSpec), cat("/dev/shm/weft-buddy-", ::getuid(), "-a_b_c"));
  LaunchSpec other = kSpec;
  other.resume = false;
  EXPECT_EQ(copies_folder(other), "");
  other = kSpec;
  other.max_restarts = 0;
  EXPECT_EQ(copies_folder(other), "");
}

TEST(CopiesFolder, OfHostsOnOneMachineAreApart) {
  LaunchSpec one = kSpec;
  one.num_hosts = 2;
  LaunchSpec two = one;
  two.host_rank = 1;
  EXPECT_NE(copies_folder(one), copies_folder(two));
  one.host_name = two.host_name = "a";
  EXPECT_EQ(copies_folder(one), copies_folder(two)) << "a host may get another number when one before it is lost";
}

TEST(CopiesFolder, IsGoneWhenTheLauncherIs) {
  LaunchSpec spec = kSpec;
  spec.run_id = cat("copies-folder-test-", ::getpid());
  const fs::path folder = copies_folder(spec);
  fs::create_directories(folder / "left");
  {
    const CopiesFolder copies(spec);
    EXPECT_FALSE(fs::exists(folder)) << "of an earlier run of this name";
    fs::create_directories(folder / "step_00000001");
    std::ofstream(folder / "step_00000001" / "manifest.json") << "{}";
  }
  EXPECT_FALSE(fs::exists(folder));
}

class StaleCopies : public testing::Test {
 protected:
  fs::path make(const std::string& name) {
    const fs::path folder = dir_ / cat("weft-buddy-", ::getuid(), "-", name);
    fs::create_directories(folder);
    std::ofstream(folder / "store.lock") << "process 1\n";
    fs::last_write_time(folder, fs::file_time_type::clock::now() - std::chrono::hours(1));
    return folder;
  }
  void sweep() { remove_stale_copies(dir_.path()); }

  test::TempDir dir_;
};

TEST_F(StaleCopies, OfADeadRunAreRemoved) {
  const fs::path dead = make("dead"), other = dir_ / "weft-buddy-x";
  fs::create_directories(other);
  fs::last_write_time(other, fs::file_time_type::clock::now() - std::chrono::hours(1));
  sweep();
  EXPECT_FALSE(fs::exists(dead));
  EXPECT_TRUE(fs::exists(other));
}

TEST_F(StaleCopies, OfARunThatLivesOrPausesStay) {
  const fs::path held = make("held"), fresh = make("fresh");
  const UniqueFd lock(::open((held / "store.lock").c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_EQ(::flock(lock.get(), LOCK_EX), 0);
  fs::last_write_time(fresh, fs::file_time_type::clock::now());
  sweep();
  EXPECT_TRUE(fs::exists(held));
  EXPECT_TRUE(fs::exists(fresh)) << "between two attempts nobody holds the lock";
}

}  // namespace
}  // namespace weft::launcher
