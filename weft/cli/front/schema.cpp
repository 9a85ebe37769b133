#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "weft/base/text.h"
#include "weft/cli/front/command.h"
#include "weft/cli/front/flags.h"
#include "weft/config/setting.h"

namespace weft::cli {
namespace {

using config::Section;
using config::Setting;
using config::Type;
using Json = nlohmann::ordered_json;

std::string in_case(std::string_view text, int (*convert)(int)) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(convert(static_cast<unsigned char>(c)));
  return out;
}

// Other spellings of a dtype, where a setting takes them.
std::vector<std::string_view> spellings_of(std::string_view dtype) {
  if (dtype == "fp16") return {"float16", "half", "torch.float16"};
  if (dtype == "bf16") return {"bfloat16", "torch.bfloat16"};
  return {"float32", "float", "torch.float32"};
}

Json enum_of(const Setting& setting) {
  std::vector<std::string> values;
  const auto add = [&](std::string_view text) {
    if (std::ranges::find(values, text) == values.end()) values.emplace_back(text);
  };
  for (const std::string_view value : setting.values) {
    add(value);
    if (setting.any_case) add(in_case(value, std::tolower));
    if (setting.any_case) add(in_case(value, std::toupper));
    if (setting.spellings) {
      for (const std::string_view spelling : spellings_of(value)) add(spelling);
    }
  }
  Json list = values;
  if (setting.nullable) list.push_back(nullptr);
  return {{"enum", std::move(list)}};
}

void add_range(Json& json, const config::Range& range) {
  if (std::isfinite(range.low)) json[range.low_open ? "exclusiveMinimum" : "minimum"] = range.low;
  if (std::isfinite(range.high)) json[range.high_open ? "exclusiveMaximum" : "maximum"] = range.high;
}

Json typed(std::string_view name, const Setting& setting) {
  Json json = {{"type", name}};
  if (setting.nullable) json["type"] = Json::array({name, "null"});
  return json;
}

Json with_range(Json json, const Setting& setting) {
  add_range(json, setting.range);
  return json;
}

// A trainer fills "auto" in before DeepSpeed sees the file.
Json or_auto(Json json) { return {{"anyOf", Json::array({std::move(json), Json{{"const", "auto"}}})}}; }

Json type_schema(const Setting& setting) {
  switch (setting.type) {
    case Type::kBool: return or_auto(typed("boolean", setting));
    case Type::kInt: return or_auto(with_range(typed("integer", setting), setting));
    case Type::kFloat: return or_auto(with_range(typed("number", setting), setting));
    case Type::kEnum:
    case Type::kDtype: return or_auto(enum_of(setting));
    case Type::kString:
    case Type::kPath: return typed("string", setting);
    case Type::kStrings: {
      Json json = typed("array", setting);
      json["items"] = {{"type", "string"}};
      return json;
    }
    case Type::kObject: return typed("object", setting);
    case Type::kList: return typed("array", setting);
    case Type::kAny: return Json::object();
    case Type::kNull: return {{"type", "null"}};
  }
  return Json::object();
}

std::string description_of(const Setting& setting) {
  std::string text(setting.doc);
  if (setting.since != config::Version{}) text += cat(" Since DeepSpeed ", config::format_version(setting.since), ".");
  if (setting.removed != config::Version{})
    text += cat(" Removed in DeepSpeed ", config::format_version(setting.removed), ".");
  const std::string_view instead = setting.deprecated.empty() ? setting.renamed : setting.deprecated;
  if (!instead.empty()) text += cat(" Write ", instead, " instead.");
  return text;
}

Json setting_schema(const Setting& setting) {
  const bool removed = setting.removed != config::Version{};
  // DeepSpeed stops at a key it removed, whatever its value; one that was renamed it ignores.
  Json json = removed && setting.renamed.empty() ? Json{{"not", Json::object()}} : type_schema(setting);
  json["description"] = description_of(setting);
  if (setting.default_json != "null") json["default"] = Json::parse(setting.default_json);
  if (removed || !setting.deprecated.empty()) json["deprecated"] = true;
  return json;
}

void add_setting(Json& properties, const Setting& setting) {
  const Json schema = setting_schema(setting);
  properties[std::string(setting.key)] = schema;
  for (const std::string_view alias : setting.aliases) {
    Json other = schema;
    other["description"] = cat("Another name of ", setting.key, ". ", description_of(setting));
    properties[std::string(alias)] = std::move(other);
  }
}

// Whether `inner` is an object directly inside `outer`.
bool is_child(std::string_view inner, std::string_view outer) {
  if (inner.empty() || inner == outer) return false;
  const size_t dot = inner.rfind('.');
  return (dot == std::string::npos ? "" : inner.substr(0, dot)) == outer;
}

Json section_schema(const Section& section) {
  Json properties = Json::object();
  for (const Setting& setting : config::settings()) {
    if (setting.section->path == section.path) add_setting(properties, setting);
  }
  for (const Section& inner : config::sections()) {
    if (!is_child(inner.path, section.path)) continue;
    const Json schema = section_schema(inner);
    properties[std::string(inner.path.substr(config::parent_of(inner.path).size()))] = schema;
    for (const std::string_view alias : inner.aliases) properties[std::string(alias)] = schema;
  }
  Json json = {{"description", section.doc}, {"type", "object"}};
  if (section.nullable) json["type"] = Json::array({"object", "null"});
  json["properties"] = std::move(properties);
  json["additionalProperties"] = !section.strict;
  return json;
}

}  // namespace

int run_schema(const Arguments& arguments) {
  auto app =
      make_app("schema",
               "Print a JSON Schema (draft 2020-12) of ds_config.json, with types, ranges, defaults and descriptions:\n"
               "editors check and complete a config with it.",
               "weft schema > ds_config.schema.json");
  if (!parse_flags(*app, arguments)) return 0;
  Json out = {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
              {"title", cat("DeepSpeed config, as of DeepSpeed ", config::format_version(config::kNewestDeepSpeed))}};
  out.update(section_schema(*config::find_section("")));
  std::printf("%s\n", out.dump(2).c_str());
  return 0;
}

}  // namespace weft::cli
