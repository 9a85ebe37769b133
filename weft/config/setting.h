// The settings table: each setting once, as data. Validation, defaults, docs, schema and completion all read it.
//
// settings.toml is where it is written; tools/gen_settings.py makes settings_table.cpp from it. Constant data, any thread.
#pragma once

#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weft/config/version.h"

namespace weft::config {

enum class Type { kBool, kInt, kFloat, kString, kPath, kEnum, kDtype, kStrings, kObject, kList, kAny, kNull };

enum class Effect { kBehaviour, kPerformance, kOutput };

enum class Standing {
  kPlanned,   // read and checked; the engine part that uses it is on its way, which is said where the value asks for it
  kHonoured,  // read, checked and acted on
  kIgnored,   // without effect here, which is said where the value is not the default
  kRefused,   // would change results in a way weft does not offer: an error unless it has its inactive value
};

struct Range {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool low_open = false;
  bool high_open = false;
  std::string_view text = {};  // ">0": for messages; empty: no bounds

  bool holds(double x) const { return (low_open ? x > low : x >= low) && (high_open ? x < high : x <= high); }
};

struct OldDefault {
  Version before;
  std::string_view json;
};

// What DeepSpeed still refuses while it reads, in sections where it checks no types: any wrong value, only a text (it
// computes with it), only null.
enum class Checked { kNever, kAlways, kText, kNull };

// An object of the config. The top level has the path "".
struct Section {
  std::string_view path;
  bool strict;           // DeepSpeed refuses unknown keys there
  Version strict_since;  // from this version; {} always
  bool open;             // any key is fine
  bool nullable;         // absent or null: the whole object is off
  bool drops_auto;       // "auto" in its place is as if it were absent
  std::span<const std::string_view> aliases;
  Version since;
  Standing standing;
  std::string_view why;  // of its rows, where they have none of their own
  std::string_view why_zh;
  std::string_view doc;
};

struct Setting {
  std::string_view path;  // "zero_optimization.stage"
  std::string_view key;   // "stage"
  const Section* section;
  Type type;
  std::string_view default_json;  // "null" where there is none
  bool nullable;                  // the file may say null
  bool derived;                   // null only until the resolver has derived it
  std::span<const std::string_view> values;
  bool any_case;
  bool spellings;  // a dtype also in torch's spellings: float16, half, torch.bfloat16
  Range range;
  std::span<const std::string_view> aliases;
  std::span<const OldDefault> old_defaults;  // oldest first
  Version since;                             // {} always
  Version removed;                           // {} still there
  std::string_view renamed;                  // the path that took over when it was removed
  std::string_view deprecated;               // the path to write instead
  Effect effect;
  Standing standing;
  unsigned stages;         // bit s: ZeRO stage s reads it; 0: any
  std::string_view needs;  // "path=value" without which nothing reads it
  bool dead;               // parsed by DeepSpeed, used by nobody
  bool secret;             // its value is never shown
  Checked checked;
  std::string_view why;  // what is behind the standing, in half a sentence; empty: it is honoured as the file means it
  std::string_view why_zh;
  std::string_view doc;

  std::string_view default_in(Version version) const;
  // "auto" is a value of its own here, not the word that HF's Trainer replaces.
  bool has_auto() const;
  bool exists_in(Version version) const { return since <= version && (removed == Version{} || version < removed); }
};

// A key people write that is nobody's, and what they meant.
struct StrayKey {
  std::string_view key;
  std::string_view in;     // the section it is found in; "*" any
  std::string_view to;     // where the value belongs; empty: nowhere
  std::string_view value;  // JSON to write there instead of the value found; empty: the same
  std::string_view en;
  std::string_view zh;
};

// optimizer.params and scheduler.params go to a constructor: what each type takes.
struct Argument {
  std::string_view name;
  std::string_view default_json;  // empty: none worth stating
  bool required;
};

struct ArgumentSet {
  std::string_view of;                      // "optimizer" or "scheduler"
  std::span<const std::string_view> types;  // optimizers: lower case
  std::span<const Argument> arguments;
};

std::span<const Section> sections();
std::span<const Setting> settings();
std::span<const StrayKey> stray_keys();
std::span<const ArgumentSet> argument_sets();
// What that optimizer (any case) or schedule takes; nullptr where it is not one of DeepSpeed's own.
const ArgumentSet* find_arguments(std::string_view of, std::string_view type);

// "a.b." for "a.b.c", "" for "c". With its dot, so that the ".a" that is no path has another parent than "a".
inline std::string_view parent_of(std::string_view path) { return path.substr(0, path.rfind('.') + 1); }

// By path or by alias path ("tensor_parallel.tensor_parallel"); nullptr where there is none.
const Section* find_section(std::string_view path);
// By path or by alias path ("zero_optimization.prefetch_bucket_size"); nullptr where there is none.
const Setting* find_setting(std::string_view path);
// Its place in settings(). Requires: a setting of the table.
size_t index_of(const Setting& setting);

// "an integer > 0", "one of none, cpu, nvme": for messages and docs.
std::string describe_type(const Setting& setting);

}  // namespace weft::config
