// A rule is data plus a function. The data says what it is about in both languages (docs/rules.md, SARIF); the function looks
// at a subject and says what is wrong, or that all is well. One file per family; registry.cpp lists the families.
//
// Rules are pure: no I/O, no state, any thread.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weft/config/problem.h"
#include "weft/doctor/rules/subject.h"

namespace weft::doctor {

// A setting that is as it should be: a row with a tick.
struct Good {
  std::string path;
  std::string value;  // as the user wrote it
  config::Span span = {};
  config::Words why;
};

struct Findings {
  std::vector<config::Problem> problems = {};
  std::vector<Good> good = {};
};

class Reporter;

struct Rule {
  config::RuleInfo info;
  void (*check)(const Subject&, Reporter&);
};

// What a rule writes into; made for one rule at a time, so that a rule cannot report under another's name.
class Reporter {
 public:
  Reporter(const Rule& rule, const Subject& subject, Findings& findings)
      : rule_(rule), subject_(subject), findings_(findings) {}

  // A problem at `path`, with this rule's severity, the value as written, and a fix. The caller may fill in more.
  config::Problem& problem(std::string_view path, config::Words message, config::Words fix);
  // The same, with the JSON literal that --fix writes at `path`.
  config::Problem& problem(std::string_view path, config::Words message, config::Words fix, std::string literal);
  // A tick, if the file itself says it.
  void good(std::string_view path, config::Words why);

 private:
  const Rule& rule_;
  const Subject& subject_;
  Findings& findings_;
};

// The families, each in its own file.
std::span<const Rule> inert_rules();
std::span<const Rule> performance_rules();
std::span<const Rule> bucket_rules();
std::span<const Rule> memory_rules();
std::span<const Rule> zero3_rules();
std::span<const Rule> batch_rules();
std::span<const Rule> precision_rules();
std::span<const Rule> schedule_rules();
std::span<const Rule> reliability_rules();
std::span<const Rule> environment_rules();
std::span<const Rule> file_rules();
std::span<const Rule> conflict_rules();

// All families in the order of the report.
std::vector<std::span<const Rule>> families();
// Every rule there is, the reader's first: for docs, SARIF and --list-rules.
std::vector<config::RuleInfo> all_rules();

}  // namespace weft::doctor
