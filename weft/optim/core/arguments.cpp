#include <algorithm>

#include "weft/base/error.h"
#include "weft/base/text.h"
#include "weft/optim/core/arguments_impl.h"

namespace weft::optim {

using config::Kind;
using config::Value;

const Value* Arguments::find(std::string_view name) {
  asked_.emplace_back(name);
  const Value* const value = params_ == nullptr ? nullptr : params_->find(name);
  return value == nullptr || value->kind == Kind::kNull ? nullptr : value;
}

const Value* Arguments::find_number(std::string_view name, std::string_view expected) {
  const Value* const value = find(name);
  if (value == nullptr || value->is_number()) return value;
  problem(cat(name, " is ", config::to_json(*value), ", expected ", expected));
  return nullptr;
}

double Arguments::number(std::string_view name, double fallback) {
  const Value* const value = find_number(name, "a number");
  return value == nullptr ? fallback : value->number();
}

int64_t Arguments::integer(std::string_view name, int64_t fallback) {
  const Value* const value = find_number(name, "an integer");
  if (value == nullptr) return fallback;
  if (value->kind == Kind::kReal) problem(cat(name, " is ", config::to_json(*value), ", expected an integer"));
  return value->integer;
}

bool Arguments::flag(std::string_view name, bool fallback) {
  const Value* const value = find(name);
  if (value == nullptr) return fallback;
  if (value->kind != Kind::kBool) problem(cat(name, " is ", config::to_json(*value), ", expected true or false"));
  return value->boolean;
}

std::string Arguments::text(std::string_view name, std::string_view fallback) {
  const Value* const value = find(name);
  if (value == nullptr) return std::string(fallback);
  if (value->kind != Kind::kString) problem(cat(name, " is ", config::to_json(*value), ", expected a word"));
  return value->text;
}

Betas Arguments::betas(std::string_view name, Betas fallback) {
  const Value* const value = find(name);
  if (value == nullptr) return fallback;
  const auto in_range = [](const Value& item) { return item.is_number() && item.number() >= 0 && item.number() < 1; };
  if (value->kind == Kind::kArray && value->items.size() == 2 && std::ranges::all_of(value->items, in_range)) {
    return {value->items[0].number(), value->items[1].number()};
  }
  problem(cat(name, " is ", config::to_json(*value), ", expected two numbers, each at least 0 and below 1"));
  return fallback;
}

PerGroup Arguments::per_group(std::string_view name, PerGroup fallback, size_t num_groups) {
  const Value* const value = find(name);
  if (value == nullptr) return fallback;
  if (value->is_number()) return value->number();
  const bool list = value->kind == Kind::kArray && value->items.size() == num_groups &&
                    std::ranges::all_of(value->items, &Value::is_number);
  if (!list) {
    problem(cat(name, " is ", config::to_json(*value), ", expected a number, or a list of ", num_groups,
                ": one for each parameter group"));
    return fallback;
  }
  std::vector<double> each;
  for (const Value& item : value->items) each.push_back(item.number());
  return PerGroup(std::move(each));
}

void Arguments::require(std::string_view name) {
  if (!has(name)) problem(cat(name, " is missing, and has no default"));
}

void Arguments::refuse(std::string_view name, std::string_view why) {
  if (flag(name, false)) problem(cat(name, " is true: ", why));
}

void Arguments::report_unknown() {
  if (params_ == nullptr) return;
  for (const config::Member& member : params_->members) {
    if (std::ranges::find(asked_, member.key) != asked_.end()) continue;
    const std::string near = nearest(member.key, asked_);
    problem(cat(member.key, " is no argument of ", type_, near.empty() ? "" : cat(": did you mean ", near, "?")));
  }
}

void Arguments::finish() {
  report_unknown();
  if (problems_.empty()) return;
  throw Error(ErrorKind::kInput, {.title = cat("the ", of_, " cannot be made from its arguments"),
                                  .what = join(problems_, "\n         "),
                                  .where = cat(of_, ".params of ", type_),
                                  .fix = "correct them; docs/optimizers.md lists names and defaults"});
}

void refuse_type(std::string_view of, std::string_view type, std::vector<std::string> known) {
  const std::string near = nearest(type, known);
  throw Error(ErrorKind::kInput,
              {.title = cat("weft has no ", of, " '", type, "'"),
               .what = cat("known: ", join(known, ", ")),
               .where = cat(of, ".type"),
               .fix = near.empty() ? std::string("use one of these") : cat("did you mean ", near, "?")});
}

}  // namespace weft::optim
