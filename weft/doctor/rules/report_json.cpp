#include <algorithm>

#include "weft/base/text.h"
#include "weft/doctor/rules/report_impl.h"
#include "weft/doctor/rules/report_json_impl.h"

namespace weft::doctor {
namespace {

using config::Language;
using config::Setting;
using config::Standing;

void add_place(Json& json, const config::Source& source, config::Span span, bool placed) {
  const config::Place start = source.place(span.begin), end = source.place(span.end);
  json["line"] = placed ? Json(start.line) : Json(nullptr);
  json["col"] = placed ? Json(start.column) : Json(nullptr);
  json["end_line"] = placed ? Json(end.line) : Json(nullptr);
  json["end_col"] = placed ? Json(end.column) : Json(nullptr);
}

bool is_given(const config::Reading& reading, const Setting& setting) {
  const auto kind = reading.origins[config::index_of(setting)].kind;
  return kind == config::Origin::Kind::kFile || kind == config::Origin::Kind::kAuto;
}

// What the engine works with, and whatever the file says beyond that.
bool is_shown(const config::Reading& reading, const Setting& setting) {
  if (is_given(reading, setting)) return true;
  if (!setting.deprecated.empty() || !setting.exists_in(reading.version)) return false;
  const Standing standing = setting.section->standing;
  return setting.section->path.empty() || standing == Standing::kPlanned || standing == Standing::kHonoured;
}

// The object at "a.b", made on the way.
Json& section_at(Json& root, std::string_view path) {
  Json* at = &root;
  while (!path.empty()) {
    const size_t dot = std::min(path.find('.'), path.size());
    at = &(*at)[std::string(path.substr(0, dot))];
    path.remove_prefix(std::min(path.size(), dot + 1));
  }
  return *at;
}

void add_settings(Json& out, const config::Reading& reading, Language language) {
  Json resolved = Json::object(), origins = Json::object();
  for (const Setting& setting : config::settings()) {
    if (!is_shown(reading, setting)) continue;
    section_at(resolved, setting.section->path)[std::string(setting.key)] = json_of(reading, setting);
    origins[std::string(setting.path)] = config::describe_origin(reading, setting.path, language);
  }
  out["resolved"] = std::move(resolved);
  out["origins"] = std::move(origins);
}

}  // namespace

Json json_of(const config::Value& value) {
  switch (value.kind) {
    case config::Kind::kNull: return nullptr;
    case config::Kind::kBool: return value.boolean;
    case config::Kind::kInt: return value.integer;
    case config::Kind::kReal: return value.real;
    case config::Kind::kString: return value.text;
    case config::Kind::kArray: {
      Json list = Json::array();
      for (const config::Value& item : value.items) list.push_back(json_of(item));
      return list;
    }
    case config::Kind::kObject: {
      Json object = Json::object();
      for (const config::Member& member : value.members) object[member.key] = json_of(member.value);
      return object;
    }
  }
  return nullptr;
}

Json json_of(const config::Reading& reading, const Setting& setting) {
  return reading.hides(setting.path) ? Json(config::kNotShown) : json_of(reading.value(setting.path));
}

Json json_of(const Verdict& verdict) {
  return {{"errors", verdict.errors}, {"warnings", verdict.warnings},
          {"advice", verdict.advice}, {"good", verdict.good},
          {"ok", verdict.ok},         {"text", verdict.text}};
}

Json text_or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

std::string dumped(const Json& json) { return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n"; }

Json json_of(const config::Problem& problem, const config::Source& source, Language language) {
  Json json = {{"severity", config::severity_name(problem.severity)}, {"rule", problem.rule}, {"path", problem.path}};
  add_place(json, source, problem.span, problem.span.end != 0);
  json["message"] = problem.message.in(language);
  json["fix"] = text_or_null(problem.fix.in(language));
  json["current"] = text_or_null(problem.current);
  json["suggested"] = text_or_null(problem.suggested);
  json["fixable"] = !problem.edits.empty();
  json["deepspeed_refuses"] = problem.deepspeed_refuses;
  return json;
}

Json json_of(const Good& good, const config::Source& source, Language language) {
  Json json = {{"path", good.path}, {"value", good.value}};
  const config::Place place = source.place(good.span.begin);
  json["line"] = good.span.end != 0 ? Json(place.line) : Json(nullptr);
  json["col"] = good.span.end != 0 ? Json(place.column) : Json(nullptr);
  json["why"] = good.why.in(language);
  return json;
}

std::string json_report(const Checked& checked, Language language) {
  const config::Reading& reading = checked.reading;
  const config::Document& document = reading.document;
  Json out = {{"schema", 1}, {"file", document.source->name()}, {"form", form_word(document.form)}};
  if (document.outer != nullptr && document.outer != document.source) out["named_by"] = document.outer->name();
  out["semantics"] = cat("deepspeed-", config::format_version(reading.version));
  out["world"] = {{"value", reading.world}, {"from", reading.world_origin.note.in(language)}};
  out["verdict"] = json_of(verdict_of(checked, language));
  out["problems"] = Json::array();
  for (const config::Problem& problem : checked.diagnosis.problems) {
    out["problems"].push_back(json_of(problem, *document.source, language));
  }
  out["good"] = Json::array();
  for (const Good& good : checked.diagnosis.good) out["good"].push_back(json_of(good, *document.source, language));
  add_settings(out, reading, language);
  return dumped(out);
}

std::string json_report(const config::ReadError& error, Language language) {
  const config::Source& source = *error.source();
  Json problem = {{"severity", "error"}, {"rule", error.rule()}, {"path", ""}};
  add_place(problem, source, error.span(), !source.text().empty());
  problem["message"] = error.message().in(language);
  problem["fix"] = text_or_null(error.fix().in(language));
  problem["current"] = problem["suggested"] = nullptr;
  problem["fixable"] = false;
  problem["deepspeed_refuses"] = config::deepspeed_refuses(error);
  Json out = {{"schema", 1}, {"file", source.name()}, {"verdict", json_of(unreadable_verdict(language))}};
  out["problems"] = Json::array({std::move(problem)});
  out["good"] = Json::array();
  out["resolved"] = out["origins"] = nullptr;
  return dumped(out);
}

std::string json_reports(const std::vector<std::string>& reports) {
  Json out = {{"schema", 1}, {"files", Json::array()}};
  for (const std::string& report : reports) out["files"].push_back(Json::parse(report));
  return dumped(out);
}

}  // namespace weft::doctor
