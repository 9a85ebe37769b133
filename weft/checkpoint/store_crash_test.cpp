// Saving, committing, replacing and pruning against every failure and every crash that can come between their calls: the
// store then holds the old step or the new one, whole, and the next save works.
#include <gtest/gtest.h>

#include <cerrno>
#include <functional>
#include <memory>

#include "weft/base/crash_env.h"
#include "weft/base/error.h"
#include "weft/checkpoint/prune.h"
#include "weft/checkpoint/store_example_impl.h"

namespace weft::checkpoint {
namespace {

// What the disk may do to bytes that were not durable: which pieces between borders it keeps, and whether the size.
struct Tearing {
  uint64_t border_bytes;
  std::function<bool(uint64_t piece)> keeps;
  bool keeps_size;
};

const std::vector<Tearing>& tearings() {
  static const auto* all = [] {
    auto* out = new std::vector<Tearing>;
    for (const bool size : {false, true}) out->push_back({512, [](uint64_t) { return false; }, size});
    out->push_back({512, [](uint64_t) { return true; }, true});
    for (const uint64_t border : {512, 4096}) {
      const uint64_t pieces = 6144 / border + 1;  // of the largest file
      for (uint64_t kept = 1; kept < pieces; ++kept)
        out->push_back({border, [kept](uint64_t piece) { return piece < kept; }, false});
      out->push_back({border, [](uint64_t piece) { return piece != 0; }, true});
      out->push_back({border, [](uint64_t piece) { return piece % 2 == 0; }, true});
      out->push_back({border, [](uint64_t piece) { return piece % 2 == 1; }, false});
    }
    return out;
  }();
  return *all;
}

// Answers for names by a script and writes its own continuation: "lost" for every question the script does not reach.
class ScriptedKeeper : public CrashKeeper {
 public:
  ScriptedKeeper(std::vector<bool>& script, const Tearing& tearing) : script_(script), tearing_(tearing) {}
  bool keeps_names() override {
    if (at_ == script_.size()) script_.push_back(false);
    return script_[at_++];
  }
  bool keeps_bytes(uint64_t offset) override {
    asked_for_bytes_ = true;
    return tearing_.keeps(offset / tearing_.border_bytes);
  }
  bool keeps_size() override { return tearing_.keeps_size; }
  uint64_t border_bytes() const override { return tearing_.border_bytes; }
  bool asked_for_bytes() const { return asked_for_bytes_; }

 private:
  std::vector<bool>& script_;
  const Tearing& tearing_;
  size_t at_ = 0;
  bool asked_for_bytes_ = false;
};

// The next script in the order of binary counting; false after the last.
bool advance(std::vector<bool>& script) {
  while (!script.empty() && script.back()) script.pop_back();
  if (!script.empty()) script.back() = true;
  return !script.empty();
}

// A history: what is durable before, what is then done, which saves a reader may find during it and after it.
struct History {
  std::vector<ExampleSave> before = {};
  ExampleSave saved = {};
  bool prunes = false;
  std::function<std::unique_ptr<CrashEnv>()> make_env = [] { return std::make_unique<CrashEnv>(); };

  std::unique_ptr<CrashEnv> prepared() const {
    auto env = make_env();
    for (const auto& save : before) save_example(*env, "run/ckpt", save);
    return env;
  }
  // Whether the commit returned; the power may go at any time.
  bool play(CrashEnv& env) const {
    bool is_committed = false;
    try {
      save_example(env, "run/ckpt", saved);
      is_committed = true;
      if (prunes) prune_store(env, "run/ckpt", {.keep_last = 1});
      sweep_store(env, "run/ckpt", std::nullopt);
    } catch (const IoError&) {
      return is_committed;
    }
    return is_committed;
  }
  int calls() const {
    const auto env = prepared();
    const int start = env->calls();
    EXPECT_TRUE(play(*env));
    return env->calls() - start;
  }
};

// What is wrong with the store after a crash; "" when nothing is.
std::string complaint(CrashEnv& env, const History& history, bool is_committed) {
  try {
    const auto found = find_newest(env, "run/ckpt", Check::kEveryBlock);
    if (!found) return history.before.empty() && !is_committed ? "" : "no step is found";
    if (!found->passed_over.empty()) return found->passed_over.front().what();
    if (holds_example(env, *found, history.saved)) return "";
    if (is_committed) return "the commit returned and the old step is found";
    if (!history.before.empty() && holds_example(env, *found, history.before.back())) return "";
    return "a mixture is found";
  } catch (const Error& error) {
    return error.what();
  }
}

bool finds(CrashEnv& env, const ExampleSave& save) {
  const auto found = find_newest(env, "run/ckpt", Check::kManifest);
  return found && holds_example(env, *found, save);
}

// A run that goes on after the crash.
std::string complaint_of_the_next_save(CrashEnv& env) {
  try {
    const ExampleSave next{.step = 77, .world = 1, .salt = 7};
    sweep_store(env, "run/ckpt", std::nullopt);
    save_example(env, "run/ckpt", next);
    const auto found = find_newest(env, "run/ckpt", Check::kEveryBlock);
    return found && holds_example(env, *found, next) ? "" : "the next save is not found";
  } catch (const Error& error) {
    return error.what();
  }
}

struct Tally {
  int disks = 0;
  int saw_new_early = 0;  // the new step before its commit had returned
  std::vector<std::string> complaints = {};
};

// One disk: the power goes after `calls` calls and the keeper decides what is left. Whether bytes were at stake.
bool try_disk(const History& history, int calls, std::vector<bool>& script, const Tearing& tearing, Tally& tally) {
  const auto env = history.prepared();
  env->cut_power_after(calls);
  const bool is_committed = history.play(*env);
  ScriptedKeeper keeper(script, tearing);
  env->crash(keeper);
  std::string problem = complaint(*env, history, is_committed);
  ++tally.disks;
  tally.saw_new_early += problem.empty() && !is_committed && finds(*env, history.saved) ? 1 : 0;
  if (problem.empty()) problem = complaint_of_the_next_save(*env);
  if (!problem.empty()) tally.complaints.push_back(cat("power cut after call ", calls, ": ", problem));
  return keeper.asked_for_bytes();
}

// Every prefix of the calls, every subset of the changes of names, every tearing of the bytes.
Tally try_all_disks(const History& history) {
  Tally tally;
  const int calls = history.calls();
  const auto is_enough = [&] { return tally.complaints.size() >= 5; };
  for (int n = 0; n <= calls && !is_enough(); ++n) {
    bool bytes_matter = true;
    for (size_t t = 0; t < tearings().size() && bytes_matter; ++t) {
      bytes_matter = false;
      std::vector<bool> script;
      do {
        bytes_matter = try_disk(history, n, script, tearings()[t], tally) || bytes_matter;
      } while (!is_enough() && advance(script));
    }
  }
  return tally;
}

void expect_all_good(const History& history, int least_disks) {
  const Tally tally = try_all_disks(history);
  EXPECT_TRUE(tally.complaints.empty()) << tally.complaints.size() << ", the first: " << tally.complaints.front();
  EXPECT_GE(tally.disks, least_disks);
  EXPECT_GT(tally.saw_new_early, 0) << "proof that the interesting disks are among them";
}

const ExampleSave kOld{.step = 1, .world = 2, .salt = 1};
const ExampleSave kNew{.step = 2, .world = 2, .salt = 2};

TEST(StoreCrash, TheFirstSaveIsThereWholeOrNotAtAll) { expect_all_good({.before = {}, .saved = kNew}, 500); }

TEST(StoreCrash, ASaveAndPruneLeaveTheOldStepOrTheNew) {
  expect_all_good({.before = {kOld}, .saved = kNew, .prunes = true}, 500);
}

TEST(StoreCrash, AReplacedStepIsTheOldOneOrTheNew) {
  expect_all_good({.before = {kOld}, .saved = {.step = 1, .world = 1, .salt = 3}}, 400);
}

// Seeds toss for every piece on its own, where the scripts above go by patterns.
TEST(StoreCrash, RandomlyTornDisksHoldTheOldStepOrTheNew) {
  const History history{.before = {kOld}, .saved = kNew, .prunes = true};
  const int calls = history.calls();
  for (int n = 0; n <= calls; ++n) {
    for (uint64_t seed = 0; seed < 10; ++seed) {
      const auto env = history.prepared();
      env->cut_power_after(n);
      const bool is_committed = history.play(*env);
      env->crash(seed);
      ASSERT_EQ(complaint(*env, history, is_committed), "") << "power cut after call " << n << ", seed " << seed;
    }
  }
}

// Wrong disks, which say they have synced and have not: the harness must see it, or the cases above prove nothing.
class ForgetsFolders : public CrashEnv {
 public:
  void sync_folder(const std::string& /*path*/) override {}
};

class ForgetsBytes : public CrashEnv {
  struct LazyFile : File {
    explicit LazyFile(std::unique_ptr<File> file) : File(file->path()), inner(std::move(file)) {}
    size_t read_at(uint64_t offset, std::span<std::byte> into) override { return inner->read_at(offset, into); }
    void write_at(uint64_t offset, std::span<const std::byte> bytes) override { inner->write_at(offset, bytes); }
    void sync() override {}
    uint64_t size() override { return inner->size(); }
    void truncate(uint64_t bytes) override { inner->truncate(bytes); }
    int fd() const override { return -1; }
    std::unique_ptr<File> inner;
  };

 public:
  std::unique_ptr<File> open(const std::string& path, OpenMode mode) override {
    return std::make_unique<LazyFile>(CrashEnv::open(path, mode));
  }
};

TEST(StoreCrash, TheHarnessCatchesAMissingSync) {
  const ExampleSave saved{.step = 2, .world = 1};
  const History no_folders{.before = {}, .saved = saved, .make_env = [] { return std::make_unique<ForgetsFolders>(); }};
  EXPECT_FALSE(try_all_disks(no_folders).complaints.empty());
  const History no_bytes{.before = {}, .saved = saved, .make_env = [] { return std::make_unique<ForgetsBytes>(); }};
  EXPECT_FALSE(try_all_disks(no_bytes).complaints.empty());
}

// Returns the error's text, or "" when the save came through (a failure while clearing up is only logged).
std::string save_with_fault(CrashEnv& env, const std::function<void(CrashEnv&)>& arm) {
  arm(env);
  try {
    save_example(env, "run/ckpt", kNew);
    prune_store(env, "run/ckpt", {.keep_last = 1});
  } catch (const IoError& error) {
    return error.what();
  }
  return "";
}

void expect_old_or_new_and_a_good_retry(CrashEnv& env, const History& history, const std::string& label) {
  EXPECT_EQ(complaint(env, history, false), "") << label;
  EXPECT_EQ(save_with_fault(env, [](CrashEnv&) {}), "") << label << ", tried again";
  env.crash();
  EXPECT_EQ(complaint(env, history, true), "") << label << ", tried again";
}

TEST(StoreCrash, EveryFailingCallLeavesTheOldStepOrTheNewAndCanBeRetried) {
  const History history{.before = {kOld}, .saved = kNew, .prunes = true};
  const int calls = history.calls();
  int refused = 0;
  for (const int code : {EIO, ENOSPC, EINTR}) {
    for (int n = 1; n <= calls; ++n) {
      const auto env = history.prepared();
      const std::string said = save_with_fault(*env, [&](CrashEnv& e) { e.fail_call(n, code); });
      if (env->faults_fired() == 0) break;  // the sweep at the history's end is not played here
      refused += said.empty() ? 0 : 1;
      EXPECT_TRUE(said.empty() || said.find("run/ckpt") != std::string::npos) << said;
      expect_old_or_new_and_a_good_retry(*env, history, cat("errno ", code, " at call ", n));
    }
  }
  EXPECT_GT(refused, calls);
}

TEST(StoreCrash, AShortWriteSaysTheDiskIsFullAndLeavesTheOldStep) {
  const History history{.before = {kOld}, .saved = kNew};
  for (int n = 1; n <= 4; ++n) {  // two ranks' files, the manifest, the pointer
    for (const size_t bytes : {0, 1, 512}) {
      const auto env = history.prepared();
      const std::string said = save_with_fault(*env, [&](CrashEnv& e) { e.short_write(n, bytes); });
      EXPECT_EQ(env->faults_fired(), 1);
      EXPECT_NE(said.find("No space left"), std::string::npos) << said;
      expect_old_or_new_and_a_good_retry(*env, history, cat("write ", n, " stopped after ", bytes));
    }
  }
}

}  // namespace
}  // namespace weft::checkpoint
