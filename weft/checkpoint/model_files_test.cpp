#include "weft/checkpoint/model_files.h"

#include <gtest/gtest.h>

#include "weft/base/error.h"
#include "weft/base/text.h"

namespace weft::checkpoint {
namespace {

using Files = std::vector<std::vector<size_t>>;

TEST(ModelFiles, AreAsFullAsTheyMayBe) {
  EXPECT_EQ(split_into_files({}, 10), Files({{}}));
  EXPECT_EQ(split_into_files({3, 3, 4}, 10), Files({{0, 1, 2}}));
  EXPECT_EQ(split_into_files({3, 3, 5, 5}, 10), Files({{0, 1}, {2, 3}}));
  EXPECT_EQ(split_into_files({3, 30, 0, 3}, 10), Files({{0}, {1}, {2, 3}}));
  EXPECT_EQ(split_into_files({1, 1}, 0), Files({{0}, {1}}));
  EXPECT_EQ(split_into_files({UINT64_MAX, 2}, UINT64_MAX), Files({{0}, {1}}));
}

TEST(ModelFiles, HaveTheNamesThatOthersLookFor) {
  EXPECT_EQ(model_file_name(0, 1), "model.safetensors");
  EXPECT_EQ(model_file_name(1, 12), "model-00002-of-00012.safetensors");
  EXPECT_EQ(model_file_name(99'999, 100'000), "model-100000-of-100000.safetensors");
  for (const char* name :
       {"model.safetensors", "model-00002-of-00012.safetensors", "model-100000-of-100000.safetensors"})
    EXPECT_TRUE(is_model_file(name)) << name;
  for (const char* name : {"", "model", "model-1-of-2.safetensors", "model-00001-of-00002.safetensors.tmp",
                           "model-00001.safetensors", "my-model-00001-of-00002.safetensors", "optimizer.safetensors"})
    EXPECT_FALSE(is_model_file(name)) << name;
}

TEST(ModelIndex, IsReadAsItWasWritten) {
  const std::map<std::string, std::string> files = {{"a.weight", "one"}, {"b \"quoted\"", "two"}};
  EXPECT_EQ(parse_index(render_index(files, 12), "x"), files);
  EXPECT_EQ(parse_index(R"({"metadata": {"total_size": 1, "more": [{}]}, "weight_map": {}})", "x").size(), 0U);
}

TEST(ModelIndex, RefusesWhatItShould) {
  for (const char* text :
       {"", "[]", "{}", R"({"weight_map": []})", R"({"weight_map": {"a": 1}})", R"({"weight_map": {"a": ""}})",
        R"({"weight_map": {"a": "../b"}})", R"({"weight_map": {"a": "/etc/passwd"}})", R"({"weight_map": {"a": ".."}})",
        R"({"weight_map": {"a": "b", "a": "c"}})", R"({"weight_map": {"a": "b\u0000c"}})",
        R"({"weight_map": {"a": "b"})"})
    EXPECT_THROW(parse_index(text, "x"), Error) << text;
}

}  // namespace
}  // namespace weft::checkpoint
