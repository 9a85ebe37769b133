// What `weft check` was asked to do: the flags, checked, and what the environment adds. Plain values.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "weft/config/reading.h"
#include "weft/doctor/rules/subject.h"

namespace weft::cli {

enum class FailOn { kError, kWarning, kAdvice, kNever };

struct CheckOptions {
  std::vector<std::string> files;

  // What is known from outside the file.
  config::Facts facts;
  doctor::Machine machine;
  std::optional<config::Version> version;

  // The report.
  config::Language language = config::Language::kEnglish;
  bool json = false;
  bool sarif = false;
  FailOn fail_on = FailOn::kWarning;

  // Something else than a report; at most one of these.
  std::string fix_path;
  std::string explain_key;
  std::string preset;
  std::string symptom;
  bool list_rules = false;

  bool markdown = false;  // of --list-rules
  std::string out_path;   // of --preset
  bool force = false;     // of --preset: replace the file
};

// Nothing when help was asked for and printed. Reads the environment (WORLD_SIZE, LANG, ...). Throws Error(kInput).
std::optional<CheckOptions> parse_check_options(const std::vector<std::string>& arguments);

}  // namespace weft::cli
