// What a config file says, as a tree in which every key and value knows its place. Both readers (HJSON, YAML) make it.
//
// Plain values: copy, move, any thread. Numbers follow Python's hjson: 5e8 and 1.0 are integers, as are all integral numbers
// below 1e10; what is written with a fraction or exponent and is not integral, or not below 1e10, is a real.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "weft/config/source.h"

namespace weft::config {

enum class Kind { kNull, kBool, kInt, kReal, kString, kArray, kObject };

// "an integer", "a string": for messages.
std::string_view kind_name(Kind kind);

struct Member;

struct Value {
  Kind kind = Kind::kNull;
  Span span = {};  // the whole value: quotes, brackets and braces included
  bool boolean = false;
  int64_t integer = 0;
  double real = 0;
  std::string text = {};  // kString: decoded
  std::vector<Value> items = {};
  std::vector<Member> members;  // in the order of the file; keys are unique

  bool is_object() const { return kind == Kind::kObject; }
  bool is_number() const { return kind == Kind::kInt || kind == Kind::kReal; }
  bool is_auto() const { return kind == Kind::kString && text == "auto"; }
  // The number as a double. Requires: is_number().
  double number() const { return kind == Kind::kInt ? static_cast<double>(integer) : real; }

  const Value* find(std::string_view key) const;
  const Member* find_member(std::string_view key) const;
};

struct Member {
  std::string key;  // decoded
  Span key_span;    // quotes included
  Value value;
};

// Values made here rather than read: without a place.
Value int_value(int64_t number);
Value real_value(double number);
Value bool_value(bool flag);
Value text_value(std::string_view text);

// The value at "zero_optimization.offload_param.device", or nullptr.
const Value* find_path(const Value& root, std::string_view path);
const Member* find_member_path(const Value& root, std::string_view path);

// The value as one line of JSON: for messages, and for the `resolved` of a dictionary such as optimizer.params.
std::string to_json(const Value& value);

}  // namespace weft::config
