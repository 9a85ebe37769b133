// Secrets of a config are nowhere shown: not as values, not in what is said about them or about what is around them.
#include <gtest/gtest.h>

#include <algorithm>

#include "weft/base/text.h"
#include "weft/config/reading.h"

namespace weft::config {
namespace {

constexpr std::string_view kSecret = "SECRETTOKEN123";
constexpr std::string_view kToken = "weft.dashboard.token";

Reading read(const std::string& text) { return read_config(parse_document(checked_source("ds.json", text)), {}); }

Reading with_token(std::string_view json) {
  return read(cat(R"({"train_batch_size": 8, "weft": {"dashboard": {"host": "0.0.0.0", "token": )", json, "}}}"));
}

bool has_secret(std::string_view text) { return text.find(kSecret) != std::string_view::npos; }

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
  EXPECT_EQ(read("{\"train_batch_size\": 8}").shown(kToken), "null");
  EXPECT_EQ(with_token("null").shown(kToken), "null");
  EXPECT_EQ(with_token("\"x\"").shown("weft.dashboard.host"), "\"0.0.0.0\"");
}

TEST(Secret, IsNotQuotedByProblems) {
  for (const std::string& text :
       {cat(R"({"train_batch_size": 8, "weft": {"dashboard": {"token": [")", kSecret, R"("]}}})"),
        cat(R"({"train_batch_size": 8, "comet": {"enabled": true, "api_key": ")", kSecret, R"("}})")}) {
    const Reading reading = read(text);
    ASSERT_FALSE(reading.problems.empty()) << text;
    for (const Problem& problem : reading.problems) {
      EXPECT_FALSE(has_secret(cat(problem.message.en, problem.message.zh, problem.fix.en, problem.current))) << text;
    }
  }
}

}  // namespace
}  // namespace weft::config
