#include "weft/checkpoint/foreign/torch_file.h"

#include <gtest/gtest.h>

#include "weft/base/crash_env.h"
#include "weft/base/error.h"
#include "weft/checkpoint/foreign/torch_save_maker.h"

namespace weft::checkpoint::foreign {
namespace {

using test::dict, test::floats, test::global, test::integer, test::pickled, test::TensorWords, test::text;

class TorchFiles : public testing::Test {
 protected:
  TorchFile open(const std::string& pickle, const test::Entries& storages) {
    return open_bytes(test::torch_file(pickle, storages));
  }
  TorchFile open_bytes(const std::string& bytes) {
    test::put_file(env_, "m.bin", bytes);
    return {env_, "m.bin"};
  }
  std::string why(const std::function<void()>& what) {
    try {
      what();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInput);
      return error.what();
    }
    return "";
  }
  // Of one tensor over a storage of six floats, whatever it says.
  std::string why_not(const TensorWords& words) {
    return why([&] {
      TorchFile file = open(pickled(dict({{"a", test::tensor(words)}})), {{"0", floats({0, 1, 2, 3, 4, 5})}});
      file.tensor(*file.root().find("a"), "a").value();
    });
  }
  static std::vector<float> read(TorchFile& file, const TorchTensor& tensor, uint64_t first, uint64_t count) {
    std::vector<float> out(count);
    file.read(tensor, first, std::as_writable_bytes(std::span(out)));
    return out;
  }

  CrashEnv env_;
};

using Floats = std::vector<float>;

TEST_F(TorchFiles, GiveTheElementsThatAreAskedFor) {
  TorchFile file =
      open(pickled(dict({{"a", test::tensor({.count = 6, .shape = {2, 3}, .strides = {3, 1}})}, {"n", "K\x05"}})),
           {{"0", floats({0, 1, 2, 3, 4, 5})}});
  const auto a = file.tensor(*file.root().find("a"), "a");
  ASSERT_TRUE(a);
  EXPECT_EQ(a->dtype, "F32");
  EXPECT_EQ(a->shape, std::vector<int64_t>({2, 3}));
  EXPECT_EQ(read(file, *a, 0, 6), Floats({0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(read(file, *a, 2, 3), Floats({2, 3, 4}));
  EXPECT_EQ(read(file, *a, 6, 0), Floats());
  EXPECT_FALSE(file.tensor(*file.root().find("n"), "n"));
}

TEST_F(TorchFiles, FollowStridesInAnyPieces) {
  const std::string storage = floats({0, 1, 2, 3, 4, 5});
  const test::Entries tensors = {{"turned", test::tensor({.count = 6, .shape = {3, 2}, .strides = {1, 3}})},
                                 {"column", test::tensor({.count = 6, .first = 1, .shape = {2}, .strides = {3}})},
                                 {"spread", test::tensor({.count = 6, .first = 2, .shape = {2, 3}, .strides = {0, 1}})},
                                 {"one", test::tensor({.count = 6, .first = 5, .shape = {}, .strides = {}})},
                                 {"none", test::tensor({.count = 6, .first = 6, .shape = {0, 3}, .strides = {3, 1}})},
                                 {"odd", test::tensor({.count = 6, .first = 3, .shape = {1, 3}, .strides = {77, 1}})}};
  TorchFile file = open(pickled(dict(tensors)), {{"0", storage}});
  const std::map<std::string, Floats> expected = {{"turned", {0, 3, 1, 4, 2, 5}},
                                                  {"column", {1, 4}},
                                                  {"spread", {2, 3, 4, 2, 3, 4}},
                                                  {"one", {5}},
                                                  {"none", {}},
                                                  {"odd", {3, 4, 5}}};
  for (const auto& [name, values] : expected) {
    const auto tensor = file.tensor(*file.root().find(name), name).value();
    ASSERT_EQ(tensor.num_elements(), values.size()) << name;
    for (size_t first = 0; first <= values.size(); ++first) {
      for (size_t count = 0; count <= values.size() - first; ++count)
        EXPECT_EQ(read(file, tensor, first, count), Floats(values.begin() + first, values.begin() + first + count))
            << name;
    }
  }
}

TEST_F(TorchFiles, HaveParametersAndTensorsWithAttributes) {
  const std::string plain = test::tensor({.count = 2, .shape = {2}, .strides = {1}});
  const std::string args = cat("((", text("storage"), global("torch", "FloatStorage"), text("0"), text("cpu"),
                               integer(2), "tQ", integer(0), test::sizes({2}), test::sizes({1}), "\x89", "}t");
  TorchFile file = open(
      pickled(dict({{"p", cat(global("torch._utils", "_rebuild_parameter"), "(", plain, "\x88}tR")},
                    {"t", cat(global("torch._tensor", "_rebuild_from_type_v2"), "(",
                              global("torch._utils", "_rebuild_tensor_v2"), global("torch", "Tensor"), args, "}tR")}})),
      {{"0", floats({7, 8})}});
  for (const char* name : {"p", "t"}) {
    const auto tensor = file.tensor(*file.root().find(name), name);
    ASSERT_TRUE(tensor) << name;
    EXPECT_EQ(read(file, *tensor, 0, 2), Floats({7, 8}));
  }
}

TEST_F(TorchFiles, RefuseTensorsThatLeaveTheirStorage) {
  EXPECT_EQ(why_not({.count = 6, .shape = {6}, .strides = {1}}), "");
  const int64_t huge = INT64_MAX;
  for (const TensorWords& words :
       {TensorWords{.count = 6, .shape = {7}, .strides = {1}},
        TensorWords{.count = 6, .first = 1, .shape = {6}, .strides = {1}},
        TensorWords{.count = 6, .first = huge, .shape = {1}, .strides = {1}},
        TensorWords{.count = 6, .shape = {2}, .strides = {6}},
        TensorWords{.count = 6, .shape = {2, 2}, .strides = {huge, huge}},
        TensorWords{.count = 6, .shape = {huge, huge}, .strides = {0, 0}},
        TensorWords{.count = 6, .shape = {huge}, .strides = {0}},
        TensorWords{.count = 6, .shape = {2}, .strides = {-1}}, TensorWords{.count = 6, .shape = {-2}, .strides = {1}},
        TensorWords{.count = 6, .first = -1, .shape = {2}, .strides = {1}},
        TensorWords{.count = 6, .shape = {2, 2}, .strides = {1}}, TensorWords{.count = 7, .shape = {2}, .strides = {1}},
        TensorWords{.count = -6, .shape = {2}, .strides = {1}},
        TensorWords{.count = huge, .shape = {2}, .strides = {1}},
        TensorWords{.key = "1", .count = 6, .shape = {2}, .strides = {1}},
        TensorWords{.key = "../0", .count = 6, .shape = {2}, .strides = {1}},
        TensorWords{.storage = "DoubleStorage", .count = 6, .shape = {2}, .strides = {1}}})
    EXPECT_NE(why_not(words), "") << words.first << " " << words.count << " " << words.key;
  EXPECT_NE(why_not({.count = 6, .shape = std::vector<int64_t>(65, 1), .strides = std::vector<int64_t>(65, 1)}), "");
}

TEST_F(TorchFiles, SayWhatTheyAreNot) {
  const std::string pickle = pickled("}");
  EXPECT_NE(why([&] { open_bytes("\x80\x02\x8a\x0a and so on"); }).find("before 1.6"), std::string::npos);
  EXPECT_NE(why([&] { open_bytes("hello"); }), "");
  EXPECT_NE(why([&] { open_bytes(test::zip_of({{.name = "a/x", .bytes = ""}})); }).find("without data.pkl"),
            std::string::npos);
  EXPECT_NE(why([&] {
              open_bytes(test::zip_of(
                  {{.name = "a/data.pkl", .bytes = pickle}, {.name = "a/constants.pkl", .bytes = pickle}}));
            }).find("TorchScript"),
            std::string::npos);
  EXPECT_NE(
      why([&] {
        open_bytes(test::zip_of({{.name = "a/data.pkl", .bytes = pickle}, {.name = "a/byteorder", .bytes = "big"}}));
      }).find("big-endian"),
      std::string::npos);
  EXPECT_NE(
      why([&] {
        open_bytes(test::zip_of({{.name = "a/data.pkl", .bytes = pickle}, {.name = "b/data.pkl", .bytes = pickle}}));
      }).find("two"),
      std::string::npos);
  const std::string bad = why([&] { open(pickled(cat(global("os", "system"), "(", text("true"), "tR")), {}); });
  EXPECT_NE(bad.find("os.system"), std::string::npos);
  EXPECT_NE(bad.find("m.bin, data.pkl, byte 2"), std::string::npos) << bad;
}

TEST_F(TorchFiles, CutAnywhereAreRefused) {
  const std::string bytes = test::torch_file(
      pickled(dict({{"a", test::tensor({.count = 2, .shape = {2}, .strides = {1}})}})), {{"0", floats({7, 8})}});
  open_bytes(bytes);
  for (size_t size = 0; size < bytes.size(); ++size)
    EXPECT_NE(why([&] { open_bytes(bytes.substr(0, size)); }), "") << size;
}

}  // namespace
}  // namespace weft::checkpoint::foreign
