#include "weft/doctor/rules/diagnosis.h"

#include <algorithm>
#include <set>
#include <tuple>

namespace weft::doctor {
namespace {

using config::Problem;

// What the file says first, in its order; then what it does not say.
auto place(config::Span span) { return std::pair(span.end == 0, span.begin); }

void sort_problems(std::vector<Problem>& problems) {
  std::stable_sort(problems.begin(), problems.end(), [](const Problem& a, const Problem& b) {
    return std::tuple(a.severity, place(a.span)) < std::tuple(b.severity, place(b.span));
  });
}

// That a setting has no effect in weft is not worth a second line where another rule, or a tick, says it with a better
// reason; nor that it has none yet, where nothing reads it anyway.
void drop_lesser_words(Diagnosis& diagnosis) {
  std::set<std::string> said, inert;
  for (const Good& good : diagnosis.good) said.insert(good.path);
  for (const Problem& problem : diagnosis.problems) {
    if (problem.rule != "keys/out-of-scope") said.insert(problem.path);
    if (problem.rule.starts_with("inert/")) inert.insert(problem.path);
  }
  std::erase_if(diagnosis.problems, [&](const Problem& problem) {
    return (problem.rule == "keys/out-of-scope" && said.contains(problem.path)) ||
           (problem.rule == "keys/not-yet" && inert.contains(problem.path));
  });
}

// A tick beside a cross on the same setting would leave the reader with neither.
void drop_contradicted(Diagnosis& diagnosis) {
  std::set<std::string> blamed;
  for (const Problem& problem : diagnosis.problems) blamed.insert(problem.path);
  std::erase_if(diagnosis.good, [&](const Good& good) { return blamed.contains(good.path); });
}

void keep_one_tick_each(std::vector<Good>& good) {
  std::stable_sort(good.begin(), good.end(),
                   [](const Good& a, const Good& b) { return place(a.span) < place(b.span); });
  const auto same = [](const Good& a, const Good& b) { return a.path == b.path; };
  good.erase(std::unique(good.begin(), good.end(), same), good.end());
}

}  // namespace

int Diagnosis::count(config::Severity severity) const {
  return static_cast<int>(
      std::count_if(problems.begin(), problems.end(), [&](const Problem& p) { return p.severity == severity; }));
}

Diagnosis diagnose(const config::Reading& reading, const Machine& machine) {
  const Subject subject{reading, machine};
  Findings findings;
  for (const auto& family : families()) {
    for (const Rule& rule : family) {
      Reporter reporter(rule, subject, findings);
      rule.check(subject, reporter);
    }
  }
  Diagnosis diagnosis;
  diagnosis.problems = reading.problems;
  std::move(findings.problems.begin(), findings.problems.end(), std::back_inserter(diagnosis.problems));
  diagnosis.good = std::move(findings.good);
  drop_lesser_words(diagnosis);
  sort_problems(diagnosis.problems);
  drop_contradicted(diagnosis);
  keep_one_tick_each(diagnosis.good);
  return diagnosis;
}

}  // namespace weft::doctor
