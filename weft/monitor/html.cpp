#include "weft/monitor/html.h"

#include "weft/base/utf8.h"

namespace weft {
namespace {

std::string_view escaped(const CodePoint& point) {
  switch (point.value) {
    case '&': return "&amp;";
    case '<': return "&lt;";
    case '>': return "&gt;";
    case '"': return "&quot;";
    case '\'': return "&#39;";
    case '\t':
    case '\n': return point.bytes;
    default: break;
  }
  // U+FFFE and U+FFFF are no characters in XML.
  const bool bad = !point.valid || is_control(point.value) || (point.value & 0xFFFE) == 0xFFFE;
  return bad ? kReplacementCharacter : point.bytes;
}

}  // namespace

std::string escape_html(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::string_view rest = text; !rest.empty();) out += escaped(take_code_point(rest));
  return out;
}

}  // namespace weft
