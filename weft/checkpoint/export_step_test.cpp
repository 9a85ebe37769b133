#include "weft/checkpoint/export_step.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/temp_dir.h"
#include "weft/base/half.h"
#include "weft/base/text.h"
#include "weft/checkpoint/safetensors_header.h"
#include "weft/checkpoint/save_step.h"

namespace weft::checkpoint {
namespace {

// Tensors a and b of n floats 0, 1/3, 2/3, ..., one of bytes, and one that is no parameter.
void save(const std::string& store, uint64_t n) {
  std::vector<float> values(n);
  for (uint64_t i = 0; i < n; ++i) values[i] = static_cast<float>(i) / 3;
  const auto shape = static_cast<int64_t>(n);
  const SaveRequest request{
      .step = 1,
      .id = "x",
      .slices = {{.tensor = "param/a", .dtype = "F32", .shape = {1, shape}, .begin = 0, .end = n},
                 {.tensor = "param/b", .dtype = "F32", .shape = {shape}, .begin = 0, .end = n},
                 {.tensor = "param/flag", .dtype = "U8", .shape = {2}, .begin = 0, .end = 2},
                 {.tensor = "optim/x/a", .dtype = "F32", .shape = {shape}, .begin = 0, .end = n}}};
  save_step(Env::posix(), store, request, [&](RankFileWriter& writer) {
    writer.append(std::as_bytes(std::span(values)));
    writer.append(std::as_bytes(std::span(values)));
    writer.append(bytes_of("hi"));
    writer.append(std::as_bytes(std::span(values)));
  });
}

SafetensorsHeader header_in(const std::string& text) {
  return parse_header(std::string_view(text).substr(8, parse_header_length(text.substr(0, 8), text.size(), "x")),
                      text.size(), "x");
}

TEST(ExportStep, OneFileInAnyType) {
  const test::TempDir dir;
  constexpr uint64_t kNum = 1'300'000;  // more than one piece
  save(dir / "s", kNum);
  for (const char* dtype : {"", "F32", "BF16", "F16"}) {
    const std::string out = dir / cat("out", dtype);
    uint64_t last = 0;
    const auto exported = export_step(Env::posix(), {.step = 1, .folder = dir / "s/step_00000001"}, out,
                                      {.dtype = dtype, .progress = [&](uint64_t done, uint64_t) { last = done; }});
    EXPECT_EQ(exported.num_tensors, 3);
    EXPECT_EQ(last, exported.bytes);
    const std::string text = read_file(Env::posix(), out + "/model.safetensors", 1 << 30);
    const auto header = header_in(text);
    ASSERT_EQ(header.tensors.size(), 3);
    EXPECT_EQ(header.tensors[0].name, "a");
    EXPECT_EQ(header.tensors[0].shape, (std::vector<int64_t>{1, static_cast<int64_t>(kNum)}));
    EXPECT_EQ(header.tensors[2].dtype, "U8");
    EXPECT_EQ(text.substr(text.size() - 2), "hi");
    const std::string_view last_of_b = std::string_view(text).substr(0, text.size() - 2);
    const float expected = static_cast<float>(kNum - 1) / 3;
    if (std::string_view(dtype) == "BF16") {
      uint16_t bits = 0;
      std::memcpy(&bits, last_of_b.data() + last_of_b.size() - 2, 2);
      EXPECT_EQ(bits, bfloat16_of_float(expected));
    } else if (std::string_view(dtype) != "F16") {
      float value = 0;
      std::memcpy(&value, last_of_b.data() + last_of_b.size() - 4, 4);
      EXPECT_EQ(value, expected);
    }
  }
}

TEST(ExportStep, SeveralFilesWithAnIndex) {
  const test::TempDir dir;
  save(dir / "s", 100);
  const auto exported =
      export_step(Env::posix(), {.step = 1, .folder = dir / "s/step_00000001"}, dir / "out", {.max_file_bytes = 500});
  ASSERT_EQ(exported.files.size(), 3);
  EXPECT_EQ(exported.files[0], dir / "out/model-00001-of-00002.safetensors");
  const auto index = nlohmann::json::parse(read_file(Env::posix(), exported.files[2], 1 << 20));
  EXPECT_EQ(index["weight_map"]["b"], "model-00002-of-00002.safetensors");
  EXPECT_EQ(index["metadata"]["total_size"], 802);
  EXPECT_THROW(export_step(Env::posix(), {.step = 1, .folder = dir / "s/step_00000001"}, dir / "out", {}), Error);
}

}  // namespace
}  // namespace weft::checkpoint
