#include <map>

#include "weft/base/build_info.h"
#include "weft/base/text.h"
#include "weft/doctor/rules/report_impl.h"
#include "weft/doctor/rules/report_json_impl.h"

namespace weft::doctor {
namespace {

using config::Language;
using config::Severity;

std::string_view level_of(Severity severity) {
  switch (severity) {
    case Severity::kError: return "error";
    case Severity::kWarning: return "warning";
    case Severity::kAdvice: return "note";
  }
  return "";
}

// A path as a relative reference, or file:// where it is absolute.
std::string uri_of(std::string_view path) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  constexpr std::string_view kPlain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/";
  std::string uri = path.starts_with('/') ? "file://" : "";
  for (const char c : path) {
    if (kPlain.find(c) != std::string_view::npos) {
      uri += c;
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    uri += cat('%', kDigits[byte >> 4], kDigits[byte & 15]);
  }
  return uri;
}

// One run: the rules there are, and results that point at them by number.
class Run {
 public:
  explicit Run(Language language) : language_(language) {
    for (const config::RuleInfo& info : all_rules()) add_rule(info);
  }

  void add(const config::Problem& problem, const config::Source& source, bool placed) {
    Json result = {{"ruleId", problem.rule}};
    if (const auto found = index_.find(problem.rule); found != index_.end()) result["ruleIndex"] = found->second;
    result["level"] = level_of(problem.severity);
    std::string text = problem.message.in(language_);
    if (!problem.fix.empty()) text += cat("\n", say(language_, "do: ", "建议："), problem.fix.in(language_));
    result["message"] = {{"text", std::move(text)}};
    result["locations"] = Json::array({location(source, problem.span, placed)});
    result["properties"] = {{"path", problem.path},
                            {"current", text_or_null(problem.current)},
                            {"suggested", text_or_null(problem.suggested)},
                            {"fixable", !problem.edits.empty()},
                            {"deepspeed_refuses", problem.deepspeed_refuses}};
    results_.push_back(std::move(result));
  }

  Json finish() && {
    const Json driver = {{"name", "weft"}, {"version", kVersion}, {"rules", std::move(rules_)}};
    return {{"tool", {{"driver", driver}}}, {"columnKind", "unicodeCodePoints"}, {"results", std::move(results_)}};
  }

 private:
  void add_rule(const config::RuleInfo& info) {
    index_.emplace(info.id, rules_.size());
    rules_.push_back(
        {{"id", info.id},
         {"shortDescription", {{"text", say(language_, info.what, info.what_zh)}}},
         {"fullDescription", {{"text", say(language_, info.why, info.why_zh)}}},
         {"defaultConfiguration", {{"level", level_of(info.severity)}}},
         {"properties",
          {{"what", {{"en", info.what}, {"zh", info.what_zh}}}, {"why", {{"en", info.why}, {"zh", info.why_zh}}}}}});
  }

  static Json location(const config::Source& source, config::Span span, bool placed) {
    Json physical = {{"artifactLocation", {{"uri", uri_of(source.name())}}}};
    if (placed) {
      const config::Place start = source.place(span.begin), end = source.place(span.end);
      physical["region"] = {
          {"startLine", start.line}, {"startColumn", start.column}, {"endLine", end.line}, {"endColumn", end.column}};
    }
    return {{"physicalLocation", std::move(physical)}};
  }

  Language language_;
  std::map<std::string, size_t, std::less<>> index_;
  Json rules_ = Json::array();
  Json results_ = Json::array();
};

}  // namespace

std::string sarif_report(const std::vector<Checked>& checked, const std::vector<config::ReadError>& unreadable,
                         Language language) {
  Run run(language);
  for (const Checked& file : checked) {
    for (const config::Problem& problem : file.diagnosis.problems) {
      run.add(problem, *file.reading.document.source, problem.span.end != 0);
    }
  }
  for (const config::ReadError& error : unreadable) {
    config::Problem problem{.rule = error.rule(), .span = error.span(), .message = error.message(), .fix = error.fix()};
    problem.deepspeed_refuses = true;
    run.add(problem, *error.source(), !error.source()->text().empty());
  }
  const Json out = {{"$schema", "https://json.schemastore.org/sarif-2.1.0.json"},
                    {"version", "2.1.0"},
                    {"runs", Json::array({std::move(run).finish()})}};
  return dumped(out);
}

}  // namespace weft::doctor
