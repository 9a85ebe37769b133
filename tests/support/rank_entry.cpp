#include "tests/support/rank_entry.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <map>

#include "tests/support/rank_processes.h"

namespace weft::test {
namespace {

// A function's static: entries register from other files' initialisers, in any order.
std::map<std::string, RankMain>& entries() {
  static std::map<std::string, RankMain> it;
  return it;
}

std::string required(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr) throw std::invalid_argument(concat("a rank needs ", name, " in its environment"));
  return value;
}

// A test that crashes takes its ranks with it. The parent may have died before we asked for that.
void die_with_parent() {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const pid_t parent = std::stoi(required("WEFT_TEST_PARENT"));
  if (::kill(parent, 0) != 0 && errno == ESRCH) ::_exit(1);
}

int run_entry() {
  die_with_parent();
  const std::string name = required("WEFT_TEST_RANK_ENTRY");
  // What this rank starts itself is no rank of ours.
  ::unsetenv("WEFT_TEST_RANK_ENTRY");
  check_rank_main_exists(name);
  // A rank gives up waiting for others a little before it would be killed: the text then says for whom.
  constexpr double kShareOfLimit = 0.9;
  const Seconds within(std::stod(required("WEFT_TEST_RANK_LIMIT_S")) * kShareOfLimit);
  const int rank = std::stoi(required("WEFT_TEST_RANK"));
  ::pthread_setname_np(::pthread_self(), concat("rank ", rank).c_str());
  RankSelf self(rank, std::stoi(required("WEFT_TEST_WORLD")), required("WEFT_TEST_DIR"), within);
  const int code = entries().at(name)(self);
  return code == 0 && testing::UnitTest::GetInstance()->ad_hoc_test_result().Failed() ? 1 : code;
}

}  // namespace

RankSelf::RankSelf(int rank, int world, std::filesystem::path dir, Seconds within)
    : rank_(rank), world_(world), dir_(std::move(dir)), store_(dir_ / "store", rank, world, within) {}

bool register_rank_main(const char* name, RankMain entry) {
  if (entries().emplace(name, entry).second) return true;
  std::fprintf(stderr, "WEFT_RANK_MAIN(%s) appears twice in this binary; give one of them another name\n", name);
  std::abort();
}

std::vector<std::string> rank_environment(const RankAssignment& assignment) {
  return {concat("WEFT_TEST_RANK_ENTRY=", assignment.entry),
          concat("WEFT_TEST_RANK=", assignment.rank),
          concat("WEFT_TEST_WORLD=", assignment.world),
          concat("WEFT_TEST_DIR=", assignment.dir.string()),
          concat("WEFT_TEST_RANK_LIMIT_S=", assignment.limit.count()),
          concat("WEFT_TEST_PARENT=", ::getpid())};
}

void check_rank_main_exists(const std::string& name) {
  if (entries().contains(name)) return;
  std::string known;
  for (const auto& [other, entry] : entries()) known += " " + other;
  throw std::invalid_argument(concat("no WEFT_RANK_MAIN(", name, ") in this binary; it has:", known));
}

bool is_rank_process() { return std::getenv("WEFT_TEST_RANK_ENTRY") != nullptr; }

int run_as_rank() {
  try {
    return run_entry();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "the rank threw: %s\n", error.what());
  } catch (...) {
    std::fprintf(stderr, "the rank threw an exception that is no std::exception\n");
  }
  return kThrewExitCode;
}

}  // namespace weft::test
