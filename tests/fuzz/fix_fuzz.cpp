// Any text through the whole doctor: read, judge, repair. What --fix writes must read again, and none of what it says it has
// fixed may still be there.
//
// Input: a byte (YAML or HJSON, world size), then the text. Aborts on a violation.
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "weft/doctor/rules/fixer.h"

using namespace weft;  // NOLINT(google-build-using-namespace): a program

namespace {

using Counts = std::multiset<std::pair<std::string, std::string>>;

Counts counted(const std::vector<config::Problem>& problems) {
  Counts counts;
  for (const auto& problem : problems) counts.emplace(problem.rule, problem.path);
  return counts;
}

void check(const config::Document& document, const doctor::FixOptions& options) {
  const auto before = config::read_config(document, options.facts);
  const Counts at_first = counted(doctor::diagnose(before, options.machine).problems);
  const doctor::FixResult result = doctor::fix(document, options);
  const auto again = config::parse_document(config::checked_source(document.source->name(), result.text));
  const auto reading = config::read_config(again, options.facts);
  const Counts now = counted(doctor::diagnose(reading, options.machine).problems);
  for (const auto& fixed : result.fixed) {
    const std::pair<std::string, std::string> one(fixed.rule, fixed.path);
    if (now.count(one) > 0 && now.count(one) >= at_first.count(one) && at_first.contains(one)) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const char* name = (data[0] & 1) != 0 ? "fuzz.yaml" : "fuzz.json";
  doctor::FixOptions options;
  options.facts = {{"world", config::int_fact(1 + (data[0] >> 1) % 16, "--world")}};
  std::unique_ptr<config::Document> document;
  try {
    document = std::make_unique<config::Document>(config::parse_document(config::checked_source(name, text)));
  } catch (const config::ReadError&) {
    return 0;
  }
  check(*document, options);
  return 0;
}
