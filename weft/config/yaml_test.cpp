#include "weft/config/yaml.h"

#include <gtest/gtest.h>

#include <optional>

#include "weft/base/text.h"
#include "weft/config/hjson.h"
#include "weft/config/test_reading_impl.h"

namespace weft::config {
namespace {

std::string yaml_to_json(const std::string& text) { return to_json(parse_yaml(source_of(text)).root); }

void parse_yaml_text(const std::string& text) { parse_yaml(source_of(text)); }
std::optional<ReadError> yaml_error(const std::string& text) {
  return read_error_of([&] { parse_yaml_text(text); });
}

TEST(Yaml, ReadsPlainScalarsAsPyYamlDoes) {
  const AcceptedText cases[] = {
      {"yes", "true"},
      {"On", "true"},
      {"TRUE", "true"},
      {"no", "false"},
      {"OFF", "false"},
      {"False", "false"},
      {"y", "\"y\""},
      {"n", "\"n\""},
      {"yEs", "\"yEs\""},
      {"~", "null"},
      {"", "null"},
      {"Null", "null"},
      {"nULL", "\"nULL\""},
      {"3", "3"},
      {"+3", "3"},
      {"-3", "-3"},
      {"1_000", "1000"},
      {"017", "15"},
      {"08", "\"08\""},
      {"0o17", "\"0o17\""},
      {"0x1F", "31"},
      {"-0b101", "-5"},
      {"1:30", "90"},
      {"1:2:3", "3723"},
      {"1:60", "\"1:60\""},
      {"1.0", "1.0"},
      {"1.", "1.0"},
      {".5", "0.5"},
      {"-.5", "\"-.5\""},
      {"1.5e+3", "1500.0"},
      {"1_0.5", "10.5"},
      {"1:30.5", "90.5"},
      {"auto", "\"auto\""},
      {"2024-01-01", "\"2024-01-01\""},
      {"'5'", "\"5\""},
      {"\"yes\"", "\"yes\""},
      {"!!str 5", "\"5\""},
      {"!!int '5'", "5"},
      {"!!float 3", "3.0"},
      {"!!float 1e8", "1e+08"},
      {"!!bool 'on'", "true"},
      {"!!null ''", "null"},
      {"-9223372036854775808", "-9223372036854775808"},
  };
  for (const auto& [text, json] : cases) EXPECT_EQ(yaml_to_json(cat("a: ", text)), cat("{\"a\": ", json, "}")) << text;
}

TEST(Yaml, KeepsWhatLooksLikeANumberAndListsIt) {
  const SourcePtr source = source_of("a: 5e8\nb: 1e-5\nc: 1.5e3\nd: '1e8'\ne: 1.0e+8\nf: x1e8\n");
  const YamlTree tree = parse_yaml(source);
  EXPECT_EQ(to_json(tree.root), R"({"a": 500000000, "b": 1e-05, "c": 1500, "d": "1e8", "e": 1e+08, "f": "x1e8"})");
  ASSERT_EQ(tree.exponent_strings.size(), 3u);
  EXPECT_EQ(source->at(tree.exponent_strings[0]), "5e8");
  EXPECT_EQ(source->at(tree.exponent_strings[2]), "1.5e3");
}

TEST(Yaml, ReadsBlocksFlowsAndText) {
  EXPECT_EQ(yaml_to_json("a:\n  b: [1, {c: x}]\n  d:\n  - 1\n  - e: 2\n"),
            R"({"a": {"b": [1, {"c": "x"}], "d": [1, {"e": 2}]}})");
  EXPECT_EQ(yaml_to_json("a: |\n  x\n   y\nb: >-\n  x\n  y\nc: 'it''s'\nd: \"\\u00e9\\n\"\n"),
            "{\"a\": \"x\\n y\\n\", \"b\": \"x y\", \"c\": \"it's\", \"d\": \"é\\n\"}");
  EXPECT_EQ(yaml_to_json("{\"a\": 1, \"b\": [true, null]}"), R"({"a": 1, "b": [true, null]})");
  EXPECT_EQ(yaml_to_json("# nothing\n"), "null");
  EXPECT_EQ(yaml_to_json("--- \na: 1\n...\n"), R"({"a": 1})");
}

TEST(Yaml, FollowsAliasesAndMerges) {
  EXPECT_EQ(yaml_to_json("a: &x {k: 1, l: 2}\nb: *x\n"), R"({"a": {"k": 1, "l": 2}, "b": {"k": 1, "l": 2}})");
  EXPECT_EQ(yaml_to_json("a: &x {k: 1, l: 2}\nb: {<<: *x, l: 3}\n"),
            R"({"a": {"k": 1, "l": 2}, "b": {"k": 1, "l": 3}})");
  EXPECT_EQ(yaml_to_json("a: &x {k: 1}\nb: &y {k: 2, m: 3}\nc:\n  <<: [*x, *y]\n"),
            R"({"a": {"k": 1}, "b": {"k": 2, "m": 3}, "c": {"k": 1, "m": 3}})");
  EXPECT_EQ(yaml_to_json("a: {'<<': 1}\n"), R"({"a": {"<<": 1}})");
}

TEST(Yaml, GivesEveryValueItsPlaceInBytes) {
  const SourcePtr source = source_of("\xEF\xBB\xBF键: 值\nb:\n  c: [1, é]\n  d: x\n\n# end\ne: |\n  text\n");
  const Value root = parse_yaml(source).root;
  EXPECT_EQ(source->at(root.members[0].key_span), "键");
  EXPECT_EQ(source->at(root.members[0].value.span), "值");
  EXPECT_EQ(source->at(root.members[1].value.span), "c: [1, é]\n  d: x");
  EXPECT_EQ(source->at(find_path(root, "b.c")->items[1].span), "é");
  EXPECT_EQ(source->at(find_path(root, "b.c")->span), "[1, é]");
  EXPECT_EQ(source->at(root.members[2].value.span), "|\n  text");
  EXPECT_EQ(root.span.begin, 3u);
}

TEST(Yaml, SaysWhatIsWrongAndWhere) {
  const RefusedText cases[] = {
      {"a: 1\nb: 2\na: 3\n",
       "syntax/duplicate-key",
       {3, 1},
       "the key \"a\" stands here (line 3, column 1) and before (line 1"},
      {"a: 1\n\tb: 2\n", "syntax/yaml", {2, 1}, "a tab cannot indent"},
      {"a: b: c\n", "syntax/yaml", {1, 5}, "a ':' where no key can be"},
      {"a: [1, 2\n", "syntax/yaml", {2, 1}, "',' or ']' is missing"},
      {"a: 'x\n", "syntax/yaml", {2, 1}, "never closed"},
      {"a: 1\n---\nb: 2\n", "syntax/yaml", {2, 1}, "second document"},
      {"é: !!python/object x\n", "syntax/yaml", {1, 4}, "python/object means nothing"},
      {"a: !!set {x}\n", "syntax/yaml", {1, 4}, "means nothing"},
      {"a: !!int x\n", "syntax/yaml", {1, 4}, "not of the type"},
      {"a: *x\n", "syntax/yaml", {1, 4}, "no anchor &x"},
      {"a: &x [*x]\n", "syntax/yaml", {1, 8}, "contain itself"},
      {"? [a]\n: 1\n", "syntax/yaml", {1, 3}, "a key must be a plain word"},
      {"a: {<<: 1}\n", "syntax/yaml", {1, 5}, "takes an object"},
      {"a: .inf\n", "syntax/not-a-number", {1, 4}, ".inf"},
      {"a: .NaN\n", "syntax/not-a-number", {1, 4}, ".NaN"},
      {"a: 9223372036854775808\n", "syntax/number-too-large", {1, 4}, "64 bits"},
      {"a: 1.0e+400\n", "syntax/number-too-large", {1, 4}, "too large"},
      {"a: \x01\n", "syntax/yaml", {1, 4}, "control character"},
  };
  for (const RefusedText& refused : cases) expect_refused(parse_yaml_text, refused);
}

TEST(Yaml, StopsAtItsDepth) {
  const auto nested = [](int depth) {
    const auto n = static_cast<size_t>(depth);
    return cat(std::string(n, '['), std::string(n, ']'));
  };
  EXPECT_FALSE(yaml_error(nested(kMaxDepth)));
  EXPECT_EQ(yaml_error(nested(kMaxDepth + 1))->rule(), "syntax/too-deep");
  EXPECT_EQ(yaml_error(std::string(100'000, '['))->rule(), "syntax/too-deep");
  // One level each, but on top of what the alias brings.
  std::string chain = "a0: &a0 []\n";
  for (int i = 1; i < 300; ++i) chain += cat("a", i, ": &a", i, " [*a", i - 1, "]\n");
  EXPECT_EQ(yaml_error(chain)->rule(), "syntax/too-deep");
}

TEST(Yaml, CountsTheNodesThatAliasesMake) {
  std::string laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 12; ++i) {
    const std::string alias = cat("*a", i - 1);
    laughs += cat("a", i, ": &a", i, " [", alias, ", ", alias, ", ", alias, ", ", alias, ", ", alias, "]\n");
  }
  EXPECT_EQ(yaml_error(laughs)->rule(), "syntax/too-large");
  // Few nodes, but each of them long.
  std::string texts = cat("a: &a ", std::string(100'000, 'x'), "\nb:\n");
  for (int i = 0; i < 1'000; ++i) texts += "- *a\n";
  EXPECT_EQ(yaml_error(texts)->rule(), "syntax/too-large");
}

}  // namespace
}  // namespace weft::config
