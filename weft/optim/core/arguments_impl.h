// Reads optimizer.params and scheduler.params: each argument by name with its default, then finish() says everything
// that was wrong at once, unknown names included. Internal to the room. Failure: finish() throws Error(kInput).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/config/value.h"
#include "weft/optim/core/schedule.h"

namespace weft::optim {

class Arguments {
 public:
  // `of` is "optimizer" or "scheduler". `params` outlives this.
  Arguments(std::string_view of, std::string_view type, const std::optional<config::Value>& params)
      : of_(of), type_(type), params_(params ? &*params : nullptr) {}

  bool has(std::string_view name) { return find(name) != nullptr; }
  double number(std::string_view name, double fallback);
  int64_t integer(std::string_view name, int64_t fallback);
  bool flag(std::string_view name, bool fallback);
  std::string text(std::string_view name, std::string_view fallback);
  Betas betas(std::string_view name, Betas fallback);
  // A number, or a list with one for each of `num_groups`.
  PerGroup per_group(std::string_view name, PerGroup fallback, size_t num_groups);

  // Known, and without effect here.
  void ignore(std::string_view name) { find(name); }
  void problem(std::string text) { problems_.push_back(std::move(text)); }
  void require(std::string_view name);
  // Where it is true: `why` is a problem.
  void refuse(std::string_view name, std::string_view why);

  void finish();

 private:
  const config::Value* find(std::string_view name);
  // nullptr where it is absent or null; a problem where it is not a number.
  const config::Value* find_number(std::string_view name, std::string_view expected);
  void report_unknown();

  std::string of_, type_;
  const config::Value* params_;
  std::vector<std::string> asked_, problems_;
};

// Throws Error(kInput): weft has no such `of`; `known` are those it has.
[[noreturn]] void refuse_type(std::string_view of, std::string_view type, std::vector<std::string> known);

}  // namespace weft::optim
