// The steps of read_config(), in the order they run. Each works on the Reading as the ones before left it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "weft/config/reading.h"

namespace weft::config {

// A setting that the file gives as "auto".
struct AutoSetting {
  const Setting* setting;
  Span span;
};

// Walks the file against the table: keys nobody knows, values of the wrong type, names that changed. Fills values and
// origins; returns what is "auto".
std::vector<AutoSetting> read_members(Reading& reading);
// "auto" by HF's rules, from the facts; also inside optimizer.params and scheduler.params.
void resolve_auto(Reading& reading, const std::vector<AutoSetting>& autos, const Facts& facts);
// overlap_comm by stage, the old cpu_offload switches, wall_clock_breakdown by the profiler.
void derive_values(Reading& reading);
// The world size, then train_batch_size = micro batch x accumulation x world.
void resolve_batch(Reading& reading, const Facts& facts);
// optimizer.params and scheduler.params against what their constructors take.
void check_arguments(Reading& reading);
// Of the values there, by what weft's own take. Part of check_arguments(). `of` is "optimizer" or "scheduler".
void check_argument_values(Reading& reading, std::string_view of);
// What the file says against what the trainer says.
void check_facts(Reading& reading, const Facts& facts);
// Settings that DeepSpeed refuses together.
void check_conflicts(Reading& reading);

// --- Tools they share ------------------------------------------------------------------------------------------------------

// Adds a problem of a rule of reading_rules(), with that rule's severity; the caller fills in the rest.
Problem& report(Reading& reading, std::string_view rule, std::string_view path, Span span, Words message,
                Words fix = {});

bool has_error_at(const Reading& reading, std::string_view path);

void set_value(Reading& reading, std::string_view path, Value value, Origin origin);

// "zero_optimization" + "stage", or just the key at the top level.
std::string path_in(std::string_view section, std::string_view key);

// Whether DeepSpeed refuses keys it does not know there, in the version asked for.
bool refuses_unknown(const Reading& reading, const Section& section);
// DeepSpeed reads nothing of what is under "weft".
inline bool is_ours(std::string_view path) { return path == "weft" || path.starts_with("weft."); }
// What DeepSpeed looks at itself, beyond what its models convert.
bool fails_own_check(const Setting& setting, const Value& value);
void report_type(Reading& reading, const Setting& setting, const std::string& path, const Member& member);
void report_range(Reading& reading, const Setting& setting, const std::string& path, const Member& member);

// A key that nobody reads: misspelt, misplaced, another tool's, a comment, or simply unknown.
void report_unknown(Reading& reading, const Section& section, const Member& member);
// A key that DeepSpeed knows and weft does not act on, with a value that asks for something. Requires: not kHonoured.
void report_standing(Reading& reading, std::string_view path, const Member& member, Standing standing, Words why);

}  // namespace weft::config
