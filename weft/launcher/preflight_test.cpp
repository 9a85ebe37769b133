#include "weft/launcher/preflight.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "tests/support/temp_dir.h"
#include "tests/support/text.h"
#include "weft/base/error.h"
#include "weft/launcher/rank_environment.h"

namespace weft::launcher {
namespace {

using test::has;

std::string refusal_of(const LaunchSpec& spec) {
  try {
    check_launch(spec);
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), 2);
    return error.what();
  }
  return "";
}

TEST(Preflight, RefusesRanksThatCannotBe) {
  EXPECT_TRUE(has(refusal_of({.argv = {"true"}, .num_local = 0}), "0 is outside 1..1024"));
  EXPECT_TRUE(has(refusal_of({.argv = {"true"}, .num_local = 1025}), "1025 is outside 1..1024"));
  EXPECT_EQ(refusal_of({.argv = {"true"}, .num_local = 2}), "");
}

TEST(Preflight, RefusesToBindMoreRanksThanCores) {
  const int num_cpus = static_cast<int>(allowed_cpus().size());
  EXPECT_EQ(refusal_of({.argv = {"true"}, .num_local = num_cpus, .bind_cores = true}), "");
  EXPECT_TRUE(has(refusal_of({.argv = {"true"}, .num_local = num_cpus + 1, .bind_cores = true}), "--bind none"));
}

TEST(Preflight, MakesTheFolderForTheLogs) {
  const test::TempDir folder;
  EXPECT_EQ(refusal_of({.argv = {"true"}, .log_dir = folder / "a/b"}), "");
  EXPECT_TRUE(std::filesystem::is_directory(folder / "a/b"));
}

TEST(Preflight, WarnsInsideAnotherLauncher) {
  const auto warning = [](int num_local) {
    testing::internal::CaptureStderr();
    warn_of_outer_launcher({.argv = {"true"}, .num_local = num_local});
    return testing::internal::GetCapturedStderr();
  };
  ::unsetenv("OMPI_COMM_WORLD_RANK");
  ::unsetenv("SLURM_PROCID");
  EXPECT_EQ(warning(4), "");
  ::setenv("SLURM_PROCID", "0", 1);
  EXPECT_TRUE(has(warning(4), "SLURM_PROCID is set"));
  EXPECT_EQ(warning(1), "");
  ::setenv("OMPI_COMM_WORLD_RANK", "3", 1);
  EXPECT_TRUE(has(warning(4), "it starts 4 ranks of its own"));
  ::unsetenv("OMPI_COMM_WORLD_RANK");
  ::unsetenv("SLURM_PROCID");
}

}  // namespace
}  // namespace weft::launcher
