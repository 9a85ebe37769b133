#include "weft/base/text.h"
#include "weft/doctor/rules/report.h"
#include "weft/doctor/rules/report_impl.h"

namespace weft::doctor {
namespace {

constexpr int kPageColumns = 140;

constexpr std::string_view kOpening =
    "Every rule that `weft check` applies to a DeepSpeed config, by family. An **error** stops DeepSpeed or weft, or "
    "loses "
    "a setting "
    "the author believes in; a **warning** costs results, memory or time; **advice** is what would be better. A "
    "problem names "
    "its rule, as in `error[keys/misspelt]`; `--fail-on` says from which severity the exit code is 1.";

std::string paragraph(std::string_view text, std::string_view indent = "") {
  std::string out;
  for (const std::string& line : wrap_text(text, kPageColumns)) out += cat(out.empty() ? "" : indent, line, "\n");
  return out;
}

// A bar would end the cell.
std::string cell(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '|') out += '\\';
    out += c;
  }
  return out;
}

using Rules = std::vector<config::RuleInfo>;

std::string family_of(const config::RuleInfo& info) { return std::string(info.id.substr(0, info.id.find('/'))); }

// The reader and the doctor may share a family: all of it goes under one heading, in the order of first mention.
std::vector<std::pair<std::string, Rules>> by_family(const Rules& rules) {
  std::vector<std::pair<std::string, Rules>> families;
  for (const config::RuleInfo& info : rules) {
    auto found = families.begin();
    while (found != families.end() && found->first != family_of(info)) ++found;
    if (found == families.end()) found = families.insert(found, {family_of(info), {}});
    found->second.push_back(info);
  }
  return families;
}

std::string family_section(const std::string& name, const Rules& rules) {
  std::string out = cat("## ", name, "\n\n| rule | severity | what | 中文 |\n|---|---|---|---|\n");
  for (const config::RuleInfo& info : rules) {
    out += cat("| `", info.id, "` | ", config::severity_name(info.severity), " | ", cell(info.what), " | ",
               cell(info.what_zh), " |\n");
  }
  out += "\nWhy:\n\n";
  for (const config::RuleInfo& info : rules) out += paragraph(cat("- `", info.id, "`: ", info.why), "  ");
  return out;
}

}  // namespace

std::string rules_page() {
  std::string out = cat("<!-- Generated: weft check --list-rules --markdown. -->\n# Rules\n\n", paragraph(kOpening));
  for (const auto& [name, rules] : by_family(all_rules())) out += cat("\n", family_section(name, rules));
  return out;
}

}  // namespace weft::doctor
