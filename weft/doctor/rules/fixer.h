// Repairs what can be repaired without a person: makes a problem's edits in the text, reads the result again, and goes on
// until nothing mechanical is left. The author's comments, order and formatting stay (config/edit.h). Pure, any thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "weft/doctor/rules/diagnosis.h"

namespace weft::doctor {

struct FixOptions {
  config::Facts facts = {};
  std::optional<config::Version> version = {};
  Machine machine = {};
};

struct FixResult {
  std::string text;                        // the corrected file; the same text when there was nothing to do
  std::vector<config::Problem> fixed;      // what is gone
  std::vector<config::Problem> left;       // what a person must decide
  std::vector<config::Span> secrets = {};  // of the text
};

// Requires: a document whose source holds the config itself (not base64, not Accelerate's own keys); others come back unchanged.
FixResult fix(const config::Document& document, const FixOptions& options);

}  // namespace weft::doctor
