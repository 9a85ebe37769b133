#include <algorithm>

#include "weft/base/text.h"
#include "weft/doctor/rules/report_impl.h"

namespace weft::doctor {
namespace {

using config::Language;
using config::Problem;
using config::Severity;

std::string headline(Severity severity, std::string_view rule, const std::string& where, Language language,
                     const Terminal& terminal) {
  const std::string tag = cat(severity_word(severity, language), "[", rule, "]");
  const std::string place = printable(where, terminal);
  const bool one_line = display_columns(tag) + 1 + display_columns(place) <= terminal.columns;
  if (one_line) return cat(style(tag, style_of(severity), terminal), " ", style(place, Style::kBold, terminal), "\n");
  std::string out = cat(style(tag, style_of(severity), terminal), "\n");
  for (const std::string& piece : wrap_text(place, std::max(1, terminal.columns - 2))) {
    out += cat("  ", style(piece, Style::kBold, terminal), "\n");
  }
  return out;
}

std::string counted(int count, std::string_view one, std::string_view many) {
  return cat(count, " ", count == 1 ? one : many);
}

std::string counts_text(const Verdict& v, Language language) {
  std::vector<std::string> parts;
  const bool zh = language == Language::kChinese;
  const auto add = [&](int count, std::string_view one, std::string_view many, std::string_view chinese) {
    if (count > 0) parts.push_back(zh ? cat(count, " ", chinese) : counted(count, one, many));
  };
  add(v.errors, "error", "errors", "个错误");
  add(v.warnings, "warning", "warnings", "个警告");
  add(v.advice, "advice", "advice", "条建议");
  add(v.good, "good", "good", "项正确");
  if (parts.empty()) parts.emplace_back(zh ? "没有问题" : "no problems");
  return join(parts, zh ? "，" : ", ");
}

std::string judgement(const Verdict& v, bool refused, config::Version version, Language language) {
  if (refused) {
    return cat("DeepSpeed ", config::format_version(version),
               say(language, " would refuse this file", " 会拒绝这个文件"));
  }
  if (v.errors > 0) return std::string(say(language, "not ready, the errors come first", "还不能用，请先改正错误"));
  if (v.warnings > 0)
    return std::string(
        say(language, "it would run, at a loss of time, memory or results", "可以运行，但会损失时间、显存或结果"));
  return std::string(say(language, "ready", "可以使用"));
}

std::string header(const Checked& checked, Language language, const Terminal& terminal) {
  const config::Reading& reading = checked.reading;
  const config::Document& document = reading.document;
  std::string facts =
      cat(form_word(document.form), say(language, ", read as DeepSpeed ", "，按 DeepSpeed "),
          config::format_version(reading.version), say(language, ", world ", " 理解，卡数 "), reading.world,
          say(language, " (", "（"), reading.world_origin.note.in(language), say(language, ")", "）"));
  if (document.outer != nullptr && document.outer != document.source) {
    facts += cat(say(language, ", named by ", "，由 "), document.outer->name(), say(language, "", " 引用"));
  }
  const std::string name = cat(printable(document.source->name(), terminal), ": ");
  std::string out;
  for (const std::string& piece : wrap_text(cat(name, printable(facts, terminal)), terminal.columns)) {
    out += cat(out.empty() ? style(piece, Style::kBold, terminal) : piece, "\n");
  }
  return out;
}

std::string verdict_line(const Verdict& verdict, const Terminal& terminal) {
  std::string out;
  const Style how = verdict.ok ? Style::kGreen : Style::kRed;
  for (const std::string& piece : wrap_text(printable(verdict.text, terminal), terminal.columns)) {
    out += cat(style(piece, how, terminal), "\n");
  }
  return out;
}

}  // namespace

std::string_view severity_word(Severity severity, Language language) {
  if (language == Language::kEnglish) return config::severity_name(severity);
  switch (severity) {
    case Severity::kError: return "错误";
    case Severity::kWarning: return "警告";
    case Severity::kAdvice: return "建议";
  }
  return "";
}

std::string_view form_word(config::Form form) {
  switch (form) {
    case config::Form::kHjson: return "JSON";
    case config::Form::kYaml: return "YAML";
    case config::Form::kBase64: return "base64";
    case config::Form::kAccelerateYaml: return "Accelerate YAML";
  }
  return "";
}

Verdict verdict_of(const std::vector<Problem>& problems, size_t num_good, config::Version version, Language language) {
  Verdict verdict;
  verdict.good = static_cast<int>(num_good);
  bool refused = false;
  for (const Problem& problem : problems) {
    refused = refused || problem.deepspeed_refuses;
    if (problem.severity == Severity::kError) ++verdict.errors;
    if (problem.severity == Severity::kWarning) ++verdict.warnings;
    if (problem.severity == Severity::kAdvice) ++verdict.advice;
  }
  verdict.ok = verdict.errors + verdict.warnings == 0;
  verdict.text =
      cat(counts_text(verdict, language), say(language, ": ", "："), judgement(verdict, refused, version, language));
  return verdict;
}

Verdict verdict_of(const Checked& checked, Language language) {
  return verdict_of(checked.diagnosis.problems, checked.diagnosis.good.size(), checked.reading.version, language);
}

Verdict unreadable_verdict(Language language) {
  Verdict verdict;
  verdict.errors = 1;
  verdict.text = say(language, "1 error: the file cannot be read", "1 个错误：无法读取这个文件");
  return verdict;
}

std::string wrapped(std::string_view label, std::string_view text, int indent, const Terminal& terminal) {
  const std::string margin(static_cast<size_t>(indent), ' ');
  std::string out;
  for (const std::string& piece :
       wrap_text(cat(label, printable(text, terminal)), std::max(1, terminal.columns - indent))) {
    out += cat(margin, piece, "\n");
  }
  return out;
}

std::string problem_text(const Problem& problem, const Page& page, Language language, const Terminal& terminal) {
  const bool placed = problem.span.end != 0;
  std::string where = placed ? page.source.where(problem.span) : page.source.name();
  // Nothing is shown of a setting that the file does not have, so it is named.
  if (!placed && !problem.path.empty()) where += cat(": ", problem.path);
  std::string out = headline(problem.severity, problem.rule, where, language, terminal);
  if (placed) out += excerpt(page, problem.span, problem.severity, terminal);
  out += wrapped("", problem.message.in(language), 2, terminal);
  if (!problem.fix.empty()) out += wrapped(say(language, "do: ", "建议："), problem.fix.in(language), 2, terminal);
  if (!problem.edits.empty()) {
    out += wrapped("", say(language, "--fix OUT makes this change", "--fix OUT 可自动完成此修改"), 2, terminal);
  }
  return out;
}

std::string text_report(const Checked& checked, Language language, const Terminal& terminal) {
  std::string out = header(checked, language, terminal);
  const std::string table = findings_table(checked.diagnosis, language, terminal);
  if (!table.empty()) out += cat("\n", table);
  const Page page = {*checked.reading.document.source, checked.reading.secrets};
  for (const Problem& problem : checked.diagnosis.problems) {
    out += cat("\n", problem_text(problem, page, language, terminal));
  }
  return cat(out, "\n", verdict_line(verdict_of(checked, language), terminal));
}

std::string text_report(const config::ReadError& error, Language language, const Terminal& terminal) {
  const config::Source& source = *error.source();
  const bool placed = !source.text().empty();
  std::string out =
      headline(Severity::kError, error.rule(), placed ? source.where(error.span()) : source.name(), language, terminal);
  if (placed) out += excerpt({source, config::find_secrets(source)}, error.span(), Severity::kError, terminal);
  out += wrapped("", error.message().in(language), 2, terminal);
  if (!error.fix().empty()) out += wrapped(say(language, "do: ", "建议："), error.fix().in(language), 2, terminal);
  return out;
}

}  // namespace weft::doctor
