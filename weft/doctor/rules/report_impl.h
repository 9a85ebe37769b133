// What the reports share: the excerpt of a source, the table, the verdict and the JSON of one problem.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "weft/config/words.h"
#include "weft/doctor/rules/report.h"

namespace weft::doctor {

inline std::string_view say(config::Language language, std::string_view en, std::string_view zh) {
  return language == config::Language::kChinese ? zh : en;
}

// "error", "warning", "advice", or their Chinese.
std::string_view severity_word(config::Severity severity, config::Language language);
// "JSON", "YAML", "base64", "Accelerate YAML".
std::string_view form_word(config::Form form);

struct Verdict {
  int errors = 0;
  int warnings = 0;
  int advice = 0;
  int good = 0;
  bool ok = false;   // neither errors nor warnings
  std::string text;  // one line
};

Verdict verdict_of(const std::vector<config::Problem>& problems, size_t num_good, config::Version version,
                   config::Language language);
Verdict verdict_of(const Checked& checked, config::Language language);
// Of a file that could not be read.
Verdict unreadable_verdict(config::Language language);

// A text that problems point into, and what in it is not shown.
struct Page {
  const config::Source& source;
  std::vector<config::Span> secrets = {};
};

// The first line of a span with its number in a gutter, and a line that underlines the span. Tabs are four columns; a line
// that is too long is cut around the span; a secret is stars.
std::string excerpt(const Page& page, config::Span span, config::Severity severity, const Terminal& terminal);

// Lines of at most `columns`. Unlike wrap_columns() it breaks between Chinese characters, not before their punctuation.
std::vector<std::string> wrap_text(std::string_view utf8, int columns);

inline Style style_of(config::Severity severity) {
  return severity == config::Severity::kAdvice ? Style::kBold : Style::kRed;
}

// Whether the marks and ellipses outside ASCII may be shown: the rule of printable().
inline bool shows_unicode(const Terminal& terminal) { return terminal.unicode || !terminal.is_tty; }

// Problems, then what is good, fitted to the terminal's columns. Empty when there is neither.
std::string findings_table(const Diagnosis& diagnosis, config::Language language, const Terminal& terminal);

// A problem with its place, excerpt, message and fix. `page` is what its span points into.
std::string problem_text(const config::Problem& problem, const Page& page, config::Language language,
                         const Terminal& terminal);

// `text` wrapped to the terminal, every line after `indent` spaces, the first after `label` too.
std::string wrapped(std::string_view label, std::string_view text, int indent, const Terminal& terminal);

}  // namespace weft::doctor
