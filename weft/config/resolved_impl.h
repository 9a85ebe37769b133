// How one value reaches its field of the generated structs; resolved.cpp calls take() once a setting.
#pragma once

#include <concepts>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "weft/base/check.h"
#include "weft/config/value.h"

namespace weft::config {

inline void take(const Value& value, bool& field) { field = value.boolean; }
inline void take(const Value& value, int64_t& field) { field = value.integer; }
inline void take(const Value& value, double& field) { field = value.number(); }
inline void take(const Value& value, std::string& field) { field = value.text; }
inline void take(const Value& value, Value& field) { field = value; }

inline void take(const Value& value, std::vector<std::string>& field) {
  field.clear();
  for (const Value& item : value.items) field.push_back(item.text);
}

// The resolver has put the canonical spelling there, so the text is one of the enum's.
template <typename Enum>
  requires std::is_enum_v<Enum>
void take(const Value& value, Enum& field, int count) {
  for (int i = 0; i < count; ++i) {
    if (to_text(static_cast<Enum>(i)) == value.text) {
      field = static_cast<Enum>(i);
      return;
    }
  }
  WEFT_CHECK(!"the resolver lets only the values of the table through");
}

template <typename T, typename... Count>
void take(const Value& value, std::optional<T>& field, Count... count) {
  field.reset();
  if (value.kind == Kind::kNull) return;
  T inner{};
  take(value, inner, count...);
  field = std::move(inner);
}

}  // namespace weft::config
