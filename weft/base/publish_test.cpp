// publish_file against every failure and every crash that can come between its calls.
#include <gtest/gtest.h>

#include <cerrno>
#include <functional>
#include <stdexcept>

#include "weft/base/crash_env.h"
#include "weft/base/error.h"

namespace weft {
namespace {

const std::string kOld(1500, 'o');
const std::string kNew = std::string(5000, 'n') + "end";
constexpr uint64_t kMaxFileBytes = 1 << 14;

// "run/state" holds kOld, durably.
void prepare(CrashEnv& env) {
  env.make_folders("run");
  env.sync_folder("/");
  write_file(env, "run/state", bytes_of(kOld));
  env.open("run/state", OpenMode::kReadWrite)->sync();
  env.sync_folder("run");
}

bool publish(CrashEnv& env) {
  try {
    publish_file(env, "run/state", bytes_of(kNew));
    return true;
  } catch (const IoError&) {
    return false;
  }
}

bool is_old_or_new(CrashEnv& env) {
  const std::string now = read_file(env, "run/state", kMaxFileBytes);
  return now == kOld || now == kNew;
}

int calls_of_a_good_publish() {
  CrashEnv env;
  prepare(env);
  const int before = env.calls();
  EXPECT_TRUE(publish(env));
  return env.calls() - before;
}

TEST(Publish, SurvivesACrashOnceItReturned) {
  CrashEnv env;
  prepare(env);
  ASSERT_TRUE(publish(env));
  env.crash();
  EXPECT_EQ(read_file(env, "run/state", kMaxFileBytes), kNew);
  EXPECT_EQ(env.list("run"), (std::vector<std::string>{"state"}));
}

TEST(Publish, MakesAFileThatWasNotThere) {
  CrashEnv env;
  publish_file(env, "fresh", bytes_of(kNew));
  env.crash();
  EXPECT_EQ(read_file(env, "fresh", kMaxFileBytes), kNew);
}

TEST(Publish, OverwritesTheRubbishOfAnEarlierCrash) {
  CrashEnv env;
  write_file(env, "state.tmp", bytes_of(std::string(100'000, 'x')));
  publish_file(env, "state", bytes_of("short"));
  EXPECT_EQ(read_file(env, "state", kMaxFileBytes), "short");
  EXPECT_FALSE(env.stat("state.tmp").has_value());
}

TEST(Publish, EveryFailingCallLeavesOldOrNewAndNoRubbish) {
  const int calls = calls_of_a_good_publish();
  ASSERT_GE(calls, 5);
  for (const int code : {EIO, ENOSPC}) {
    for (int n = 1; n <= calls; ++n) {
      CrashEnv env;
      prepare(env);
      env.fail_call(n, code);
      EXPECT_FALSE(publish(env)) << "call " << n;
      EXPECT_EQ(env.faults_fired(), 1) << "call " << n;
      EXPECT_TRUE(is_old_or_new(env)) << "call " << n;
      EXPECT_FALSE(env.stat("run/state.tmp").has_value()) << "call " << n;
      env.crash();
      EXPECT_TRUE(is_old_or_new(env)) << "crash after failing call " << n;
    }
  }
}

TEST(Publish, AShortWriteLeavesTheOld) {
  for (const size_t bytes : {0, 1, 512, 5002}) {
    CrashEnv env;
    prepare(env);
    env.short_write(1, bytes);
    EXPECT_FALSE(publish(env));
    EXPECT_EQ(env.faults_fired(), 1);
    EXPECT_EQ(read_file(env, "run/state", kMaxFileBytes), kOld);
    EXPECT_FALSE(env.stat("run/state.tmp").has_value());
  }
}

TEST(Publish, ACrashAfterAnyCallLeavesOldOrNew) {
  const int calls = calls_of_a_good_publish();
  for (int n = 0; n <= calls; ++n) {
    CrashEnv env;
    prepare(env);
    env.cut_power_after(n);
    EXPECT_EQ(publish(env), n >= calls) << "power cut after call " << n;
    env.crash();
    const std::string now = read_file(env, "run/state", kMaxFileBytes);
    EXPECT_TRUE(now == (n >= calls ? kNew : kOld)) << "power cut after call " << n;
  }
}

TEST(Publish, ATornCrashAfterAnyCallLeavesOldOrNew) {
  const int calls = calls_of_a_good_publish();
  int saw_new_early = 0;
  for (int n = 0; n <= calls; ++n) {
    for (uint64_t seed = 0; seed < 200; ++seed) {
      CrashEnv env;
      prepare(env);
      env.cut_power_after(n);
      publish(env);
      env.crash(seed);
      ASSERT_TRUE(is_old_or_new(env)) << "power cut after call " << n << ", seed " << seed;
      if (n < calls && read_file(env, "run/state", kMaxFileBytes) == kNew) ++saw_new_early;
    }
  }
  // Proof that the seeds reach the interesting case: the rename survived without the folder's sync.
  EXPECT_GT(saw_new_early, 0);
}

// The same harness must catch a publisher that is wrong, or the cases above prove nothing.
int torn_results(const std::function<void(CrashEnv&)>& bad_publish) {
  int torn = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    CrashEnv env;
    prepare(env);
    bad_publish(env);
    env.crash(seed);
    if (!env.stat("run/state") || !is_old_or_new(env)) ++torn;
  }
  return torn;
}

TEST(Publish, TheHarnessCatchesAMissingSync) {
  const auto without_sync = [](CrashEnv& env) {
    write_file(env, "run/state.tmp", bytes_of(kNew));
    env.rename("run/state.tmp", "run/state");
    env.sync_folder("run");
  };
  EXPECT_GT(torn_results(without_sync), 100);
  EXPECT_GT(torn_results([](CrashEnv& env) { write_file(env, "run/state", bytes_of(kNew)); }), 100);
}

TEST(Publish, PiecesArePublishedTogether) {
  CrashEnv env;
  prepare(env);
  publish_file(env, "run/state", [](File& file) {
    file.write_at(3, bytes_of("def"));
    file.write_at(0, bytes_of("abc"));
  });
  env.crash();
  EXPECT_EQ(read_file(env, "run/state", kMaxFileBytes), "abcdef");
}

TEST(Publish, AFillThatThrowsChangesNothing) {
  CrashEnv env;
  prepare(env);
  const auto fill = [](File& file) {
    file.write_at(0, bytes_of("half"));
    throw std::runtime_error("the writer gave up");
  };
  EXPECT_THROW(publish_file(env, "run/state", fill), std::runtime_error);
  EXPECT_EQ(read_file(env, "run/state", kMaxFileBytes), kOld);
  EXPECT_EQ(env.list("run"), (std::vector<std::string>{"state"}));
}

}  // namespace
}  // namespace weft
