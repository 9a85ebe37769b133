#include "weft/checkpoint/safetensors_header.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "weft/base/error.h"

namespace weft::checkpoint {
namespace {

std::string eight_bytes(uint64_t length) {
  std::string out(8, '\0');
  std::memcpy(out.data(), &length, 8);
  return out;
}

// What the parser says to this JSON before `data_bytes` bytes of data; "" when it accepts.
std::string header_complaint(const std::string& json, uint64_t data_bytes) {
  try {
    parse_header(json, 8 + json.size() + data_bytes, "x.safetensors");
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), 2);
    EXPECT_EQ(error.text().where, "x.safetensors");
    return error.text().what;
  }
  return "";
}

TEST(SafetensorsHeader, ReadsBackWhatItRenders) {
  const SafetensorsHeader header{.tensors = {{.name = "b", .dtype = "F32", .shape = {2, 3}, .begin = 0, .end = 24},
                                             {.name = "empty", .dtype = "I64", .shape = {0}, .begin = 24, .end = 24},
                                             {.name = "a", .dtype = "BF16", .shape = {}, .begin = 24, .end = 26}},
                                 .metadata = {{"step", "7"}},
                                 .data_begin = 0,
                                 .data_bytes = 26};
  const std::string bytes = render_header(header);
  EXPECT_EQ(bytes.size() % 64, 0U);
  const uint64_t length = parse_header_length(bytes.substr(0, 8), bytes.size() + 26, "x");
  const auto back = parse_header(bytes.substr(8, length), bytes.size() + 26, "x");
  ASSERT_EQ(back.tensors.size(), 3U);
  EXPECT_EQ(back.tensors[0].name, "b");
  EXPECT_EQ(back.tensors[0].shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(back.tensors[1].name, "empty");
  EXPECT_EQ(back.tensors[2].dtype, "BF16");
  EXPECT_EQ(back.metadata.at("step"), "7");
  EXPECT_EQ(back.data_begin, bytes.size());
}

TEST(SafetensorsHeader, AcceptsAnEmptyFile) { EXPECT_EQ(header_complaint("{}", 0), ""); }

TEST(SafetensorsHeader, RefusesALengthThatCannotBe) {
  EXPECT_THROW(parse_header_length("short", 5, "x"), Error);
  EXPECT_THROW(parse_header_length(eight_bytes(kMaxHeaderBytes + 1), UINT64_MAX, "x"), Error);
  EXPECT_THROW(parse_header_length(eight_bytes(UINT64_MAX), 100, "x"), Error);
  EXPECT_THROW(parse_header_length(eight_bytes(93), 100, "x"), Error);
  EXPECT_EQ(parse_header_length(eight_bytes(92), 100, "x"), 92U);
}

// One hostile header a row, and the words that must name its fault.
TEST(SafetensorsHeader, NamesEachFault) {
  struct Case {
    const char* json;
    uint64_t data_bytes;
    const char* words;
  };
  const Case cases[] = {
      {"", 0, "not JSON"},
      {"[1, 2]", 0, "not an object"},
      {"{\"a\": 1}", 0, "is not {dtype, shape, data_offsets}"},
      {R"({"a": {"dtype": "F32", "shape": [1]}})", 4, "is not {dtype"},
      {R"({"a": {"dtype": "F32", "shape": [1], "offsets": [0, 4]}})", 4, "lacks 'data_offsets'"},
      {R"({"a": {"dtype": "F99", "shape": [1], "data_offsets": [0, 4]}})", 4, "unknown dtype 'F99'"},
      {R"({"a": {"dtype": 4, "shape": [1], "data_offsets": [0, 4]}})", 4, "malformed dtype"},
      {R"({"a": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}})", 4, "not a list of sizes"},
      {R"({"a": {"dtype": "F32", "shape": [1.5], "data_offsets": [0, 4]}})", 4, "not a list of sizes"},
      {R"({"a": {"dtype": "F32", "shape": [4294967296, 4294967296], "data_offsets": [0, 0]}})", 0, "overflows"},
      {R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}})", 4, "its shape takes 8"},
      {R"({"a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 0]}})", 4, "spans bytes 4..0"},
      {R"({"a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}})", 8, "starts at byte 4"},
      {R"({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}})", 5, "the file holds 5"},
      {R"({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}, "b": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}})",
       4, "the one before ends at 4"},
      {R"({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}, "a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}})",
       4, "'a' stands twice"},
      {R"({"__metadata__": 3})", 0, "__metadata__ is not an object"},
      {R"({"__metadata__": {"k": 3}})", 0, "is not a string"},
      {R"({"a": [[[[[[[[1]]]]]]]]})", 0, "nested deeper"},
  };
  for (const auto& c : cases) {
    EXPECT_NE(header_complaint(c.json, c.data_bytes).find(c.words), std::string::npos)
        << c.json << "\nsaid: " << header_complaint(c.json, c.data_bytes);
  }
}

// Depth must be refused while parsing, not after the parser has recursed through it.
TEST(SafetensorsHeader, SurvivesDeepNesting) {
  EXPECT_NE(header_complaint("{\"a\": " + std::string(1'000'000, '['), 0), "");
}

}  // namespace
}  // namespace weft::checkpoint
