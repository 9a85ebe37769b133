// A diagnosis as a person or a program wants it. Pure functions, any thread; nothing is printed here.
#pragma once

#include <string>
#include <vector>

#include "weft/config/words.h"
#include "weft/doctor/rules/diagnosis.h"
#include "weft/monitor/terminal.h"

namespace weft::doctor {

struct Checked {
  const config::Reading& reading;
  const Diagnosis& diagnosis;
};

// Table of ticks and crosses, each problem with its source line and a caret, and a one-line verdict.
std::string text_report(const Checked& checked, config::Language language, const Terminal& terminal);

// A file that could not be read: the excerpt and what to do.
std::string text_report(const config::ReadError& error, config::Language language, const Terminal& terminal);

// {"schema": 1, "file", "verdict", "problems": [{severity, rule, path, line, col, message, fix, ...}], "good", "resolved",
// "origins"}; one object a file inside {"schema": 1, "files": [...]} when there are several (json_reports).
std::string json_report(const Checked& checked, config::Language language);
std::string json_report(const config::ReadError& error, config::Language language);
std::string json_reports(const std::vector<std::string>& reports);

// SARIF 2.1.0, for code-scanning tools: all files in one run.
std::string sarif_report(const std::vector<Checked>& checked, const std::vector<config::ReadError>& unreadable,
                         config::Language language);

// --explain KEY: the value, where it came from, type, default, versions, doc. Throws Error(kInput) for an unknown key.
std::string explain(const config::Reading& reading, std::string_view key, config::Language language,
                    const Terminal& terminal);
std::string explain_json(const config::Reading& reading, std::string_view key, config::Language language);

// docs/rules.md.
std::string rules_page();

}  // namespace weft::doctor
