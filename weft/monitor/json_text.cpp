#include "weft/monitor/json_text.h"

#include <cmath>

#include "weft/base/text.h"
#include "weft/base/utf8.h"

namespace weft {
namespace {

void append_escaped(std::string& out, const CodePoint& point) {
  static constexpr char kDigits[] = "0123456789abcdef";
  if (!point.valid) {
    out += kReplacementCharacter;
  } else if (point.value == '"' || point.value == '\\') {
    out += '\\';
    out += point.bytes;
  } else if (is_control(point.value)) {
    out += "\\u00";
    out += kDigits[point.value >> 4];
    out += kDigits[point.value & 0xF];
  } else {
    out += point.bytes;
  }
}

}  // namespace

void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  for (std::string_view rest = text; !rest.empty();) append_escaped(out, take_code_point(rest));
  out += '"';
}

void append_json_number(std::string& out, double value) {
  if (std::isfinite(value))
    detail::append(out, value);
  else
    out += "null";
}

}  // namespace weft
