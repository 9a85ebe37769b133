#include "weft/config/value.h"

#include <algorithm>
#include <utility>

#include "weft/base/text.h"

namespace weft::config {
namespace {

void append_string(std::string& out, std::string_view text) {
  constexpr std::string_view kHex = "0123456789abcdef";
  out += '"';
  for (const char c : text) {
    switch (c) {
      case '"': out += "\\\""; break;
      case '\\': out += "\\\\"; break;
      case '\n': out += "\\n"; break;
      case '\r': out += "\\r"; break;
      case '\t': out += "\\t"; break;
      default:
        if (const auto code = static_cast<unsigned char>(c); code < 0x20)
          out += cat("\\u00", kHex[code >> 4], kHex[code & 15]);
        else
          out += c;
    }
  }
  out += '"';
}

// Marked as a real, so that what is read back is one again.
std::string real_text(double real) {
  std::string text = cat(real);
  if (text.find_first_of(".e") == std::string_view::npos) text += ".0";
  return text;
}

void append_json(std::string& out, const Value& value) {
  std::string_view separator;
  switch (value.kind) {
    case Kind::kNull: out += "null"; break;
    case Kind::kBool: out += value.boolean ? "true" : "false"; break;
    case Kind::kInt: out += cat(value.integer); break;
    case Kind::kReal: out += real_text(value.real); break;
    case Kind::kString: append_string(out, value.text); break;
    case Kind::kArray:
      out += '[';
      for (const Value& item : value.items) {
        out += std::exchange(separator, ", ");
        append_json(out, item);
      }
      out += ']';
      break;
    case Kind::kObject:
      out += '{';
      for (const Member& member : value.members) {
        out += std::exchange(separator, ", ");
        append_string(out, member.key);
        out += ": ";
        append_json(out, member.value);
      }
      out += '}';
      break;
  }
}

}  // namespace

std::string_view kind_name(Kind kind) {
  switch (kind) {
    case Kind::kNull: return "null";
    case Kind::kBool: return "a boolean";
    case Kind::kInt: return "an integer";
    case Kind::kReal: return "a number";
    case Kind::kString: return "a string";
    case Kind::kArray: return "a list";
    case Kind::kObject: return "an object";
  }
  return "";
}

const Value* Value::find(std::string_view key) const {
  const Member* member = find_member(key);
  return member == nullptr ? nullptr : &member->value;
}

const Member* Value::find_member(std::string_view key) const {
  const auto found = std::ranges::find(members, key, &Member::key);
  return found == members.end() ? nullptr : &*found;
}

const Value* find_path(const Value& root, std::string_view path) {
  const Member* member = find_member_path(root, path);
  return member == nullptr ? nullptr : &member->value;
}

const Member* find_member_path(const Value& root, std::string_view path) {
  const Value* at = &root;
  for (;;) {
    const size_t dot = path.find('.');
    const Member* member = at->find_member(path.substr(0, dot));
    if (member == nullptr || dot == std::string_view::npos) return member;
    at = &member->value;
    path.remove_prefix(dot + 1);
  }
}

std::string to_json(const Value& value) {
  std::string out;
  append_json(out, value);
  return out;
}

Value int_value(int64_t number) {
  Value value;
  value.kind = Kind::kInt;
  value.integer = number;
  return value;
}

Value real_value(double number) {
  Value value;
  value.kind = Kind::kReal;
  value.real = number;
  return value;
}

Value bool_value(bool flag) {
  Value value;
  value.kind = Kind::kBool;
  value.boolean = flag;
  return value;
}

Value text_value(std::string_view text) {
  Value value;
  value.kind = Kind::kString;
  value.text = text;
  return value;
}

}  // namespace weft::config
