// What an optimizer is called: DeepSpeed's configs have types (AdamW, Lamb), its code has classes (FusedAdam, FusedLamb), and weft takes
// both. Whoever asks which optimizer it is compares kinds.
#pragma once

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include "weft/config/lower.h"

namespace weft::config {

// DeepSpeed's classes, in lower case, and the type its configs have for each.
inline constexpr std::pair<std::string_view, std::string_view> kOptimizerClasses[] = {
    {"fusedadam", "AdamW"},    {"cpuadam", "AdamW"},  {"deepspeedcpuadam", "AdamW"},
    {"cpuadagrad", "Adagrad"}, {"fusedlamb", "Lamb"}, {"deepspeedcpuadagrad", "Adagrad"},
    {"fusedlion", "Lion"},     {"cpulion", "Lion"},   {"deepspeedcpulion", "Lion"}};

// The type behind the name of a class; "": it is none.
inline std::string_view type_of_class(std::string_view name) {
  const auto* const found =
      std::ranges::find(kOptimizerClasses, lower(name), [](const auto& pair) { return pair.first; });
  return found == std::end(kOptimizerClasses) ? "" : found->second;
}

// In lower case, the same for a type and for its classes.
inline std::string optimizer_kind(std::string_view type) {
  const std::string_view of_class = type_of_class(type);
  return lower(of_class.empty() ? type : of_class);
}

}  // namespace weft::config
