#include "weft/engine/param_groups.h"

#include <fnmatch.h>

#include <cmath>

#include "weft/base/error.h"
#include "weft/base/hash.h"
#include "weft/base/text.h"
#include "weft/plan/shard_map.h"

namespace weft {

ParameterGroup parameters_like(std::string pattern, GroupNumbers numbers) {
  std::string name = cat("parameters like '", pattern, "'");
  const auto takes = [pattern = std::move(pattern)](const std::string& parameter, const at::Tensor&) {
    return ::fnmatch(pattern.c_str(), parameter.c_str(), 0) == 0;
  };
  return {.name = std::move(name), .takes = takes, .numbers = numbers};
}

ParameterGroup vectors(GroupNumbers numbers) {
  return {.name = "parameters of fewer than two dimensions",
          .takes = [](const std::string&, const at::Tensor& parameter) { return parameter.dim() < 2; },
          .numbers = numbers};
}

}  // namespace weft

namespace weft::engine {
namespace {

optim::UpdateSettings with(optim::UpdateSettings settings, const GroupNumbers& numbers) {
  if (numbers.lr) optim::set_lr(settings, *numbers.lr);
  if (numbers.weight_decay) std::visit([&](auto& s) { s.weight_decay = *numbers.weight_decay; }, settings);
  return settings;
}

int first_that_takes(const std::vector<ParameterGroup>& groups, const std::string& name, const at::Tensor& tensor) {
  for (size_t group = 0; group < groups.size(); ++group) {
    if (groups[group].takes(name, tensor)) return static_cast<int>(group);
  }
  return static_cast<int>(groups.size());
}

}  // namespace

void check_number(const std::string& where, std::string_view name, double number) {
  if (number >= 0 && std::isfinite(number)) return;
  throw Error(ErrorKind::kInput, {.title = cat(where, " has a ", name, " that cannot be"),
                                  .what = cat(name, " is ", number, ", expected a finite number, 0 or more"),
                                  .where = "parameter groups",
                                  .fix = "correct it"});
}

ParameterGroups sort_out(const std::vector<ParameterGroup>& groups, const ModelTensors& model,
                         const plan::ParameterTable& table, const optim::UpdateSettings& base) {
  ParameterGroups out{.of = std::vector<int>(static_cast<size_t>(table.size()), static_cast<int>(groups.size()))};
  for (const ParameterGroup& group : groups) {
    check_number(cat("the group of ", group.name), "lr", group.numbers.lr.value_or(0));
    check_number(cat("the group of ", group.name), "weight_decay", group.numbers.weight_decay.value_or(0));
    out.settings.push_back(with(base, group.numbers));
    out.numbers.push_back(group.numbers);
  }
  out.settings.push_back(base);
  out.numbers.emplace_back();
  std::vector<bool> has_any(groups.size() + 1, false);
  for (int parameter = 0; parameter < table.size(); ++parameter) {
    if (table.owner(parameter) != parameter) continue;
    const auto& [name, tensor] = model.parameters[static_cast<size_t>(parameter)];
    const int group = first_that_takes(groups, name, tensor);
    out.of[static_cast<size_t>(parameter)] = group;
    has_any[static_cast<size_t>(group)] = true;
  }
  for (size_t group = 0; group < groups.size(); ++group) {
    if (has_any[group]) continue;
    throw Error(ErrorKind::kInput, {.title = cat("the group of ", groups[group].name, " has nothing in it"),
                                    .what = "no parameter, or those before it took them all",
                                    .where = cat("group ", group),
                                    .fix = "correct the pattern, or leave the group out"});
  }
  return out;
}

std::vector<std::string> describe(const ParameterGroups& groups) {
  std::vector<std::string> out;
  for (size_t group = 0; group < groups.settings.size(); ++group) {
    std::vector<std::string> members;
    for (size_t parameter = 0; parameter < groups.of.size(); ++parameter) {
      if (groups.of[parameter] == static_cast<int>(group)) members.push_back(cat(parameter));
    }
    const double decay = std::visit([](const auto& s) { return s.weight_decay; }, groups.settings[group]);
    const std::string list = join(members, ",");
    out.push_back(cat("lr ", optim::lr_of(groups.settings[group]), " weight_decay ", decay, " of ", members.size(),
                      " parameters ", to_hex(hash128(std::as_bytes(std::span(list))))));
  }
  return out;
}

std::vector<Part> parts_of(const plan::Plan& plan, int bucket, std::optional<int> rank) {
  std::vector<Part> out;
  if (rank) {
    for (const auto& range : plan::ranges_in_slice(plan.layout, bucket, *rank))
      out.push_back({range.parameter, range.slice_begin, range.num_elements, range.parameter_begin});
    return out;
  }
  for (const auto& place : plan.layout.bucket(bucket).places) {
    if (place.num_elements > 0) out.push_back({place.parameter, place.begin, place.num_elements});
  }
  return out;
}

std::vector<Run> runs_of(const std::vector<Part>& parts, int64_t size, const std::vector<int>& group_of,
                         const std::vector<int64_t>& joined) {
  std::vector<Run> out;
  for (const Part& part : parts) {
    const auto parameter = static_cast<size_t>(part.parameter);
    const int group = group_of[parameter];
    const int64_t after = joined.empty() ? 0 : joined[parameter];
    if (!out.empty() && out.back().group == group && out.back().joined == after) continue;
    if (!out.empty()) out.back().count = part.first - out.back().first;
    out.push_back({.first = out.empty() ? 0 : part.first, .group = group, .joined = after});
  }
  if (out.empty()) out.push_back({});
  out.back().count = size - out.back().first;
  return out;
}

}  // namespace weft::engine
