// What weft does not act on: each row of the table has its reason, a file that asks for it is told, and no other file is.
#include <gtest/gtest.h>

#include <algorithm>

#include "weft/base/text.h"
#include "weft/config/coerce.h"
#include "weft/config/test_reading_impl.h"

namespace weft::config {
namespace {

bool is_idle(const Setting& setting) {
  return setting.standing == Standing::kIgnored || setting.standing == Standing::kPlanned;
}

std::string other_number(const Setting& setting) {
  for (const char* number : {"2", "8", "0.5", "0.25"}) {
    const bool fits = setting.type == Type::kFloat || std::string_view(number).find('.') == std::string_view::npos;
    if (fits && setting.range.holds(std::stod(number)) && setting.default_json != number) return number;
  }
  return "";
}

// JSON of the setting's type that is not its default.
std::string other_value(const Setting& setting) {
  switch (setting.type) {
    case Type::kBool: return setting.default_json == "true" ? "false" : "true";
    case Type::kInt:
    case Type::kFloat: return other_number(setting);
    case Type::kEnum:
    case Type::kDtype:
      for (const std::string_view value : setting.values) {
        if (cat("\"", value, "\"") != setting.default_json) return cat("\"", value, "\"");
      }
      return "";
    case Type::kStrings:
    case Type::kList: return R"(["x"])";
    case Type::kObject: return R"({"x": 1})";
    case Type::kString:
    case Type::kPath:
    case Type::kAny: return "\"x\"";
    case Type::kNull: return "null";
  }
  return "";
}

// {"a": {"b": {inner}}} for "a.b".
std::string nested(std::string_view section, std::string inner) {
  while (!section.empty()) {
    const size_t dot = section.rfind('.') + 1;  // npos + 1 is 0
    inner = cat("\"", section.substr(dot), "\": {", inner, "}");
    section = section.substr(0, dot == 0 ? 0 : dot - 1);
  }
  return cat("{", inner, "}");
}

std::string file_with(const Setting& setting, const std::string& value, bool switched_on) {
  std::string inner = cat("\"", setting.key, "\": ", value);
  for (const auto& [key, on] : {std::pair("enabled", "true"), std::pair("device", "\"nvme\"")}) {
    const bool has_it = setting.key != key && find_setting(cat(setting.section->path, ".", key)) != nullptr;
    if (switched_on && has_it) inner += cat(", \"", key, "\": ", on);
  }
  return nested(setting.section->path, inner);
}

int times_said(const Setting& setting, const std::string& text) {
  const Version version =
      setting.exists_in(kNewestDeepSpeed) ? kNewestDeepSpeed : std::max(setting.since, kOldestDeepSpeed);
  const auto idle = describe_idle(read_text(text, {}, version));
  return static_cast<int>(std::ranges::count_if(idle, [&](const IdleSetting& one) {
    return one.text.find(setting.why) != std::string::npos &&
           one.is_planned == (setting.standing == Standing::kPlanned);
  }));
}

TEST(Standing, EveryRowThatIsNotHonouredHasItsReason) {
  for (const Setting& setting : settings()) {
    EXPECT_EQ(setting.why.empty(), setting.why_zh.empty()) << setting.path;
    EXPECT_TRUE(setting.standing == Standing::kHonoured || !setting.why.empty()) << setting.path;
    EXPECT_FALSE(setting.why.ends_with('.')) << setting.path << ": it stands inside a sentence";
  }
}

TEST(Standing, AFileThatAsksForWhatHasNoEffectIsToldOnce) {
  int count = 0;
  for (const Setting& setting : settings()) {
    if (!is_idle(setting)) continue;
    const std::string text = file_with(setting, other_value(setting), true);
    EXPECT_EQ(times_said(setting, text), 1) << setting.path << "\n" << text;
    ++count;
  }
  EXPECT_GT(count, 100);
}

TEST(Standing, ADefaultSaysNothing) {
  for (const Setting& setting : settings()) {
    if (!is_idle(setting) || setting.default_json == "null") continue;
    const std::string text = file_with(setting, std::string(setting.default_json), false);
    EXPECT_EQ(times_said(setting, text), 0) << setting.path << "\n" << text;
  }
}

TEST(Standing, IsSaidWithItsPlace) {
  const std::string text = R"({"train_batch_size": 8, "amp": {}, "zero_optimization": {"stage": 2,
    "reduce_scatter": false, "offload_optimizer": {"device": "cpu", "pin_memory": false}}})";
  const auto idle = describe_idle(read_config(parse_document(checked_source("ds.json", text)), {}));
  ASSERT_EQ(idle.size(), 2U);
  EXPECT_TRUE(idle[0].text.starts_with("ds.json:2:5: zero_optimization.reduce_scatter has no effect in weft: every "))
      << idle[0].text;
  EXPECT_FALSE(idle[0].is_planned);
  EXPECT_TRUE(idle[1].text.starts_with("ds.json:2:30: weft does not act on zero_optimization.offload_optimizer yet: "))
      << idle[1].text;
  EXPECT_TRUE(idle[1].is_planned);
}

}  // namespace
}  // namespace weft::config
