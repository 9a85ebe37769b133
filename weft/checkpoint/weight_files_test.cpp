#include "weft/checkpoint/weight_files.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "tests/support/refusal.h"
#include "weft/base/crash_env.h"
#include "weft/base/error.h"
#include "weft/base/text.h"
#include "weft/checkpoint/model_files.h"
#include "weft/checkpoint/safetensors.h"
#include "weft/checkpoint/weight_tensors.h"

namespace weft::checkpoint {
namespace {

void write_text(Env& env, const std::string& path, const std::string& text) { write_file(env, path, bytes_of(text)); }

TEST(WeightFiles, ReadOnlyWhatIsAskedFor) {
  CrashEnv env;
  write_safetensors(env, "/a.safetensors",
                    {{"w", at::arange(100, at::kFloat).view({10, 10})}, {"b", at::zeros({3}, at::kHalf)}});
  WeightFiles files(env, "/a.safetensors");
  EXPECT_EQ(files.names(), (std::vector<std::string>{"b", "w"}));
  EXPECT_EQ(files.find("w")->shape, (std::vector<int64_t>{10, 10}));
  EXPECT_EQ(files.find("x"), nullptr);
  EXPECT_TRUE(read_elements(files, "w", 17, 30).equal(at::arange(17, 47, at::kFloat)));
  EXPECT_EQ(read_elements(files, "b", 3, 0).numel(), 0);
  EXPECT_EQ(files.read_bytes(), 120);
}

TEST(WeightFiles, OfAFolderAndOfAnIndex) {
  CrashEnv env;
  env.make_folders("/m");
  EXPECT_EQ(test::title_of([&] { WeightFiles(env, "/m"); }), "there are no weights in this folder");
  write_safetensors(env, "/m/one", {{"a", at::zeros({2})}});
  write_safetensors(env, "/m/two", {{"b", at::arange(3, at::kLong)}});
  write_text(env, "/m/model.safetensors.index.json", render_index({{"a", "one"}, {"b", "two"}}, 32));
  for (const char* path : {"/m", "/m/model.safetensors.index.json"}) {
    WeightFiles files(env, path);
    EXPECT_EQ(files.names().size(), 2U);
    EXPECT_TRUE(read_elements(files, "b", 1, 2).equal(at::arange(1, 3, at::kLong)));
  }
  write_safetensors(env, "/m/model.safetensors", {{"c", at::zeros({2})}});
  EXPECT_EQ(WeightFiles(env, "/m").names(), std::vector<std::string>{"c"});
}

TEST(WeightFiles, RefuseAnIndexThatLies) {
  CrashEnv env;
  write_safetensors(env, "/one", {{"a", at::zeros({2})}});
  write_safetensors(env, "/two", {{"a", at::zeros({2})}});
  const auto open_index = [&](const std::map<std::string, std::string>& file_of) {
    write_text(env, "/i.json", render_index(file_of, 0));
    return test::title_of([&] { WeightFiles(env, "/i.json"); });
  };
  EXPECT_EQ(open_index({{"a", "one"}, {"b", "one"}}), "the index does not say what is in the files");
  EXPECT_EQ(open_index({{"a", "one"}, {"b", "two"}}), "a tensor is in two files");
  EXPECT_EQ(open_index({{"a", "../one"}}), "not a valid index of weight files");
  write_text(env, "/one", "no safetensors at all, but long enough for a header");
  EXPECT_EQ(open_index({{"a", "one"}}), "not a valid safetensors file");
}

}  // namespace
}  // namespace weft::checkpoint
