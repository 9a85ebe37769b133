#include "weft/doctor/rules/step_report.h"

#include <algorithm>

#include "weft/base/text.h"
#include "weft/doctor/rules/report_json_impl.h"

namespace weft::doctor {

using config::Language;

std::string steps_text(const std::vector<Step>& steps, Language language, const Terminal& terminal) {
  std::string out;
  for (size_t i = 0; i < steps.size(); ++i) {
    const std::string number = cat(i + 1, ". "), margin(number.size(), ' ');
    const int indent = static_cast<int>(number.size());
    const auto what =
        wrap_text(printable(steps[i].what.in(language), terminal), std::max(1, terminal.columns - indent));
    for (size_t line = 0; line < what.size(); ++line) {
      out += cat(line == 0 ? number : margin, style(what[line], Style::kBold, terminal), "\n");
    }
    out += wrapped("", steps[i].why.in(language), indent, terminal);
  }
  return out;
}

std::string steps_json(std::string_view symptom, const std::string& file, const std::vector<Step>& steps,
                       Language language) {
  Json out = {{"schema", 1}, {"symptom", symptom}, {"file", text_or_null(file)}, {"steps", Json::array()}};
  for (const Step& step : steps) {
    out["steps"].push_back({{"what", step.what.in(language)},
                            {"why", step.why.in(language)},
                            {"path", text_or_null(step.path)},
                            {"current", text_or_null(step.current)},
                            {"suggested", text_or_null(step.suggested)}});
  }
  return dumped(out);
}

}  // namespace weft::doctor
