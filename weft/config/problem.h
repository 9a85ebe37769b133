// What is wrong with a config, said so that a person can act on it and a program can repair it. Plain values, any thread.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weft/config/source.h"
#include "weft/config/words.h"

namespace weft::config {

enum class Severity { kError, kWarning, kAdvice };

std::string_view severity_name(Severity severity);  // "error", "warning", "advice"

// One change to the file. Paths are dotted; `literal` is JSON.
struct Edit {
  enum class Kind {
    kSet,     // path = literal; the key, and the objects above it, are added where they are missing
    kRename,  // the last key of path becomes `to` (a key, not a path)
    kMove,    // the member at path goes to the path `to`
    kRemove,  // the member at path goes
  };
  Kind kind = Kind::kSet;
  std::string path;
  std::string to = {};
  std::string literal = {};
};

struct Problem {
  Severity severity = Severity::kError;
  std::string rule;                // "keys/misspelt"
  std::string path;                // "zero_optimization.overlap_comm"; empty for the whole file
  Span span = {};                  // what to underline; empty {0,0} when the setting is not in the file
  Words message;                   // what is wrong and why, in one or two sentences
  Words fix = {};                  // what to do
  std::string current = {};        // the value now, as the user wrote it; for the table
  std::string suggested = {};      // the value that would be better
  std::vector<Edit> edits = {};    // what --fix does; empty where a person must decide
  bool deepspeed_refuses = false;  // DeepSpeed (of the version asked for) would not start with this file
};

// What a rule is about, for docs/rules.md and SARIF. Every Problem::rule has one.
struct RuleInfo {
  std::string_view id;  // "family/name"
  Severity severity;
  std::string_view what;     // English, one line
  std::string_view what_zh;  // Chinese
  std::string_view why;
  std::string_view why_zh;
};

// The rules that reading itself applies (syntax, keys, types, batch); the doctor has more.
std::span<const RuleInfo> reading_rules();

}  // namespace weft::config
