#include "weft/doctor/rules/fixer.h"

#include <algorithm>
#include <set>

#include "weft/config/edit.h"

namespace weft::doctor {
namespace {

using config::Document;
using config::Problem;

constexpr int kMaxRounds = 200;  // more than any file has problems; a fix that undoes another must not go on forever

using Identity = std::pair<std::string, std::string>;

Identity identity(const Problem& problem) { return {problem.rule, problem.path}; }

class Fixer {
 public:
  Fixer(const Document& document, const FixOptions& options) : options_(options), document_(document) {
    judge(document_, problems_);
  }

  FixResult run() {
    for (int round = 0; round < kMaxRounds && fix_one(); ++round) {
    }
    return {std::string(document_.source->text()), std::move(fixed_), problems_, config::find_secrets(document_)};
  }

 private:
  void judge(const Document& document, std::vector<Problem>& problems) const {
    const config::Reading reading = config::read_config(document, options_.facts, options_.version);
    problems = diagnose(reading, options_.machine).problems;
  }

  // True while something was repaired.
  bool fix_one() {
    for (const Problem& problem : problems_) {
      if (problem.edits.empty() || given_up_.contains(identity(problem))) continue;
      if (repair(problem)) return true;
      given_up_.insert(identity(problem));
    }
    return false;
  }

  bool repair(const Problem& problem) {
    const auto text = config::apply_edits(document_, problem.edits);
    if (!text) return false;
    Document changed = reparsed(*text);
    std::vector<Problem> after;
    judge(changed, after);
    if (!is_better(problem, after)) return false;
    fixed_.push_back(problem);
    document_ = std::move(changed);
    problems_ = std::move(after);
    return true;
  }

  // The problem is gone, no repair is undone, and there are not more errors than before.
  bool is_better(const Problem& problem, const std::vector<Problem>& after) const {
    const auto errors = [](const std::vector<Problem>& problems) {
      return std::count_if(problems.begin(), problems.end(),
                           [](const Problem& p) { return p.severity == config::Severity::kError; });
    };
    const auto count = [](const std::vector<Problem>& problems, const Identity& one) {
      return std::count_if(problems.begin(), problems.end(), [&](const Problem& p) { return identity(p) == one; });
    };
    const bool undone = std::any_of(fixed_.begin(), fixed_.end(), [&](const Problem& old) {
      return count(after, identity(old)) > count(problems_, identity(old));
    });
    return !undone && count(after, identity(problem)) < count(problems_, identity(problem)) &&
           errors(after) <= errors(problems_);
  }

  // A config that a YAML refers to keeps what that YAML says.
  Document reparsed(const std::string& text) const {
    Document changed = config::parse_document(config::checked_source(document_.source->name(), text));
    if (document_.outer != nullptr && document_.outer != document_.source) {
      changed.outer = document_.outer;
      changed.training = document_.training;
    }
    return changed;
  }

  const FixOptions& options_;
  Document document_;
  std::vector<Problem> problems_;
  std::vector<Problem> fixed_;
  std::set<Identity> given_up_;
};

}  // namespace

FixResult fix(const Document& document, const FixOptions& options) { return Fixer(document, options).run(); }

}  // namespace weft::doctor
