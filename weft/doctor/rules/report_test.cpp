#include "weft/doctor/rules/report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "weft/base/build_info.h"
#include "weft/base/text.h"
#include "weft/doctor/rules/fix_report.h"
#include "weft/doctor/rules/report_impl.h"
#include "weft/doctor/rules/step_report.h"

namespace weft::doctor {
namespace {

using config::Language;
using config::Problem;
using config::Severity;
using nlohmann::json;

constexpr Terminal kPipe{.is_tty = false, .columns = 80, .colour = false, .unicode = true};
constexpr Terminal kPlainTty{.is_tty = true, .columns = 80, .colour = false, .unicode = false};

constexpr std::string_view kConfig = R"({
  "train_batch_size": 8,
  "zero_optimization": {
    "stage": 2,
    "overlap_com": true
  }
}
)";

config::SourcePtr source_of(std::string_view text, std::string name = "ds.json") {
  return std::make_shared<const config::Source>(std::move(name), std::string(text));
}

config::Reading read(std::string_view text) { return config::read_config(config::parse_document(source_of(text)), {}); }

config::Span span_of(std::string_view text, std::string_view piece) {
  const size_t at = text.find(piece);
  return {at, at + piece.size()};
}

Problem misspelt() {
  return {.severity = Severity::kError,
          .rule = "keys/misspelt",
          .path = "zero_optimization.overlap_com",
          .span = span_of(kConfig, "\"overlap_com\""),
          .message = {"overlap_com is not a key; overlap_comm is", "没有 overlap_com 这个键，应为 overlap_comm"},
          .fix = {"write overlap_comm", "改为 overlap_comm"},
          .current = "true",
          .suggested = "overlap_comm",
          .edits = {{config::Edit::Kind::kRename, "zero_optimization.overlap_com", "overlap_comm"}},
          .deepspeed_refuses = true};
}

bool holds(const std::string& text, std::string_view piece) { return text.find(piece) != text.npos; }

constexpr std::string_view kWithToken =
    R"({"train_batch_size": 8, "weft": {"dashboard": {"host": "0.0.0.0", "token": "SECRETTOKEN123"}}})";

TEST(Explain, DoesNotShowSecrets) {
  const config::Reading reading = read(kWithToken);
  const std::string text = explain(reading, "weft.dashboard.token", Language::kEnglish, kPipe);
  EXPECT_EQ(text.find("SECRET"), std::string::npos);
  EXPECT_NE(text.find("(set, not shown)"), std::string::npos) << text;
  const json out = json::parse(explain_json(reading, "weft.dashboard.token", Language::kEnglish));
  EXPECT_EQ(out["value"], "(set, not shown)");
}

TEST(JsonReport, DoesNotShowSecrets) {
  const config::Reading reading = read(kWithToken);
  const std::string text = json_report({reading, diagnose(reading, {})}, Language::kEnglish);
  EXPECT_EQ(text.find("SECRET"), std::string::npos);
  EXPECT_EQ(json::parse(text)["resolved"]["weft"]["dashboard"]["token"], "(set, not shown)");
}

// All that `weft check` can say of a text.
std::string reports_of(const std::string& text) {
  try {
    const config::Reading reading = read(text);
    const Diagnosis diagnosis = diagnose(reading, {});
    std::vector<Checked> checked = {{reading, diagnosis}};
    const FixResult result = fix(reading.document, {});
    return cat(text_report(checked.front(), Language::kEnglish, kPipe),
               json_report(checked.front(), Language::kEnglish), sarif_report(checked, {}, Language::kEnglish),
               fix_text({result, "a.json", "b.json"}, Language::kEnglish, kPipe),
               fix_json({result, "a.json", "b.json"}, Language::kEnglish));
  } catch (const config::ReadError& error) {
    return cat(text_report(error, Language::kEnglish, kPipe), json_report(error, Language::kEnglish),
               sarif_report({}, {error}, Language::kEnglish), error.what());
  }
}

TEST(Reports, ShowNoSecretWhateverIsWrong) {
  for (const char* text :
       {R"({"weft": {"dashboard": {"token": "SECRET", "port": 70000}}})",
        R"({"weft": {"dashboard": {"Token": "SECRET", "port": 70000}}})", R"({"weft": {"token": "SECRET"}})",
        R"({"train_batch_size": 8, "comet": {"apikey": "SECRET"}})", R"({"weft": {"token": "SECRET", "a": "\x"}})",
        R"({"weft": {"dashboard": {"token": "\xSECRET"}}})", R"({"weft": {"dashboard": {"token": "SECRET}}})",
        R"({"weft": {"dashboard": {"token": SECRET", "port": 1}}})", R"({"token": "a" SECRET})"}) {
    const std::string said = reports_of(text);
    EXPECT_FALSE(holds(said, "SECRET")) << text << "\n" << said;
    EXPECT_TRUE(holds(said, "***")) << text << "\n" << said;
  }
}

Diagnosis one_of_each() {
  Diagnosis diagnosis;
  diagnosis.problems = {misspelt(),
                        {.severity = Severity::kWarning,
                         .rule = "keys/unknown",
                         .path = "nowhere",
                         .message = {"nobody reads it", "没有人读它"}},
                        {.severity = Severity::kAdvice,
                         .rule = "keys/out-of-scope",
                         .path = "",
                         .message = {"could be better", "可以更好"}}};
  diagnosis.good = {
      {"zero_optimization.stage", "2", span_of(kConfig, "2,"), {"shards optimizer and gradients", "切分优化器和梯度"}}};
  return diagnosis;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

TEST(TextReport, SaysEverythingInOrder) {
  const auto reading = read(kConfig);
  const auto diagnosis = one_of_each();
  const std::string text = text_report({reading, diagnosis}, Language::kEnglish, kPipe);
  size_t from = 0;
  for (const std::string_view piece :
       {"ds.json: JSON, read as DeepSpeed 0.19.8, world ", "❌", "true", "overlap_comm", "overlap_com", "❌", "💡",
        "(the file)", "✅", "shards optimizer", "error[keys/misspelt] ds.json:5:5\n",
        "5    |     \"overlap_com\": true\n", "     |     ^^^^^^^^^^^^^\n", "  overlap_com is not a key",
        "  do: write overlap_comm\n", "  --fix OUT makes this change\n", "warning[keys/unknown] ds.json: nowhere\n",
        "advice[keys/out-of-scope] ds.json\n",
        "1 error, 1 warning, 1 advice, 1 good: DeepSpeed 0.19.8 would refuse this file\n"}) {
    const size_t at = text.find(piece, from);
    ASSERT_NE(at, text.npos) << piece << "\nafter\n" << text.substr(0, from) << "\nin\n" << text;
    from = at + piece.size();
  }
  EXPECT_EQ(from, text.size());
}

TEST(TextReport, SpeaksChinese) {
  const auto reading = read(kConfig);
  const auto diagnosis = one_of_each();
  const std::string text = text_report({reading, diagnosis}, Language::kChinese, kPipe);
  EXPECT_TRUE(holds(text, "错误[keys/misspelt] ds.json:5:5")) << text;
  EXPECT_TRUE(holds(text, "建议：改为 overlap_comm")) << text;
  EXPECT_TRUE(holds(text, "1 个错误，1 个警告，1 条建议，1 项正确：DeepSpeed 0.19.8 会拒绝这个文件\n")) << text;
}

TEST(TextReport, MarksAreAsciiOnATtyWithoutUnicode) {
  const auto reading = read(kConfig);
  const auto diagnosis = one_of_each();
  const std::string text = text_report({reading, diagnosis}, Language::kEnglish, kPlainTty);
  EXPECT_TRUE(std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x80; })) << text;
  for (const std::string_view mark : {"\n!!  zero", "\n->  (the file)", "\nok  zero"})
    EXPECT_TRUE(holds(text, mark)) << mark << text;
}

TEST(TextReport, ColourOnlyWhereTheTerminalHasIt) {
  const auto reading = read(kConfig);
  const auto diagnosis = one_of_each();
  EXPECT_FALSE(holds(text_report({reading, diagnosis}, Language::kEnglish, kPipe), "\033"));
  const Terminal colourful{.is_tty = true, .columns = 80, .colour = true, .unicode = true};
  EXPECT_TRUE(
      holds(text_report({reading, diagnosis}, Language::kEnglish, colourful), "\033[31merror[keys/misspelt]\033[0m"));
}

TEST(TextReport, FitsEveryWidth) {
  const auto reading = read(kConfig);
  auto diagnosis = one_of_each();
  diagnosis.problems[1].path = "zero_optimization.stage3_gather_16bit_weights_on_model_save_and_more_of_it";
  diagnosis.problems[1].current = "\"一个相当长的中文值，里面没有空格也能换行\"";
  for (const Language language : {Language::kEnglish, Language::kChinese}) {
    for (const int columns : {30, 40, 59, 60, 80, 100, 200}) {
      Terminal terminal = kPipe;
      terminal.columns = columns;
      for (const auto& line : lines_of(text_report({reading, diagnosis}, language, terminal))) {
        EXPECT_LE(display_columns(line), columns) << line;
      }
    }
  }
}

TEST(TextReport, SaysReadyWhenNothingIsWrong) {
  const auto reading = read("{\"train_batch_size\": 8}");
  const std::string text = text_report({reading, {}}, Language::kEnglish, kPipe);
  EXPECT_TRUE(text.ends_with("\nno problems: ready\n")) << text;
}

TEST(Verdict, FollowsTheWorst) {
  const auto text = [](Severity severity, bool refuses) {
    Problem problem{.severity = severity};
    problem.deepspeed_refuses = refuses;
    return verdict_of({problem}, 0, config::kNewestDeepSpeed, Language::kEnglish).text;
  };
  EXPECT_EQ(text(Severity::kError, true), "1 error: DeepSpeed 0.19.8 would refuse this file");
  EXPECT_EQ(text(Severity::kError, false), "1 error: not ready, the errors come first");
  EXPECT_EQ(text(Severity::kWarning, false), "1 warning: it would run, at a loss of time, memory or results");
  EXPECT_EQ(text(Severity::kAdvice, false), "1 advice: ready");
}

struct ExcerptCase {
  std::string text, piece, line, underline;
};

TEST(Excerpt, UnderlinesByDisplayColumns) {
  const ExcerptCase cases[] = {
      {"{\"a\": 1}", "1", "{\"a\": 1}", "      ^"},
      {"{\"名字\": \"值\"}", "\"值\"", "{\"名字\": \"值\"}", "         ^^^^"},
      {"\t\"a\":\t1", "1", "    \"a\":    1", "            ^"},
      {"\xEF\xBB\xBF{\"a\": 1}", "\"a\"", "{\"a\": 1}", " ^^^"},
      {"first\r\n  \"a\": [1,\r\n 2]\r\n", "[1,\r\n 2]", "  \"a\": [1,", "       ^"},
      {"'''one\ntwo'''", "'''one\ntwo'''", "'''one", "^^^^^^"},
      {"bell \a here", "here", "bell   here", "       ^^^^"},
  };
  for (const auto& c : cases) {
    const config::Source source("x", c.text);
    const auto lines = lines_of(excerpt({source}, span_of(c.text, c.piece), Severity::kError, kPipe));
    ASSERT_EQ(lines.size(), 2U);
    EXPECT_EQ(lines[0].substr(lines[0].find("| ") + 2), c.line);
    EXPECT_EQ(lines[1].substr(lines[1].find("| ") + 2), c.underline) << c.text;
  }
}

TEST(Excerpt, CutsALongLineAroundTheSpan) {
  const std::string text = cat(std::string(300, 'a'), "HERE", std::string(300, 'b'));
  const config::Source source("x", text);
  for (const Terminal& terminal : {kPipe, kPlainTty}) {
    const auto lines = lines_of(excerpt({source}, span_of(text, "HERE"), Severity::kError, terminal));
    const size_t at = lines[0].find("HERE");
    ASSERT_NE(at, std::string::npos);
    EXPECT_EQ(display_columns(lines[0]), 80);
    EXPECT_EQ(display_columns(lines[0].substr(0, at)), display_columns(lines[1].substr(0, lines[1].find("^^^^"))));
    EXPECT_TRUE(lines[0].ends_with(terminal.unicode ? "b…" : "b...")) << lines[0];
  }
}

TEST(Excerpt, HidesSecretsWhereTheyStand) {
  const ExcerptCase cases[] = {
      {"{\"token\": \"SECRET\", \"port\": 70000}", "70000", "{\"token\": ********, \"port\": 70000}",
       "                            ^^^^^"},
      {"{\"token\": \"SECRET\", \"port\": 70000}", "\"SECRET\"", "{\"token\": ********, \"port\": 70000}",
       "          ^^^^^^^^"},
      {"{\"token\": \"密\tSECRET\", \"值\": 7}", "7", "{\"token\": *************, \"值\": 7}",
       "                               ^"},
      {"{\"token\": [\n \"SECRET\", 1\n], \"a\": 2}", "1", "************", "           ^"},
      {"{\"token\": [\n \"SECRET\", 1\n], \"a\": 2}", "\"a\"", "*, \"a\": 2}", "   ^^^"},
  };
  for (const auto& c : cases) {
    const config::Source source("x", c.text);
    const Page page = {source, config::find_secrets(source)};
    const auto lines = lines_of(excerpt(page, span_of(c.text, c.piece), Severity::kError, kPipe));
    ASSERT_EQ(lines.size(), 2U);
    EXPECT_EQ(lines[0].substr(lines[0].find("| ") + 2), c.line);
    EXPECT_EQ(lines[1].substr(lines[1].find("| ") + 2), c.underline) << c.text;
  }
}

TEST(Excerpt, PointsPastTheEnd) {
  const config::Source source("x", "{\"a\"");
  const auto lines = lines_of(excerpt({source}, {4, 4}, Severity::kError, kPipe));
  EXPECT_TRUE(lines[1].ends_with("|     ^")) << lines[1];
}

TEST(WrapText, BreaksChineseAnywhereButBeforePunctuation) {
  EXPECT_EQ(wrap_text("DeepSpeed 会拒绝，请改正", 13), (std::vector<std::string>{"DeepSpeed 会", "拒绝，请改正"}));
  EXPECT_EQ(wrap_text("会拒绝，请", 6), (std::vector<std::string>{"会拒", "绝，请"}));
  EXPECT_EQ(wrap_text("one two", 3), (std::vector<std::string>{"one", "two"}));
  EXPECT_EQ(wrap_text("abcdef", 4), (std::vector<std::string>{"abcd", "ef"}));
  EXPECT_EQ(wrap_text("", 4), (std::vector<std::string>{""}));
}

TEST(ReadErrorReport, ShowsThePlace) {
  const auto source = source_of("{\n  \"a\": [1,\n");
  const config::ReadError error("syntax/hjson", source, {11, 12}, {"the list does not end", "列表没有结束"},
                                {"add ]", "补上 ]"});
  const std::string text = text_report(error, Language::kEnglish, kPipe);
  EXPECT_TRUE(text.starts_with("error[syntax/hjson] ds.json:2:10\n")) << text;
  EXPECT_TRUE(holds(text, "  the list does not end\n  do: add ]\n")) << text;
  const json out = json::parse(json_report(error, Language::kChinese));
  EXPECT_EQ(out["problems"][0]["line"], 2);
  EXPECT_EQ(out["problems"][0]["message"], "列表没有结束");
  EXPECT_EQ(out["verdict"]["ok"], false);
  EXPECT_TRUE(out["resolved"].is_null());
}

TEST(ReadErrorReport, AboutAFileThatIsNotThereHasNoPlace) {
  const config::ReadError error("syntax/missing-file", source_of("", "gone.json"), {}, {"no such file", "文件不存在"});
  EXPECT_EQ(text_report(error, Language::kEnglish, kPipe), "error[syntax/missing-file] gone.json\n  no such file\n");
  EXPECT_TRUE(json::parse(json_report(error, Language::kEnglish))["problems"][0]["line"].is_null());
}

TEST(JsonReport, HasEveryField) {
  const auto reading = read(kConfig);
  const auto diagnosis = one_of_each();
  const json out = json::parse(json_report({reading, diagnosis}, Language::kEnglish));
  EXPECT_EQ(out["schema"], 1);
  EXPECT_EQ(out["file"], "ds.json");
  EXPECT_EQ(out["semantics"], "deepspeed-0.19.8");
  EXPECT_EQ(out["world"]["value"], reading.world);
  EXPECT_EQ(out["verdict"]["errors"], 1);
  EXPECT_EQ(out["verdict"]["ok"], false);
  const json expected = {{"severity", "error"},
                         {"rule", "keys/misspelt"},
                         {"path", "zero_optimization.overlap_com"},
                         {"line", 5},
                         {"col", 5},
                         {"end_line", 5},
                         {"end_col", 18},
                         {"message", "overlap_com is not a key; overlap_comm is"},
                         {"fix", "write overlap_comm"},
                         {"current", "true"},
                         {"suggested", "overlap_comm"},
                         {"fixable", true},
                         {"deepspeed_refuses", true}};
  EXPECT_EQ(out["problems"][0], expected);
  EXPECT_TRUE(out["problems"][1]["line"].is_null());
  EXPECT_FALSE(out["problems"][1]["fixable"]);
  EXPECT_EQ(out["good"][0]["path"], "zero_optimization.stage");
  EXPECT_EQ(out["good"][0]["line"], 4);
}

TEST(JsonReport, ResolvesEverySettingWithItsOrigin) {
  const auto reading = read(
      R"({"train_micro_batch_size_per_gpu": 4, "optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "betas": [0.9, 0.95]}},
    "zero_optimization": {"stage": 3, "prefetch_bucket_size": 5e8, "cpu_offload": false}, "fp16": {"loss_scale": 0.5}})");
  const json out = json::parse(json_report({reading, {}}, Language::kEnglish));
  const json& resolved = out["resolved"];
  EXPECT_EQ(resolved["train_micro_batch_size_per_gpu"], 4);
  EXPECT_EQ(resolved["optimizer"]["params"], (json{{"lr", 0.001}, {"betas", {0.9, 0.95}}}));
  EXPECT_EQ(resolved["zero_optimization"]["stage3_prefetch_bucket_size"], 500000000);
  EXPECT_EQ(resolved["zero_optimization"]["overlap_comm"], true);
  EXPECT_EQ(resolved["zero_optimization"]["cpu_offload"], false) << "deprecated, but given";
  EXPECT_FALSE(resolved["zero_optimization"].contains("cpu_offload_param"));
  EXPECT_EQ(resolved["zero_optimization"]["offload_optimizer"]["device"], "none") << "an absent section has its values";
  EXPECT_EQ(resolved["fp16"]["loss_scale"], 0.5);
  EXPECT_FALSE(resolved.contains("sparse_attention")) << "removed";
  EXPECT_EQ(out["origins"]["train_micro_batch_size_per_gpu"], "ds.json:1:36");
  EXPECT_EQ(out["origins"]["fp16.enabled"], "default");
}

TEST(JsonReport, SeveralFilesAreAList) {
  const auto reading = read("{}");
  const std::string one = json_report({reading, {}}, Language::kEnglish);
  const json out = json::parse(json_reports({one, one}));
  EXPECT_EQ(out["schema"], 1);
  EXPECT_EQ(out["files"].size(), 2U);
  EXPECT_EQ(out["files"][1], json::parse(one));
}

TEST(JsonReport, DamagedTextIsReplaced) {
  const auto reading = read("{}");
  Diagnosis diagnosis;
  diagnosis.problems = {{.rule = "x/y", .current = "\xE4\xB8"}};
  EXPECT_EQ(json::parse(json_report({reading, diagnosis}, Language::kEnglish))["problems"].size(), 1U);
}

TEST(Sarif, HasTheEssentialFields) {
  const auto reading = read(kConfig);
  const auto diagnosis = one_of_each();
  const config::ReadError error("syntax/hjson", source_of("{", "/a b/配置.json"), {1, 1},
                                {"it does not end", "没有结束"});
  const json out = json::parse(sarif_report({{reading, diagnosis}}, {error}, Language::kEnglish));
  EXPECT_EQ(out["version"], "2.1.0");
  ASSERT_EQ(out["runs"].size(), 1U);
  const json& run = out["runs"][0];
  EXPECT_EQ(run["columnKind"], "unicodeCodePoints");
  const json& driver = run["tool"]["driver"];
  EXPECT_EQ(driver["name"], "weft");
  EXPECT_EQ(driver["version"], kVersion);
  EXPECT_EQ(driver["rules"].size(), all_rules().size());
  ASSERT_EQ(run["results"].size(), 4U);
  const json& first = run["results"][0];
  EXPECT_EQ(driver["rules"][first["ruleIndex"].get<size_t>()]["id"], "keys/misspelt");
  const json& place = first["locations"][0]["physicalLocation"];
  EXPECT_EQ(place["artifactLocation"]["uri"], "ds.json");
  EXPECT_EQ(place["region"], (json{{"startLine", 5}, {"startColumn", 5}, {"endLine", 5}, {"endColumn", 18}}));
  const char* levels[] = {"error", "warning", "note", "error"};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(run["results"][i]["level"], levels[i]);
    EXPECT_FALSE(run["results"][i]["message"]["text"].get<std::string>().empty());
  }
  EXPECT_FALSE(run["results"][1]["locations"][0]["physicalLocation"].contains("region"));
  EXPECT_EQ(run["results"][3]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"],
            "file:///a%20b/%E9%85%8D%E7%BD%AE.json");
}

TEST(Explain, TakesAPathAnAliasOrAKey) {
  const auto reading = read(R"({"zero_optimization": {"stage": 3, "prefetch_bucket_size": 7}})");
  for (const std::string_view key :
       {"zero_optimization.stage3_prefetch_bucket_size", "zero_optimization.prefetch_bucket_size",
        "stage3_prefetch_bucket_size", "prefetch_bucket_size"}) {
    const json out = json::parse(explain_json(reading, key, Language::kEnglish));
    EXPECT_EQ(out["path"], "zero_optimization.stage3_prefetch_bucket_size") << key;
    EXPECT_EQ(out["value"], 7);
    EXPECT_EQ(out["from"], "ds.json:1:60");
    EXPECT_EQ(out["default"], 50000000);
    EXPECT_EQ(out["stages"], json::array({3}));
    EXPECT_EQ(out["effect"], "performance");
  }
}

TEST(Explain, ShowsOlderDefaultsAndVersions) {
  const auto reading = read("{}");
  const std::string text = explain(reading, "gradient_clipping", Language::kEnglish, kPipe);
  for (const std::string_view piece :
       {"gradient_clipping", "1.0; before 0.19.3: 0.0", "a number >=0", "the training's results", "Global L2 norm"}) {
    EXPECT_TRUE(holds(text, piece)) << piece << "\n" << text;
  }
  EXPECT_TRUE(holds(explain(reading, "managed_gradient_accumulation", Language::kEnglish, kPipe), "since 0.19.4"));
  EXPECT_TRUE(holds(explain(reading, "bfloat16", Language::kEnglish, kPipe), "deprecated, write bf16"));
  EXPECT_TRUE(holds(explain(reading, "overlap_comm", Language::kChinese, kPipe), "只影响性能"));
}

TEST(Explain, SaysWhyASettingHasNoEffect) {
  const auto reading = read("{}");
  const std::string text = explain(reading, "reduce_scatter", Language::kEnglish, kPipe);
  EXPECT_TRUE(holds(text, "without effect")) << text;
  EXPECT_TRUE(holds(text, "every bucket is reduce-scattered")) << text;
  EXPECT_TRUE(holds(explain(reading, "reduce_scatter", Language::kChinese, kPipe), "原因"));
  const json out = json::parse(explain_json(reading, "sub_group_size", Language::kEnglish));
  EXPECT_EQ(out["standing"], "ignored");
  EXPECT_TRUE(holds(out["why"].get<std::string>(), "a rank updates its slice of each bucket in place")) << out;
  EXPECT_TRUE(json::parse(explain_json(reading, "gradient_clipping", Language::kEnglish))["why"].is_null());
  EXPECT_TRUE(holds(explain(reading, "fp16.hysteresis", Language::kEnglish, kPipe), "read, checked and acted on"));
}

TEST(Explain, RefusesWithTheWayOut) {
  const auto reading = read("{}");
  const std::pair<std::string_view, std::string_view> cases[] = {
      {"overlap_com", "did you mean overlap_comm?"},
      {"zero_optimization.overlapcomm", "did you mean zero_optimization.overlap_comm?"},
      {"enabled", "say which: fp16.enabled, bf16.enabled"},
      {"zero_optimization", "explain one of its settings, zero_optimization.KEY: stage,"},
      {"qqqqqqqqqqqq", "docs/settings.md lists them all"},
  };
  for (const auto& [key, words] : cases) {
    try {
      explain(reading, key, Language::kEnglish, kPipe);
      ADD_FAILURE() << key;
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), 2);
      EXPECT_TRUE(holds(error.what(), words)) << error.what();
    }
  }
}

TEST(RulesPage, HasEveryRuleInLinesThatFit) {
  const std::string page = rules_page();
  EXPECT_TRUE(holds(page, "# Rules\n"));
  EXPECT_TRUE(holds(page, "\n## keys\n"));
  for (const config::RuleInfo& info : all_rules()) EXPECT_TRUE(holds(page, cat("| `", info.id, "` | "))) << info.id;
  for (const auto& line : lines_of(page)) EXPECT_LE(config::Source("x", line).place(line.size()).column, 161) << line;
}

TEST(FixReport, SaysWhatIsDoneAndWhatIsLeft) {
  const FixResult result{.text = std::string(kConfig), .fixed = {misspelt()}, .left = {one_of_each().problems[1]}};
  const Fixed fixed{result, "ds.json", "out.json"};
  const std::string text = fix_text(fixed, Language::kEnglish, kPipe);
  EXPECT_TRUE(text.starts_with("fixed keys/misspelt zero_optimization.overlap_com: overlap_com is not a key;\n"))
      << text;
  EXPECT_TRUE(holds(text, "warning[keys/unknown] out.json: nowhere\n")) << text;
  EXPECT_TRUE(holds(text, "1 fixed in out.json; left: 1 warning: ")) << text;
  const json out = json::parse(fix_json(fixed, Language::kEnglish));
  EXPECT_EQ(out["fixed"][0]["rule"], "keys/misspelt");
  EXPECT_EQ(out["left"][0]["rule"], "keys/unknown");
  EXPECT_EQ(out["verdict"]["warnings"], 1);
}

TEST(StepReport, NumbersTheSteps) {
  const std::vector<Step> steps = {
      {.what = {"halve the batch", "批次减半"}, .why = {"it needs less", "占用更少"}, .path = "a.b"},
      {.what = {"buy more", "再买一些"}, .why = {"it holds more", "容量更大"}}};
  EXPECT_EQ(steps_text(steps, Language::kEnglish, kPipe),
            "1. halve the batch\n   it needs less\n2. buy more\n   it holds more\n");
  const json out = json::parse(steps_json("oom", "", steps, Language::kChinese));
  EXPECT_EQ(
      out["steps"][0],
      (json{{"what", "批次减半"}, {"why", "占用更少"}, {"path", "a.b"}, {"current", nullptr}, {"suggested", nullptr}}));
  EXPECT_TRUE(out["file"].is_null());
}

}  // namespace
}  // namespace weft::doctor
