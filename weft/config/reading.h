// A config that has been read: every setting's value, where it came from, and what is wrong with it.
//
//   Reading reading = read_config(load_document(Env::posix(), "ds_config.json"), facts);
//   reading.resolved.zero_optimization.stage                    what the other rooms use
//   reading.origin("zero_optimization.stage")                   ds_config.json:12:5
//
// Nothing here throws for a bad config: problems are listed, and a value that could not be used has its default, so that the
// doctor can go on. require_usable() is for those who want to run. Values, any thread.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/config/document.h"
#include "weft/config/problem.h"
#include "weft/config/resolved.h"
#include "weft/config/secret.h"
#include "weft/config/setting.h"

namespace weft::config {

// Something known from outside the file, and who said it: "--world", "WORLD_SIZE", "train.yaml:3:31".
struct Fact {
  Value value;
  std::string from;
};

// By name: "world", "hidden_size", and the names of HF's TrainingArguments (learning_rate, per_device_train_batch_size, ...).
using Facts = std::map<std::string, Fact, std::less<>>;

Fact int_fact(int64_t value, std::string from);
Fact real_fact(double value, std::string from);
Fact text_fact(std::string_view value, std::string from);
Fact bool_fact(bool value, std::string from);

// What the training config around a document says (HF, LLaMA-Factory and axolotl names).
Facts facts_of_training(const Document& document);

struct Origin {
  enum class Kind { kDefault, kFile, kAuto, kDerived, kFlag, kEnvironment };
  Kind kind = Kind::kDefault;
  Span span = {};   // kFile: the value; kAuto: the word "auto"
  Words note = {};  // kAuto, kDerived: the rule that made it
};

struct Reading {
  Document document;
  std::vector<Span> secrets = {};  // of the document
  Version version = kNewestDeepSpeed;
  int64_t world = 1;
  Origin world_origin = {};

  std::vector<Value> values = {};  // one a setting, in the order of settings()
  std::vector<Origin> origins = {};
  std::vector<Value> defaults = {};  // of `version`, in the same order
  Resolved resolved = {};
  std::vector<Problem> problems = {};  // in the order of the file

  // Requires: a path of the table (an alias will do).
  const Value& value(std::string_view path) const;
  const Origin& origin(std::string_view path) const;
  // The file says it, by any of its names.
  bool given(std::string_view path) const { return origin(path).kind == Origin::Kind::kFile; }
  bool is_default(std::string_view path) const;
  // Where to point: the member's key and value, by any of its names; {} when it is not there.
  Span span_of(std::string_view path) const;
  // What the user wrote, for messages; the resolved value where the file says nothing; kNotShown for a secret that is set.
  std::string shown(std::string_view path) const;
  // A secret, or what holds one, and the file gives it: whatever shows values must show kNotShown for it.
  bool hides(std::string_view path) const;
  // The text there, cut short; kNotShown where it holds a secret.
  std::string quoted(Span span) const;
  bool has_errors() const;
};

// "ds.json:12:5", "default", "default before DeepSpeed 0.19.3", "auto: …".
std::string describe_origin(const Reading& reading, std::string_view path, Language language);

// A line for each setting that weft acts on and each that the file gives: "zero_optimization.stage = 2 (ds.json:12:5)".
std::vector<std::string> describe_settings(const Reading& reading);

// A setting of the file that changes nothing here: "ds.json:12:5: zero_optimization.reduce_scatter has no effect in weft: …".
struct IdleSetting {
  std::string text;
  bool is_planned = false;  // it is to have an effect one day, and the file asks for it
};
std::vector<IdleSetting> describe_idle(const Reading& reading);

// `version`: --as; else the file's weft.semantics; else the newest. Facts given win over the training config's.
Reading read_config(Document document, Facts facts, std::optional<Version> version = std::nullopt);

// Throws Error(kInput) with every error, each with its place and fix.
void require_usable(const Reading& reading);

}  // namespace weft::config
