#include <gtest/gtest.h>

#include <fstream>
#include <map>

#include "tests/support/temp_dir.h"
#include "weft/base/text.h"
#include "weft/monitor/live/live_site_impl.h"

namespace weft::detail {
namespace {

using Fields = std::map<std::string, std::string>;

HttpRequest request(const std::string& path, Fields headers = {{"Host", "127.0.0.1:6006"}}, Fields parameters = {},
                    const std::string& method = "GET") {
  const auto look_up = [](Fields fields) {
    return [fields = std::move(fields)](const char* name) -> std::optional<std::string> {
      const auto found = fields.find(name);
      return found == fields.end() ? std::nullopt : std::optional(found->second);
    };
  };
  return {.method = method,
          .path = path,
          .header = look_up(std::move(headers)),
          .parameter = look_up(std::move(parameters))};
}

std::string header_of(const HttpReply& reply, const std::string& name) {
  for (const auto& [known, value] : reply.headers)
    if (known == name) return value;
  return "";
}

class Site : public testing::Test {
 protected:
  test::TempDir dir_;
  std::string folder_ = dir_.path().string();
  LiveSite open_{Env::posix(), folder_, {}, {.refresh_s = 0}};
  LiveSite closed_{Env::posix(), folder_, {}, {.token = "secret", .is_loopback = false, .host = "0.0.0.0"}};
};

TEST_F(Site, EveryPathOfItsOwnAndNoOther) {
  for (const char* path : {"/", "/api/state", "/api/series", "/metrics", "/events"})
    EXPECT_EQ(open_.answer(request(path)).status, 200) << path;
  for (const char* path : {"/x", "", "//", "/api", "/../etc/passwd", "/metrics.jsonl", "/report.html", "/api/state/"})
    EXPECT_EQ(open_.answer(request(path)).status, 404) << path;
}

TEST_F(Site, TheReportIsThereOnceItIsWritten) {
  EXPECT_EQ(open_.answer(request("/report")).status, 404);
  std::ofstream(dir_ / "report.html") << "<h1>r</h1>";
  const auto reply = open_.answer(request("/report"));
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.body, "<h1>r</h1>");
  EXPECT_NE(header_of(reply, "Content-Security-Policy").find("sandbox"), std::string::npos);
}

TEST_F(Site, OnlyGetAndHead) {
  for (const char* method : {"POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECT"}) {
    const auto reply = open_.answer(request("/", {{"Host", "localhost"}}, {}, method));
    EXPECT_EQ(reply.status, 405) << method;
    EXPECT_EQ(header_of(reply, "Allow"), "GET, HEAD");
  }
  EXPECT_EQ(open_.answer(request("/events", {{"Host", "localhost"}}, {}, "HEAD")).status, 200);
}

TEST_F(Site, ANameThatOnlyLeadsHereIsRefused) {
  for (const char* host : {"localhost", "localhost:6006", "127.0.0.1:1", "[::1]:6006", "[::1]"})
    EXPECT_EQ(open_.answer(request("/api/state", {{"Host", host}})).status, 200) << host;
  for (const char* host :
       {"evil.example", "evil.example:6006", "127.0.0.1.evil.example", "", "localhost.evil.example:6006"})
    EXPECT_EQ(open_.answer(request("/api/state", {{"Host", host}})).status, 403) << host;
  EXPECT_EQ(open_.answer(request("/api/state", {})).status, 403);
}

TEST_F(Site, ATokenInAnyOfItsThreePlaces) {
  EXPECT_EQ(closed_.answer(request("/metrics", {{"Host", "h"}, {"Authorization", "Bearer secret"}})).status, 200);
  EXPECT_EQ(closed_.answer(request("/metrics", {{"Host", "h"}}, {{"token", "secret"}})).status, 200);
  EXPECT_EQ(closed_.answer(request("/metrics", {{"Host", "h:6006"}, {"Cookie", "a=b; weft_token_6006=secret"}})).status,
            200);
  EXPECT_EQ(closed_.answer(request("/metrics", {{"Host", "h:6007"}, {"Cookie", "weft_token_6006=secret"}})).status, 401)
      << "of another server";
}

TEST_F(Site, NoOtherTokenWillDo) {
  for (const char* token : {"", "s", "secreT", "secretsecret", "secret ", "Secret"}) {
    EXPECT_EQ(closed_.answer(request("/", {{"Host", "h"}, {"Authorization", std::string("Bearer ") + token}})).status,
              401)
        << token;
    EXPECT_EQ(closed_.answer(request("/", {{"Host", "h"}}, {{"token", token}})).status, 401) << token;
  }
  EXPECT_EQ(closed_.answer(request("/", {{"Host", "h"}, {"Authorization", "Basic secret"}})).status, 401);
  EXPECT_EQ(closed_.answer(request("/nowhere", {{"Host", "h"}})).status, 401) << "nobody learns which paths there are";
}

TEST_F(Site, ThePageSetsTheCookieAndLetsOnlyItsOwnScriptsRun) {
  const auto reply = closed_.answer(request("/", {{"Host", "h:6006"}}, {{"token", "secret"}}));
  EXPECT_EQ(header_of(reply, "Set-Cookie"), "weft_token_6006=secret; Path=/; HttpOnly; SameSite=Strict");
  const std::string policy = header_of(reply, "Content-Security-Policy");
  EXPECT_EQ(policy.find("unsafe"), std::string::npos);
  const size_t at = policy.find("script-src 'nonce-") + 18;
  EXPECT_NE(reply.body.find(cat("<script nonce=\"", policy.substr(at, 32), "\">")), std::string::npos);
  EXPECT_EQ(reply.body.find("__NONCE__"), std::string::npos);
  EXPECT_EQ(reply.body.find("secret"), std::string::npos);
  EXPECT_EQ(header_of(open_.answer(request("/")), "Set-Cookie"), "");
}

TEST_F(Site, ThePageLoadsNothing) {
  const std::string page = open_.answer(request("/")).body;
  for (const char* word : {"src=", "@import", "url(", "https://cdn", "<iframe"})
    EXPECT_EQ(page.find(word), std::string::npos) << word;
}

TEST_F(Site, AStepThatIsNoNumberIsRefused) {
  const Fields host = {{"Host", "localhost"}};
  for (const char* from : {"x", "", "1.5", "99999999999999999999", "1;2"})
    EXPECT_EQ(open_.answer(request("/api/series", host, {{"from", from}})).status, 400) << from;
  EXPECT_EQ(open_.answer(request("/api/series", host, {{"from", "-3"}})).status, 200);
}

class CountingStream final : public HttpStream {
 public:
  explicit CountingStream(int waits) : waits_left_(waits) {}
  bool send(std::string_view text) override {
    text_ += text;
    return true;
  }
  bool wait(double) override {
    if (on_wait) on_wait();
    return waits_left_-- > 0;
  }
  bool is_last() const override { return is_stopped; }
  bool is_stopped = false;  // at the end of the waits; else the client left
  std::function<void()> on_wait;
  std::string text_;

 private:
  int waits_left_;
};

TEST_F(Site, EventsComeWhenSomethingIsNew) {
  std::ofstream(dir_ / "metrics.jsonl") << "{\"step\":1,\"loss\":2}\n";
  const auto reply = open_.answer(request("/events"));
  ASSERT_TRUE(reply.stream);
  CountingStream stream(3);
  bool appended = false;
  stream.on_wait = [&] {
    if (!appended) std::ofstream(dir_ / "metrics.jsonl", std::ios::app) << "{\"step\":2,\"loss\":2}\n";
    appended = true;
  };
  reply.stream(stream);
  size_t count = 0;
  for (size_t at = 0; (at = stream.text_.find("event: state\ndata: {", at)) != std::string::npos; ++at) ++count;
  EXPECT_EQ(count, 2u) << "one at the start, one for the new row, none while nothing happens";
  EXPECT_NE(stream.text_.find("\"step\":2,"), std::string::npos);
}

TEST_F(Site, AServerThatStopsSaysHowTheRunEnded) {
  std::ofstream(dir_ / "result.json") << R"({"schema":1,"status":"running"})";
  for (const bool is_stopped : {false, true}) {
    LiveSite site(Env::posix(), folder_, {}, {.refresh_s = 60});
    CountingStream stream(0);
    stream.is_stopped = is_stopped;
    stream.on_wait = [&] { std::ofstream(dir_ / "result.json") << R"({"schema":1,"status":"finished"})"; };
    site.answer(request("/events")).stream(stream);
    EXPECT_EQ(stream.text_.find("\"finished\"") != std::string::npos, is_stopped) << stream.text_;
    std::ofstream(dir_ / "result.json") << R"({"schema":1,"status":"running"})";
  }
}

TEST_F(Site, AServerThatStopsSaysTheEndOfTheCurves) {
  std::ofstream(dir_ / "metrics.jsonl") << "{\"step\":1,\"loss\":2}\n{\"step\":2,\"loss\":2}\n";
  LiveSite site(Env::posix(), folder_, {}, {.refresh_s = 60});
  CountingStream stream(0);
  stream.is_stopped = true;
  stream.on_wait = [&] {
    std::ofstream(dir_ / "metrics.jsonl", std::ios::app) << "{\"step\":3,\"loss\":2}\n{\"step\":4,\"loss\":2}\n";
  };
  site.answer(request("/events")).stream(stream);
  const size_t at = stream.text_.find("event: series\ndata: ");
  ASSERT_NE(at, std::string::npos) << stream.text_;
  EXPECT_LT(stream.text_.rfind("event: state"), at) << "how it ended comes first: there is little time";
  EXPECT_NE(stream.text_.find("\"step\":[1,2,3,4]", at), std::string::npos)
      << "with what the page may not have asked for";
}

TEST_F(Site, PagesBeyondTheLimitAreTurnedAway) {
  LiveSite site(Env::posix(), folder_, {}, {.max_event_clients = 2});
  {
    const auto first = site.answer(request("/events")), second = site.answer(request("/events"));
    EXPECT_EQ(first.status, 200);
    const auto third = site.answer(request("/events"));
    EXPECT_EQ(third.status, 503);
    EXPECT_NE(header_of(third, "Retry-After"), "");
  }
  EXPECT_EQ(site.answer(request("/events")).status, 200) << "their places are free again";
}

TEST(Token, ComparesAndDraws) {
  EXPECT_TRUE(equal_in_constant_time("abc", "abc"));
  for (const char* other : {"", "ab", "abcd", "abd", "abcabc"})
    EXPECT_FALSE(equal_in_constant_time("abc", other)) << other;
  EXPECT_TRUE(equal_in_constant_time("", ""));
  EXPECT_EQ(random_token().size(), 32u);
  EXPECT_NE(random_token(), random_token());
}

}  // namespace
}  // namespace weft::detail
