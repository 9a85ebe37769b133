#include <algorithm>
#include <ranges>

#include "weft/base/error.h"
#include "weft/base/text.h"
#include "weft/doctor/rules/report_impl.h"
#include "weft/doctor/rules/report_json_impl.h"
#include "weft/monitor/table.h"

namespace weft::doctor {
namespace {

using config::Language;
using config::Setting;

bool is_named(const Setting& setting, std::string_view key) {
  return setting.key == key || std::ranges::find(setting.aliases, key) != setting.aliases.end();
}

std::vector<std::string> paths_with_key(std::string_view key) {
  std::vector<std::string> paths;
  for (const Setting& setting : config::settings()) {
    if (is_named(setting, key)) paths.emplace_back(setting.path);
  }
  return paths;
}

[[noreturn]] void refuse(std::string title, std::string fix) {
  throw Error(ErrorKind::kInput, {.title = std::move(title), .what = "", .where = "", .fix = std::move(fix)});
}

[[noreturn]] void refuse_section(std::string_view path) {
  std::vector<std::string> keys;
  for (const Setting& setting : config::settings()) {
    if (setting.section->path == path) keys.emplace_back(setting.key);
  }
  refuse(cat("'", path, "' is a section, not a setting"),
         keys.empty() ? "any key may stand in it"
                      : cat("explain one of its settings, ", path, ".KEY: ", join(keys, ", ")));
}

[[noreturn]] void refuse_unknown(std::string_view key) {
  const bool is_path = key.find('.') != std::string::npos;
  std::vector<std::string> names;
  for (const Setting& setting : config::settings()) names.emplace_back(is_path ? setting.path : setting.key);
  const std::string meant = nearest(key, names);
  refuse(cat("there is no setting '", key, "'"),
         meant.empty() ? "docs/settings.md lists them all" : cat("did you mean ", meant, "?"));
}

const Setting& setting_called(std::string_view key) {
  if (const Setting* setting = config::find_setting(key)) return *setting;
  if (config::find_section(key) != nullptr) refuse_section(key);
  const auto paths = paths_with_key(key);
  if (paths.empty()) refuse_unknown(key);
  if (paths.size() > 1)
    refuse(cat("'", key, "' is the key of several settings"), cat("say which: ", join(paths, ", ")));
  return *config::find_setting(paths.front());
}

std::string default_text(const Setting& setting, Language language) {
  if (setting.derived) return std::string(say(language, "derived from other settings", "由其他设置推导"));
  std::string text(setting.default_json == "null" ? say(language, "none", "无") : setting.default_json);
  // Oldest first in the table; the newest change is what a reader compares with.
  for (const config::OldDefault& old : std::views::reverse(setting.old_defaults)) {
    text += cat(say(language, "; before ", "；早于 "), config::format_version(old.before), say(language, ": ", "："),
                old.json);
  }
  return text;
}

std::string versions_text(const Setting& setting, Language language) {
  std::vector<std::string> parts;
  const auto add = [&](std::string_view en, std::string_view zh, std::string_view what) {
    parts.push_back(cat(say(language, en, zh), what));
  };
  if (setting.since == config::Version{}) add("all that are known", "所有已知版本", "");
  if (setting.since != config::Version{}) add("since ", "始于 ", config::format_version(setting.since));
  if (setting.removed != config::Version{}) add("removed in ", "移除于 ", config::format_version(setting.removed));
  if (!setting.renamed.empty()) add("now called ", "现名 ", setting.renamed);
  if (!setting.deprecated.empty()) add("deprecated, write ", "旧写法，请改用 ", setting.deprecated);
  if (setting.dead) add("read and never used", "会读取但从未使用", "");
  return join(parts, say(language, "; ", "；"));
}

std::vector<int> stages_of(const Setting& setting) {
  std::vector<int> stages;
  for (int stage = 0; stage <= 3; ++stage) {
    if ((setting.stages >> stage & 1U) != 0) stages.push_back(stage);
  }
  return stages;
}

std::string stages_text(const Setting& setting, Language language) {
  std::vector<std::string> words;
  for (const int stage : stages_of(setting)) words.push_back(cat(stage));
  return words.empty() ? std::string(say(language, "any", "任意")) : join(words, ", ");
}

std::string_view effect_text(config::Effect effect, Language language) {
  switch (effect) {
    case config::Effect::kBehaviour: return say(language, "the training's results", "训练结果");
    case config::Effect::kPerformance: return say(language, "performance only", "只影响性能");
    case config::Effect::kOutput: return say(language, "output only", "只影响输出");
  }
  return "";
}

std::string_view standing_text(config::Standing standing, Language language) {
  switch (standing) {
    case config::Standing::kPlanned: return say(language, "read and checked; not acted on yet", "读取并检查；尚未生效");
    case config::Standing::kHonoured: return say(language, "read, checked and acted on", "读取、检查并生效");
    case config::Standing::kIgnored: return say(language, "without effect", "没有作用");
    case config::Standing::kRefused: return say(language, "refused unless inactive", "开启时拒绝");
  }
  return "";
}

std::string_view effect_name(config::Effect effect) {
  constexpr std::string_view kNames[] = {"behaviour", "performance", "output"};
  return kNames[static_cast<size_t>(effect)];
}

std::string_view standing_name(config::Standing standing) {
  constexpr std::string_view kNames[] = {"planned", "honoured", "ignored", "refused"};
  return kNames[static_cast<size_t>(standing)];
}

std::string aliases_text(const Setting& setting) {
  return join(std::vector<std::string>(setting.aliases.begin(), setting.aliases.end()), ", ");
}

}  // namespace

std::string explain(const config::Reading& reading, std::string_view key, Language language, const Terminal& terminal) {
  const Setting& setting = setting_called(key);
  Table table{.title = std::string(setting.path)};
  const auto add = [&](std::string_view en, std::string_view zh, std::string_view value) {
    if (!value.empty()) table.rows.push_back({std::string(say(language, en, zh)), std::string(value)});
  };
  const bool hidden = reading.hides(setting.path);
  add("value", "值", hidden ? std::string(config::kNotShown) : config::to_json(reading.value(setting.path)));
  add("from", "来源", config::describe_origin(reading, setting.path, language));
  add("type", "类型", config::describe_type(setting));
  add("default", "默认值", default_text(setting, language));
  add("other names", "别名", aliases_text(setting));
  add("DeepSpeed", "DeepSpeed", versions_text(setting, language));
  add("ZeRO stages", "ZeRO stage", stages_text(setting, language));
  add("needs", "前提", setting.needs);
  add("changes", "影响", effect_text(setting.effect, language));
  add("weft", "weft", standing_text(setting.standing, language));
  add(setting.standing == config::Standing::kHonoured ? "mind" : "why",
      setting.standing == config::Standing::kHonoured ? "注意" : "原因", say(language, setting.why, setting.why_zh));
  add("meaning", "含义", setting.doc);
  return render_table(table, terminal);
}

std::string explain_json(const config::Reading& reading, std::string_view key, Language language) {
  const Setting& setting = setting_called(key);
  Json out = {{"schema", 1}, {"file", reading.document.source->name()}, {"path", setting.path}};
  out["value"] = json_of(reading, setting);
  out["from"] = config::describe_origin(reading, setting.path, language);
  out["type"] = config::describe_type(setting);
  out["default"] = Json::parse(setting.default_json);
  out["older_defaults"] = Json::array();
  for (const config::OldDefault& old : setting.old_defaults) {
    out["older_defaults"].push_back({{"before", config::format_version(old.before)}, {"value", Json::parse(old.json)}});
  }
  out["derived"] = setting.derived;
  out["aliases"] = setting.aliases;
  const bool always = setting.since == config::Version{}, stays = setting.removed == config::Version{};
  out["since"] = always ? Json(nullptr) : Json(config::format_version(setting.since));
  out["removed"] = stays ? Json(nullptr) : Json(config::format_version(setting.removed));
  out["write_instead"] = text_or_null(std::string(setting.deprecated.empty() ? setting.renamed : setting.deprecated));
  out["stages"] = stages_of(setting);
  out["needs"] = text_or_null(std::string(setting.needs));
  out["effect"] = effect_name(setting.effect);
  out["standing"] = standing_name(setting.standing);
  out["why"] = text_or_null(std::string(say(language, setting.why, setting.why_zh)));
  out["doc"] = setting.doc;
  return dumped(out);
}

}  // namespace weft::doctor
