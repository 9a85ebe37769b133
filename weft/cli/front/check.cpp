#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <variant>

#include "weft/base/env.h"
#include "weft/base/error.h"
#include "weft/base/text.h"
#include "weft/cli/front/check_actions.h"
#include "weft/cli/front/check_options.h"
#include "weft/cli/front/command.h"
#include "weft/doctor/rules/report.h"

namespace weft::cli {
namespace {

using config::ReadError;
using config::Severity;

struct CheckedFile {
  config::Reading reading;
  doctor::Diagnosis diagnosis;
};

// What was found, in the order of the command line: a file that was judged, or why it could not be.
using Outcome = std::variant<CheckedFile, ReadError>;

// A disk that fails and a file without permission are shown as a file that cannot be read, so that the others go on.
ReadError as_read_error(const Error& error, const std::string& path) {
  const std::string words = cat(error.text().title, ": ", error.text().what);
  return {"syntax/unreadable",
          std::make_shared<const config::Source>(path, ""),
          {},
          {words, words},
          {error.text().fix, error.text().fix}};
}

Outcome check_file(const std::string& path, const CheckOptions& o) {
  try {
    config::Reading reading = config::read_config(config::load_document(Env::posix(), path), o.facts, o.version);
    doctor::Diagnosis diagnosis = doctor::diagnose(reading, o.machine);
    return CheckedFile{std::move(reading), std::move(diagnosis)};
  } catch (const ReadError& error) {
    return error;
  } catch (const IoError& error) {
    return as_read_error(error, path);
  }
}

doctor::Checked view(const CheckedFile& file) { return {file.reading, file.diagnosis}; }

void print_text(const std::vector<Outcome>& outcomes, const CheckOptions& o) {
  const Terminal out = detect_terminal(STDOUT_FILENO), err = detect_terminal(STDERR_FILENO);
  const char* separator = "";
  for (const Outcome& outcome : outcomes) {
    if (const auto* file = std::get_if<CheckedFile>(&outcome)) {
      std::printf("%s%s", separator, doctor::text_report(view(*file), o.language, out).c_str());
      separator = "\n";
    } else {
      std::fflush(stdout);
      std::fputs(doctor::text_report(std::get<ReadError>(outcome), o.language, err).c_str(), stderr);
    }
  }
}

void print_json_reports(const std::vector<Outcome>& outcomes, const CheckOptions& o) {
  std::vector<std::string> reports;
  for (const Outcome& outcome : outcomes) {
    const auto* file = std::get_if<CheckedFile>(&outcome);
    reports.push_back(file != nullptr ? doctor::json_report(view(*file), o.language)
                                      : doctor::json_report(std::get<ReadError>(outcome), o.language));
  }
  std::fputs((reports.size() == 1 ? reports.front() : doctor::json_reports(reports)).c_str(), stdout);
}

void print_sarif(const std::vector<Outcome>& outcomes, const CheckOptions& o) {
  std::vector<doctor::Checked> checked;
  std::vector<ReadError> unreadable;
  for (const Outcome& outcome : outcomes) {
    if (const auto* file = std::get_if<CheckedFile>(&outcome)) {
      checked.push_back(view(*file));
    } else {
      unreadable.push_back(std::get<ReadError>(outcome));
    }
  }
  std::fputs(doctor::sarif_report(checked, unreadable, o.language).c_str(), stdout);
}

int exit_code(const std::vector<Outcome>& outcomes, FailOn fail_on) {
  int code = 0;
  for (const Outcome& outcome : outcomes) {
    const auto* file = std::get_if<CheckedFile>(&outcome);
    if (file == nullptr) return 2;
    if (fails(file->diagnosis.problems, fail_on)) code = 1;
  }
  return code;
}

int check_files(const CheckOptions& o) {
  std::vector<Outcome> outcomes;
  for (const std::string& path : o.files) outcomes.push_back(check_file(path, o));
  if (o.sarif) {
    print_sarif(outcomes, o);
  } else if (o.json) {
    print_json_reports(outcomes, o);
  } else {
    print_text(outcomes, o);
  }
  return exit_code(outcomes, o.fail_on);
}

}  // namespace

bool fails(const std::vector<config::Problem>& problems, FailOn fail_on) {
  if (fail_on == FailOn::kNever) return false;
  const Severity least = fail_on == FailOn::kError     ? Severity::kError
                         : fail_on == FailOn::kWarning ? Severity::kWarning
                                                       : Severity::kAdvice;
  return std::ranges::any_of(problems, [&](const config::Problem& problem) { return problem.severity <= least; });
}

int run_check(const Arguments& arguments) {
  const auto options = parse_check_options(arguments);
  if (!options) return 0;
  const CheckOptions& o = *options;
  // The actions work on one file; where it cannot be read, that is all there is to say.
  try {
    if (o.list_rules) return list_rules(o);
    if (!o.preset.empty()) return print_preset(o);
    if (!o.symptom.empty()) return print_symptom(o);
    if (!o.explain_key.empty()) return explain_setting(o);
    if (!o.fix_path.empty()) return fix_file(o);
  } catch (const ReadError& error) {
    if (o.json)
      std::fputs(doctor::json_report(error, o.language).c_str(), stdout);
    else
      std::fputs(doctor::text_report(error, o.language, detect_terminal(STDERR_FILENO)).c_str(), stderr);
    return 2;
  }
  return check_files(o);
}

}  // namespace weft::cli
