#include "weft/doctor/rules/fix_report.h"

#include "weft/base/text.h"
#include "weft/doctor/rules/report_impl.h"
#include "weft/doctor/rules/report_json_impl.h"

namespace weft::doctor {

using config::Language;
using config::Problem;

std::string fix_text(const Fixed& fixed, Language language, const Terminal& terminal) {
  const config::Source written(fixed.to, fixed.result.text);
  std::string out;
  for (const Problem& problem : fixed.result.fixed) {
    out += wrapped(cat(say(language, "fixed ", "已修复 "), problem.rule, " ", problem.path, ": "),
                   problem.message.in(language), 0, terminal);
  }
  for (const Problem& problem : fixed.result.left) {
    out += cat(out.empty() ? "" : "\n", problem_text(problem, {written, fixed.result.secrets}, language, terminal));
  }
  const Verdict verdict = verdict_of(fixed.result.left, 0, fixed.version, language);
  out += out.empty() ? "" : "\n";
  const std::string counts = cat(fixed.result.fixed.size(), say(language, " fixed in ", " 项已修复，写入 "), fixed.to);
  return out + wrapped("", cat(counts, say(language, "; left: ", "；剩余："), verdict.text), 0, terminal);
}

std::string fix_json(const Fixed& fixed, Language language) {
  const config::Source written(fixed.to, fixed.result.text);
  const Verdict verdict = verdict_of(fixed.result.left, 0, fixed.version, language);
  Json out = {{"schema", 1}, {"file", fixed.from}, {"out", fixed.to}};
  out["verdict"] = json_of(verdict);
  out["fixed"] = Json::array();
  for (const Problem& problem : fixed.result.fixed) {
    out["fixed"].push_back({{"rule", problem.rule}, {"path", problem.path}, {"message", problem.message.in(language)}});
  }
  out["left"] = Json::array();
  for (const Problem& problem : fixed.result.left) out["left"].push_back(json_of(problem, written, language));
  return dumped(out);
}

}  // namespace weft::doctor
