#include "weft/config/hjson.h"

#include <gtest/gtest.h>

#include <chrono>
#include <optional>

#include "weft/base/text.h"
#include "weft/config/test_reading_impl.h"

namespace weft::config {
namespace {

std::string hjson_to_json(const std::string& text) { return to_json(parse_hjson(source_of(text))); }

void parse_hjson_text(const std::string& text) { parse_hjson(source_of(text)); }
std::optional<ReadError> hjson_error(const std::string& text) {
  return read_error_of([&] { parse_hjson_text(text); });
}

// What Python's hjson 3.1.0 makes of each.
TEST(Hjson, ReadsWhatPythonsHjsonReads) {
  const AcceptedText cases[] = {
      {"", "{}"},
      {" # only\n// comments /* */\n/* here */", "{}"},
      {R"({"a":1,"b":[true,false,null]})", R"({"a": 1, "b": [true, false, null]})"},
      {"a: 1\nb: 2", R"({"a": 1, "b": 2})"},
      {"{a: 1,}", R"({"a": 1})"},
      {"{a: [1, 2,],}", R"({"a": [1, 2]})"},
      {"{a: 1 // x\n b: 2 # y\n c: 3 /* z */}", R"({"a": 1, "b": 2, "c": 3})"},
      {"{a: foo bar, # no comment\n}", R"({"a": "foo bar, # no comment"})"},
      {"{a: /data/x//y\n}", R"({"a": "/data/x//y"})"},
      {"{a: True,\n b: None\n}", R"({"a": "True,", "b": "None"})"},
      {"{a: true\xC2\xA0\n b: nullable\n}", R"({"a": true, "b": "nullable"})"},
      {"{'a': 'x\"y', \"b\": \"x'y\"}", R"({"a": "x\"y", "b": "x'y"})"},
      {"{a : 1, b\n:\n2}", R"({"a": 1, "b": 2})"},
      {"{a#b: 1}", R"({"a#b": 1})"},
      {R"({"a":"\u00e9\ud83d\ude00\/\b\f\n\r\t\\\""})", "{\"a\": \"é😀/\\u0008\\u000c\\n\\r\\t\\\\\\\"\"}"},
      {"{a: \"x\" \"b\": \"y\"}", R"({"a": "x", "b": "y"})"},
      {"[1] # no\n", ""},
      {"{a: 1\r\n b: x\r c: 2}", R"({"a": 1, "b": "x", "c": 2})"},
      {"\xEF\xBB\xBF{a: 1}", R"({"a": 1})"},
      {"{\"\": 1}", R"({"": 1})"},
  };
  for (const auto& [text, json] : cases) {
    if (json.empty())
      EXPECT_TRUE(hjson_error(text)) << text;
    else
      EXPECT_EQ(hjson_to_json(text), json) << text;
  }
}

TEST(Hjson, ReadsNumbersByItsRule) {
  const AcceptedText cases[] = {
      {"5e8", "500000000"},
      {"1.0", "1"},
      {"-0", "0"},
      {"-0.0", "0"},
      {"1e10", "1e+10"},
      {"9999999999.0", "9999999999"},
      {"12345678901.0", "12345678901.0"},
      {"0.1", "0.1"},
      {"1e-8", "1e-08"},
      {"1e-400", "0"},
      {"9223372036854775807", "9223372036854775807"},
      {"-9223372036854775808", "-9223372036854775808"},
      {"0e999999999999999999999", "0"},
      {"01", "\"01\""},
      {"1.", "\"1.\""},
      {".5", "\".5\""},
      {"+1", "\"+1\""},
      {"1_0", "\"1_0\""},
      {"-", "\"-\""},
      {"1e", "\"1e\""},
      {"0x1F", "\"0x1F\""},
      {"1 2", "\"1 2\""},
  };
  for (const auto& [text, json] : cases) EXPECT_EQ(hjson_to_json(cat("a: ", text)), cat("{\"a\": ", json, "}")) << text;
}

TEST(Hjson, ReadsStringsOfSeveralLines) {
  EXPECT_EQ(hjson_to_json("a:\n  '''\n  x\n    y\n  '''\n"), R"({"a": "x\n  y"})");
  EXPECT_EQ(hjson_to_json("{\na: '''x'y''z'''\n}"), R"({"a": "x'y''z"})");
  EXPECT_EQ(hjson_to_json("{\na: ''''''\n}"), R"({"a": ""})");
  EXPECT_EQ(hjson_to_json("b: 1\r\na: '''\r\n   x\r\n   y\r\n'''"), R"({"b": 1, "a": "x\ny"})");
  // On the first line hjson counts the indentation on from the end of the file: 3, and 1 for the '}' there.
  EXPECT_EQ(hjson_to_json("{a:'''x\n     y'''\n}"), R"({"a": "x\n y"})");
  EXPECT_NE(hjson_error("{a:'''x'''}")->message().en.find("without a line end"), std::string::npos);
}

TEST(Hjson, GivesEveryValueItsPlace) {
  const SourcePtr source = source_of("{ \"key\" : [ 12 , \"é\" ] , word: some text \n n: {} }");
  const Value root = parse_hjson(source);
  EXPECT_EQ(source->at(root.span), source->text());
  EXPECT_EQ(source->at(root.members[0].key_span), "\"key\"");
  EXPECT_EQ(source->at(root.members[0].value.span), "[ 12 , \"é\" ]");
  EXPECT_EQ(source->at(root.members[0].value.items[0].span), "12");
  EXPECT_EQ(source->at(root.members[0].value.items[1].span), "\"é\"");
  EXPECT_EQ(source->at(root.members[1].key_span), "word");
  EXPECT_EQ(source->at(root.members[1].value.span), "some text");
  EXPECT_EQ(source->at(root.members[2].value.span), "{}");
  const SourcePtr bare = source_of("# c\na: 1, b: true \n");
  EXPECT_EQ(bare->at(parse_hjson(bare).span), "a: 1, b: true");
}

TEST(Hjson, SaysWhatIsWrongAndWhere) {
  const RefusedText cases[] = {
      {"{\n \"a\": {\n \"b\": 1\n}", "syntax/hjson", {1, 1}, "this '{' is never closed", "add the '}'"},
      {"{\"a\": [1, 2", "syntax/hjson", {1, 7}, "this '[' is never closed", "add the ']'"},
      {"{\"a\": foo}", "syntax/hjson", {1, 7}, "runs to the end of the line and swallows the '}'", "double quotes"},
      {"{\"a\": [x], \"b\": 1}\n", "syntax/hjson", {1, 8}, "swallows the ']'", "double quotes"},
      {"{\"a\": 1 \"b\": 2}", "syntax/hjson", {1, 7}, "swallows the '}'", "comma"},
      {"{\"a\": 1}}", "syntax/hjson", {1, 9}, "text follows the end", "remove"},
      {"a: 1\n}", "syntax/hjson", {2, 1}, "this '}' closes nothing", ""},
      {"{a: 1 ]", "syntax/hjson", {1, 7}, "this ']' closes nothing", ""},
      {"{a: 1, ]", "syntax/hjson", {1, 8}, "the '{' of line 1, column 1 is still open", ""},
      {"{a: [1, }", "syntax/hjson", {1, 9}, "the '[' of line 1, column 5 is still open", ""},
      {"{\"a\" 1}", "syntax/hjson", {1, 6}, "a ':' is missing after the key \"a\": found '1'", "\"a\": value"},
      {"{a b: 1}", "syntax/hjson", {1, 2}, "no ':' follows", "spaces"},
      {"{a: 1,, b: 2}", "syntax/hjson", {1, 7}, "found ',' where a key should be", ""},
      {"{: 1}", "syntax/hjson", {1, 2}, "found ':' where a key should be", ""},
      {"{a: , b: 1}", "syntax/hjson", {1, 5}, "found ',' where a value should be", "write the value"},
      {"{a: }", "syntax/hjson", {1, 5}, "found '}' where a value should be", "write the value"},
      {"a:", "syntax/hjson", {1, 3}, "the file ends where a value should be", ""},
      {"{\"a\": \"x\n}", "syntax/hjson", {1, 7}, "not closed on its line", "end it with \""},
      {"{\"a\": \"x\ty\"}", "syntax/hjson", {1, 9}, "a tab inside", "\\t"},
      {"{\"a\": \"x\x01\"}", "syntax/hjson", {1, 9}, "control character", "\\u"},
      {R"({"a": "C:\new\data"})", "syntax/hjson", {1, 14}, "\\d is not an escape", "\\\\"},
      {R"({"a": "\u12g4"})", "syntax/hjson", {1, 8}, "four hexadecimal digits", ""},
      {R"({"a": "\ud800x"})", "syntax/hjson", {1, 8}, "surrogate", "both halves"},
      {R"({"a": "\udc00"})", "syntax/hjson", {1, 8}, "surrogate", "both halves"},
      {"{a: 1 /* x", "syntax/hjson", {1, 7}, "comment is never closed", "*/"},
      {"a: '''x\n y", "syntax/hjson", {1, 4}, "''' string is never closed", "'''"},
      {"{\"a\": 1,\n \"b\": {\"a\": 2}, \"a\": 3}",
       "syntax/duplicate-key",
       {2, 17},
       "the key \"a\" stands here (line 2, column 17) and before (line 1, column 2)",
       "one of the two"},
      {"{\"a\": Infinity}", "syntax/not-a-number", {1, 7}, "Infinity is not a number", "write a number"},
      {"a: -Infinity\n", "syntax/not-a-number", {1, 4}, "-Infinity", ""},
      {"{\"a\": NaN, \"b\": 1}", "syntax/not-a-number", {1, 7}, "NaN", ""},
      {"a: [inf]", "syntax/not-a-number", {1, 5}, "inf", ""},
      {"a: 9223372036854775808", "syntax/number-too-large", {1, 4}, "64 bits", ""},
      {"a: 1e400", "syntax/number-too-large", {1, 4}, "too large", ""},
      {"[1, 2]", "syntax/root", {1, 1}, "this is a list", "key"},
      {"\"text\"", "syntax/root", {1, 1}, "this is a string", "key"},
      {"just words", "syntax/root", {1, 1}, "this is a string", "key"},
  };
  for (const RefusedText& refused : cases) expect_refused(parse_hjson_text, refused);
}

TEST(Hjson, StopsAtItsDepth) {
  const auto nested = [](int depth) {
    const auto n = static_cast<size_t>(depth);
    return cat("a: ", std::string(n, '['), std::string(n, ']'));
  };
  EXPECT_FALSE(hjson_error(nested(kMaxDepth)));
  EXPECT_EQ(hjson_error(nested(kMaxDepth + 1))->rule(), "syntax/too-deep");
  EXPECT_EQ(hjson_error(nested(1'000'000))->rule(), "syntax/too-deep");
}

// Each would take minutes where a word, a line or the keys before are looked at again and again.
TEST(Hjson, TakesTimeLinearInTheText) {
  std::string commas = "a: ", keys, strings = "x: 1\n";
  for (int i = 0; i < 200'000; ++i) commas += "x,}]#";
  for (int i = 0; i < 100'000; ++i) keys += cat("k", i, ": 1\n");
  for (int i = 0; i < 100'000; ++i) strings += cat("k", i, ":'''a''' ");
  const auto start = std::chrono::steady_clock::now();
  for (const std::string& text : {commas, keys, strings}) EXPECT_FALSE(hjson_error(text));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

}  // namespace
}  // namespace weft::config
