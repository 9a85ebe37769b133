// Secrets of a config are nowhere shown: not as values, not in what is said about them or about what is around them.
#include <gtest/gtest.h>

#include <algorithm>

#include "weft/base/text.h"
#include "weft/config/test_reading_impl.h"

namespace weft::config {
namespace {

constexpr std::string_view kSecret = "SECRETTOKEN123";
constexpr std::string_view kToken = "weft.dashboard.token";

Reading with_token(std::string_view json) {
  return read_text(cat(R"({"train_batch_size": 8, "weft": {"dashboard": {"host": "0.0.0.0", "token": )", json, "}}}"));
}

bool has_secret(std::string_view text) { return text.find(kSecret) != std::string_view::npos; }

// There are problems, and none of them says it.
bool is_quiet(const Reading& reading) {
  return !reading.problems.empty() && std::ranges::none_of(reading.problems, [](const Problem& problem) {
    return has_secret(cat(problem.message.en, problem.message.zh, problem.fix.en, problem.fix.zh, problem.current));
  });
}

TEST(Secret, TheTableKnowsThem) {
  std::vector<std::string> secrets;
  for (const Setting& setting : settings()) {
    if (setting.secret) secrets.emplace_back(setting.path);
  }
  EXPECT_EQ(secrets, (std::vector<std::string>{"comet.api_key", "weft.dashboard.token"}));
}

TEST(Secret, IsReadAndNotShown) {
  const Reading reading = with_token(cat('"', kSecret, '"'));
  EXPECT_EQ(reading.resolved.weft.dashboard.token, kSecret);
  EXPECT_EQ(reading.shown(kToken), kNotShown);
  const auto lines = describe_settings(reading);
  EXPECT_TRUE(std::ranges::none_of(lines, has_secret));
  EXPECT_NE(std::ranges::find(lines, "weft.dashboard.token = (set, not shown) (ds.json:1:76)"), lines.end());
}

TEST(Secret, ThatThereIsNoneIsShown) {
  EXPECT_EQ(read_text("{\"train_batch_size\": 8}").shown(kToken), "null");
  EXPECT_EQ(with_token("null").shown(kToken), "null");
  EXPECT_EQ(with_token("\"x\"").shown("weft.dashboard.host"), "\"0.0.0.0\"");
}

TEST(Secret, IsNotQuotedByProblems) {
  for (const std::string& text :
       {cat(R"({"train_batch_size": 8, "weft": {"dashboard": {"token": [")", kSecret, R"("]}}})"),
        cat(R"({"train_batch_size": 8, "comet": {"enabled": true, "api_key": ")", kSecret, R"("}})")}) {
    const Reading reading = read_text(text);
    EXPECT_TRUE(is_quiet(reading)) << text;
  }
}

TEST(Secret, UnderAnotherNameIsNotQuoted) {
  for (const char* text :
       {R"({"weft": {"dashboard": {"Token": "SECRETTOKEN123"}}})",
        R"({"weft": {"dashboard": {"tokn": "SECRETTOKEN123"}}})", R"({"weft": {"token": "SECRETTOKEN123"}})",
        R"({"token": "SECRETTOKEN123"})", R"({"hub_token": "SECRETTOKEN123"})",
        R"({"wft": {"dashboard": {"tokn": "SECRETTOKEN123"}}})", R"({"comet": {"apikey": "SECRETTOKEN123"}})",
        R"({"comet": {"API-KEY": "SECRETTOKEN123"}})", R"({"comet": {"comet_api_key": ["SECRETTOKEN123"]}})",
        R"({"api_key": "SECRETTOKEN123"})", R"({"dashboard": {"token": "SECRETTOKEN123"}})"}) {
    const Reading reading = read_text(text);
    EXPECT_TRUE(is_quiet(reading)) << text;
    EXPECT_TRUE(std::ranges::any_of(reading.problems, [](const Problem& p) { return p.current == kNotShown; })) << text;
  }
}

// HJSON reads an unquoted word that is no literal to the end of its line.
TEST(Secret, InATextThatSwallowedItIsNotShown) {
  for (const char* text :
       {"{\"zero_optimization\": {\"overlap_comm\": True, \"token\": \"SECRETTOKEN123\"\n}}",
        "{\"weft\": {\"dashboard\": {\"host\": localhost, token: SECRETTOKEN123\n}}, \"hosts\": 1}",
        "{\"optimizer\": {\"type\": \"Adam\", \"params\": {\"lr\": fast, \"token\": \"SECRETTOKEN123\"\n}}}",
        "{\"optimizer\": {\"type\": Adam, \"token\": \"SECRETTOKEN123\"\n}}",
        "{\"scheduler\": {\"type\": Warm, \"token\": \"SECRETTOKEN123\"\n}}"}) {
    const Reading reading = read_text(text);
    EXPECT_TRUE(is_quiet(reading)) << text;
    EXPECT_TRUE(std::ranges::none_of(describe_settings(reading), has_secret)) << text;
  }
}

TEST(Secret, OtherKeysAreShown) {
  for (const char* text : {R"({"weft": {"dashboard": {"hots": "here"}}})", R"({"nothing": "here"})",
                           R"({"comet": {"experiment": "here"}})", R"({"tokenizer": "here"})"}) {
    const Reading reading = read_text(text);
    ASSERT_FALSE(reading.problems.empty()) << text;
    EXPECT_TRUE(std::ranges::any_of(reading.problems, [](const Problem& p) { return p.current == "\"here\""; }))
        << text;
  }
  EXPECT_TRUE(read_text(R"({"weft": {"dashboard": {"token": null, "host": "::1"}}})").secrets.empty());
}

// What the secrets of the text cover is stars.
std::string masked(std::string text) {
  for (const Span span : find_secrets(Source("x", text))) {
    for (size_t at = span.begin; at < span.end; ++at) {
      if (text[at] != '\n') text[at] = '*';
    }
  }
  return text;
}

TEST(Secret, OfATextThatDoesNotParseIsFound) {
  struct {
    std::string_view text, seen;
  } const cases[] = {{R"({"token": "S\x", "port": 1})", R"({"token": *****, "port": 1})"},
                     {R"({"token": "S" "port": 1})", R"({"token": **************)"},
                     {R"({"token": "S, "port": 1})", R"({"token": **************)"},
                     {R"({"token: "S", "port": 1})", R"({"token: ***, "port": 1})"},
                     {R"({"token: S", "port": 1})", R"({"token: **************)"},
                     {R"({"token" "S", "port": 1})", R"({"token" ***, "port": 1})"},
                     {R"({"token" = 'S'})", R"({"token" = ***})"},
                     {R"({"Api-Key": ["S", "T"], "port": 1})", R"({"Api-Key": **********, "port": 1})"},
                     {R"({"token": ["a]S"], "port": 1})", R"({"token": *******, "port": 1})"},
                     {R"({"token": ["a]S], "port": 1})", R"({"token": ******************)"},
                     {"token: #* S\nport: 1 */\nhost: h", "token: ****\n**********\nhost: h"},
                     {R"({"tokn": {"a": "S")", R"({"tokn": *********)"},
                     {"{token: /* in */ \"S\"}", "{token: ************}"},
                     {"token: #S\nport: 1", "token: **\n*******"},
                     {"token:\n  \"S\"\nport: 1", "token:\n  ***\nport: 1"},
                     {"token: |\n  S\n  T\nport: 1", "token: *\n***\n***\nport: 1"},
                     {"token:\n- S\n- T\nport: 1", "token:\n***\n***\nport: 1"},
                     {"token: '''S\nT''', port: 1", "token: ****\n****, port: 1"},
                     {"token: '''S\nT", "token: ****\n*"},
                     {"a: token\nport: 1", "a: token\n*******"},
                     {"token:", "token:"},
                     {R"({"port": 70000, "host": "h")", R"({"port": 70000, "host": "h")"}};
  for (const auto& [text, seen] : cases) EXPECT_EQ(masked(std::string(text)), seen);
}

TEST(Secret, IsNotCitedByWhatCannotBeRead) {
  const std::pair<std::string_view, std::string_view> cases[] = {
      {"ds.json", R"({"token": "a" SECRETTOKEN123})"},
      {"ds.json", R"({"token: SECRETTOKEN123", "port": 1})"},
      {"ds.json", R"({"token: SECRETTOKEN123": 1, "port": 2, "token: SECRETTOKEN123": 1})"},
      {"ds.json", R"({"token" SECRETTOKEN123, "port": 1})"},
      {"ds.yaml", "zero_optimization: {stage: 1}\ntoken: *SECRETTOKEN123\n"},
      {"ds.yaml", "zero_optimization: {stage: 1}\ntoken: !SECRETTOKEN123 x\n"},
      {"ds.yaml", "zero_optimization: {stage: 1}\ntoken: !!int SECRETTOKEN123\n"}};
  for (const auto& [name, text] : cases) {
    try {
      parse_document(checked_source(std::string(name), std::string(text)));
      ADD_FAILURE() << text;
    } catch (const ReadError& error) {
      EXPECT_FALSE(has_secret(cat(error.what(), error.message().zh, error.fix().zh))) << text << "\n" << error.what();
    }
  }
}

}  // namespace
}  // namespace weft::config
