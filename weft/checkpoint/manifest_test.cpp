#include "weft/checkpoint/manifest.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "weft/base/error.h"
#include "weft/base/text.h"

namespace weft::checkpoint {
namespace {

// Six numbers in two files, and an empty tensor: the example of docs/formats/checkpoint.md.
Manifest example() {
  const StoredFile first{.name = "rank_00000.safetensors",
                         .bytes = 144,
                         .block_bytes = 512,
                         .blocks = {{.high = 1, .low = 2}},
                         .slices = {{.tensor = "w", .begin = 0, .end = 4, .offset = 128}}};
  const StoredFile second{.name = "rank_00001.safetensors",
                          .bytes = 136,
                          .block_bytes = 512,
                          .blocks = {{.high = 3, .low = 4}},
                          .slices = {{.tensor = "w", .begin = 4, .end = 6, .offset = 128}}};
  return {.step = 12,
          .world = 2,
          .plan = "5eed",
          .tensors = {{"w", {.dtype = "F32", .shape = {2, 3}}}, {"e", {.dtype = "I64", .shape = {0}}}},
          .files = {first, second},
          .sections = {{"config", "{}"}, {"random", std::string("\x00\xFF", 2)}},
          .metrics = {{"loss", 2.5}}};
}

std::string complaint_of(std::string_view text) {
  try {
    parse_manifest(text, "ckpt/manifest.json");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    EXPECT_EQ(error.text().where, "ckpt/manifest.json");
    return error.text().what;
  }
  return "";
}

std::string unsealed(const std::string& text) { return "{" + text.substr(text.find(',') + 1); }

TEST(Manifest, ReadsBackWhatItRenders) { EXPECT_EQ(parse_manifest(render_manifest(example()), "x"), example()); }

TEST(Manifest, SaysWhichHostHasAFile) {
  Manifest manifest = example();
  manifest.files[1].host = "node-b";
  const std::string text = render_manifest(manifest);
  EXPECT_EQ(parse_manifest(text, "x"), manifest);
  std::string nameless = unsealed(text);
  nameless.replace(nameless.find("node-b"), 6, "");
  EXPECT_EQ(complaint_of(seal_manifest(nameless)),
            "file 'rank_00001.safetensors' has a 'host' that is empty, too long or not plain text");
}

TEST(Manifest, KeepsSectionsOfAnyBytes) {
  Manifest manifest = example();
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  manifest.sections = {{"all", all}, {"nothing", ""}, {"text", "größe\n\"\\"}, {"half", "gr\xC3"}};
  EXPECT_EQ(parse_manifest(render_manifest(manifest), "x"), manifest);
}

TEST(Manifest, APartTravelsAsText) {
  const Part part{.tensors = example().tensors, .file = example().files[0]};
  EXPECT_EQ(parse_part(render_part(part), "x"), part);
  EXPECT_THROW(parse_part("{\"name\": 3}", "x"), Error);
}

TEST(Manifest, PartsMakeTheWhole) {
  const Manifest whole = example();
  Manifest head = whole;
  head.tensors.clear();
  head.files.clear();
  head.metrics["none"] = std::nan("");
  const Part late{.tensors = whole.tensors, .file = whole.files[1]},
      early{.tensors = whole.tensors, .file = whole.files[0]};
  EXPECT_EQ(merge_parts(head, std::vector{late, early}, "x"), whole);
}

TEST(Manifest, RefusesPartsThatDisagreeOrRepeat) {
  Manifest head = example();
  head.files.clear();
  const Part part{.tensors = example().tensors, .file = example().files[0]};
  Part other{.tensors = example().tensors, .file = example().files[1]};
  other.tensors.at("w").shape = {6};
  const auto complaint = [&](const std::vector<Part>& parts) -> std::string {
    try {
      merge_parts(head, parts, "x");
    } catch (const Error& error) {
      return error.text().what;
    }
    return "";
  };
  EXPECT_EQ(complaint({part, other}), "tensor 'w' has another shape or dtype in rank_00001.safetensors than before");
  EXPECT_EQ(complaint({part, part}), "file 'rank_00000.safetensors' stands twice");
  EXPECT_EQ(complaint({part}), "element 4 of tensor 'w' lies in no file; it has 6");
}

TEST(Manifest, EveryFlippedBitIsFound) {
  const std::string good = render_manifest(example());
  for (size_t bit = 0; bit < good.size() * 8; ++bit) {
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << bit % 8));
    ASSERT_NE(complaint_of(bad), "") << "bit " << bit;
  }
}

TEST(Manifest, EveryCutIsFound) {
  const std::string good = render_manifest(example());
  for (size_t size = 0; size < good.size(); ++size) ASSERT_NE(complaint_of(good.substr(0, size)), "") << size;
}

// One change to a good manifest a row, sealed again as somebody with intent would, and the words that must name its fault.
TEST(Manifest, NamesEachFault) {
  struct Case {
    const char* from;
    const char* to;
    const char* words;
  };
  const Case cases[] = {
      {"\"version\":1", "\"version\":2", "not of version 1"},
      {"\"version\":1", "\"version\":\"1\"", "not of version 1"},
      {"\"plan\":\"5eed\"", "\"plan\":\"5eed\",\"plan\":\"other\"", "the key 'plan' stands twice"},
      {"\"plan\":\"5eed\"", "\"plan\":\"5eed\",\"xxh3_128\":\"\"", "the key 'xxh3_128' stands twice"},
      {"\"plan\":\"5eed\"", "\"plan\":\"5eed\",\"more\":1", "has keys that the format does not know"},
      {"\"plan\":\"5eed\",", "", "lacks 'plan'"},
      {"\"plan\":\"5eed\"", "\"plan\":[[[[[[[[[[]]]]]]]]]]", "nested deeper"},
      {"\"plan\":\"5eed\"", "\"plan\":7", "'plan' that is not a string"},
      {"\"step\":12", "\"step\":-1", "'step' that is not a whole number from 0 to 2^63-1"},
      {"\"step\":12", "\"step\":9223372036854775808", "'step' that is not a whole number"},
      {"\"step\":12", "\"step\":1.5", "'step' that is not a whole number"},
      {"\"world\":2", "\"world\":0", "'world' of 0 ranks"},
      {"\"world\":2", "\"world\":4294967298", "'world' of 4294967298 ranks"},
      {"\"loss\":2.5", "\"loss\":\"2.5\"", "a metric is not"},
      {"\"loss\":2.5", "\"loss\":1e999", "not JSON"},
      {"{\"hex\":\"00ff\"}", "{\"hex\":\"00fg\"}", "section 'random' is not hex digits"},
      {"{\"hex\":\"00ff\"}", "{\"hex\":\"00f\"}", "section 'random' has half a byte too much"},
      {"{\"hex\":\"00ff\"}", "7", "section 'random' is not an object"},
      {"\"dtype\":\"F32\"", "\"dtype\":\"F33\"", "tensor 'w' has the unknown dtype 'F33'"},
      {"\"shape\":[2,3]", "\"shape\":[2,-3]", "tensor 'w' has a 'shape' that is not a whole number"},
      {"\"shape\":[2,3]", "\"shape\":[4611686018427387904,2]", "shape of tensor 'w' takes 2^63 bytes"},
      {"\"shape\":[2,3]", "\"shape\":[0,9223372036854775807,4]", "shape of tensor 'w' takes 2^63 bytes"},
      {"\"shape\":[2,3]", "\"shape\":[2,4]", "element 6 of tensor 'w' lies in no file; it has 8"},
      {"\"shape\":[2,3]", "\"shape\":[5]", "claims elements 4 to 6 of tensor 'w', which has 5"},
      {"\"w\":{", "\"v\":{", "a tensor that is not listed: 'w'"},
      {"\"e\":{", "\"\":{", "a tensor's name is empty"},
      {"\"e\":{", "\"\\u001b[2J\":{", "a tensor's name is empty, too long or not plain text"},
      {"[\"w\",4,6,128]", "[\"w\",3,5,128]",
       "element 3 of tensor 'w' lies in two places, one of them file 'rank_00001"},
      {"[\"w\",4,6,128]", "[\"w\",6,4,128]", "claims elements 6 to 4"},
      {"[\"w\",4,6,128]", "[\"w\",4,6]", "not [tensor, begin, end, offset]"},
      {"[\"w\",4,6,128]", "[\"w\",4,6,132]", "tensor 'w' lies at byte 132 of file 'rank_00001"},
      {"[\"w\",4,6,128]", "[\"w\",4,6,120]", "slices of file 'rank_00001.safetensors' end at byte 128 of 136"},
      {"[\"w\",4,6,128]", "[\"w\",4,6,9223372036854775807]", "lies at byte 9223372036854775807"},
      {"[\"w\",4,6,128]", "[\"w\",4,5,128],[\"w\",5,6,128]",
       "at byte 128 of file 'rank_00001.safetensors' with 4 bytes"},
      {"\"bytes\":136", "\"bytes\":9223372036854775807", "has 1 hashes, not 18014398509481984"},
      {"\"bytes\":136", "\"bytes\":9223372036854775808", "file 'rank_00001.safetensors' has a 'bytes' that is not"},
      {"\"block_bytes\":512", "\"block_bytes\":0", "blocks of 0 bytes"},
      {"\"block_bytes\":512", "\"block_bytes\":513", "blocks of 513 bytes"},
      {"\"block_bytes\":512", "\"block_bytes\":1073741824", "blocks of 1073741824 bytes"},
      {"00030000000000000004", "0003000000000000000", "hex digits, not 32 for each"},
      {"00030000000000000004", "0003000000000000000x", "malformed hash for block 0"},
      {"rank_00001.safetensors", "../rank_00001.safetensors", "is not NAME.safetensors inside the step's folder"},
      {"rank_00001.safetensors", "/etc/rank_00001.safetensors", "is not NAME.safetensors inside"},
      {"rank_00001.safetensors", ".rank_00001.safetensors", "is not NAME.safetensors inside"},
      {"rank_00001.safetensors", "a\\\\b.safetensors", "is not NAME.safetensors inside"},
      {"rank_00001.safetensors", "manifest.json", "is not NAME.safetensors inside"},
      {"rank_00001.safetensors", "rank_00000.safetensors", "the key 'rank_00000.safetensors' stands twice"},
  };
  const std::string good = unsealed(render_manifest(example()));
  ASSERT_EQ(complaint_of(seal_manifest(good)), "");
  for (const auto& c : cases) {
    std::string bad = good;
    const size_t at = bad.find(c.from);
    ASSERT_NE(at, std::string::npos) << c.from;
    bad.replace(at, std::string_view(c.from).size(), c.to);
    const std::string said = complaint_of(seal_manifest(bad));
    EXPECT_NE(said.find(c.words), std::string::npos) << c.to << "\nsaid: " << said;
  }
}

TEST(Manifest, SurvivesDeepNestingAndManyValues) {
  EXPECT_NE(complaint_of(seal_manifest(cat("{\"plan\":", std::string(1'000'000, '[')))), "");
  EXPECT_NE(complaint_of(seal_manifest("")), "");
}

TEST(Manifest, NamesTheTensorsOfABlock) {
  StoredFile file{.name = "f", .bytes = 2048, .block_bytes = 512, .blocks = std::vector<Hash128>(4), .slices = {}};
  file.slices = {{.tensor = "a", .begin = 0, .end = 1, .offset = 512},
                 {.tensor = "b", .begin = 0, .end = 1, .offset = 1030}};
  EXPECT_EQ(file.tensors_in_block(0), "the header");
  EXPECT_EQ(file.tensors_in_block(1), "'a'");
  EXPECT_EQ(file.tensors_in_block(2), "'a', 'b'");
  EXPECT_EQ(file.tensors_in_block(3), "'b'");
}

}  // namespace
}  // namespace weft::checkpoint
