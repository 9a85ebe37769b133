#include "weft/checkpoint/safetensors.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "tests/support/refusal.h"
#include "tests/support/temp_dir.h"
#include "weft/base/crash_env.h"
#include "weft/base/error.h"

namespace weft::checkpoint {
namespace {

NamedTensors sample() {
  return {{"weight", at::randn({3, 5})},
          {"half", at::randn({7}).to(at::kBFloat16)},
          {"scalar", at::arange(1, at::kLong).squeeze()},
          {"none", at::zeros({0, 4})},
          {"strided", at::randn({4, 6}).t()}};
}

TEST(Safetensors, ReadsBackEveryBit) {
  CrashEnv env;
  const auto tensors = sample();
  write_safetensors(env, "/a.safetensors", tensors, {{"step", "12"}});
  const auto back = read_safetensors(env, "/a.safetensors");
  EXPECT_EQ(back.metadata.at("step"), "12");
  ASSERT_EQ(back.tensors.size(), tensors.size());
  for (const auto& [name, tensor] : tensors) {
    const auto& found = back.tensors.at(name);
    EXPECT_EQ(found.scalar_type(), tensor.scalar_type()) << name;
    EXPECT_EQ(found.sizes(), tensor.sizes()) << name;
    EXPECT_TRUE(at::equal(found, tensor.contiguous())) << name;
  }
}

TEST(Safetensors, SurvivesACrashOnceWritten) {
  CrashEnv env;
  write_safetensors(env, "/a.safetensors", sample());
  env.crash();
  EXPECT_EQ(read_safetensors(env, "/a.safetensors").tensors.size(), 5U);
}

// Every byte of the file, one flipped bit each: refused, or (only in the padding of the header) the same tensors.
TEST(Safetensors, NoticesEveryFlippedBit) {
  CrashEnv env;
  const NamedTensors tensors = {{"a", at::arange(20, at::kFloat)}};
  write_safetensors(env, "/a.safetensors", tensors);
  const std::string good = read_file(env, "/a.safetensors", 1 << 20);
  for (size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ (1 << (i % 8)));
    write_file(env, "/b.safetensors", bytes_of(bad));
    try {
      const auto back = read_safetensors(env, "/b.safetensors");
      const auto found = back.tensors.find("a");
      const bool renamed = found == back.tensors.end();  // a flipped bit in the name is another, valid name
      EXPECT_TRUE(renamed || at::equal(found->second, tensors[0].second))
          << "byte " << i << " changed a weight unnoticed";
    } catch (const Error&) {
    }
  }
}

TEST(Safetensors, NoticesEveryTruncation) {
  CrashEnv env;
  write_safetensors(env, "/a.safetensors", {{"a", at::arange(20, at::kFloat)}});
  const std::string good = read_file(env, "/a.safetensors", 1 << 20);
  for (size_t size = 0; size < good.size(); ++size) {
    write_file(env, "/b.safetensors", bytes_of(good.substr(0, size)));
    EXPECT_THROW(read_safetensors(env, "/b.safetensors"), Error) << size;
  }
}

TEST(Safetensors, ADiskThatFillsUpLeavesTheOldFile) {
  CrashEnv env;
  write_safetensors(env, "/a.safetensors", {{"a", at::zeros({4})}});
  bool failed_once = false;
  for (int n = 1;; ++n) {
    env.fail_call(n, ENOSPC);
    try {
      write_safetensors(env, "/a.safetensors", {{"a", at::arange(4, at::kFloat)}});
      break;  // every call has had its turn
    } catch (const Error&) {
      failed_once = true;
    }
    const auto back = read_safetensors(env, "/a.safetensors").tensors.at("a");
    EXPECT_TRUE(at::equal(back, at::zeros({4})) || at::equal(back, at::arange(4, at::kFloat))) << "call " << n;
  }
  EXPECT_TRUE(failed_once);
}

TEST(Safetensors, LoadIntoListsEveryMismatch) {
  const TensorFile file{.tensors = {{"a", at::zeros({2})}, {"d", at::zeros({1}, at::kHalf)}, {"extra", at::zeros({1})}},
                        .metadata = {}};
  try {
    load_into(file, {{"a", at::zeros({3})}, {"b", at::zeros({1})}, {"d", at::zeros({1})}}, "x");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.text().what,
              "'a' has another shape\n'b' is missing\n'd' is Half, the model wants Float\n'extra' is not a tensor of "
              "this model");
  }
}

TEST(Safetensors, SaysWhatCannotBeStored) {
  CrashEnv env;
  EXPECT_EQ(test::title_of([&] { write_safetensors(env, "/a", {{"c", at::zeros({1}, at::kComplexFloat)}}); }),
            "a tensor has a dtype that safetensors cannot hold");
}

}  // namespace
}  // namespace weft::checkpoint
