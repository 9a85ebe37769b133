#include "weft/doctor/rules/rule.h"

namespace weft::doctor {

config::Problem& Reporter::problem(std::string_view path, config::Words message, config::Words fix) {
  config::Problem problem;
  problem.severity = rule_.info.severity;
  problem.rule = rule_.info.id;
  problem.path = path;
  problem.span = subject_.reading.span_of(path);
  problem.message = std::move(message);
  problem.fix = std::move(fix);
  problem.current = subject_.reading.shown(path);
  findings_.problems.push_back(std::move(problem));
  return findings_.problems.back();
}

config::Problem& Reporter::problem(std::string_view path, config::Words message, config::Words fix,
                                   std::string literal) {
  config::Problem& made = problem(path, std::move(message), std::move(fix));
  made.suggested = literal;
  made.edits = {{config::Edit::Kind::kSet, std::string(path), "", std::move(literal)}};
  return made;
}

void Reporter::good(std::string_view path, config::Words why) {
  if (!subject_.reading.given(path)) return;
  findings_.good.push_back(
      {std::string(path), subject_.reading.shown(path), subject_.reading.span_of(path), std::move(why)});
}

}  // namespace weft::doctor
