#include "weft/base/utf8.h"

namespace weft {
namespace {

int length_from(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return 2;
  if (lead >= 0xE0 && lead <= 0xEF) return 3;
  if (lead >= 0xF0 && lead <= 0xF4) return 4;
  return 0;
}

// The smallest value that needs this many bytes; anything below it is an overlong form.
constexpr char32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};

bool acceptable(char32_t value, int length) {
  const bool surrogate = value >= 0xD800 && value <= 0xDFFF;
  return value >= kSmallest[length] && value <= 0x10FFFF && !surrogate;
}

// The value of the character of `length` bytes at the start, or U+FFFFFFFF when those bytes are no character.
char32_t decode(std::string_view text, int length) {
  constexpr char32_t kBroken = 0xFFFFFFFF;
  if (length == 0 || text.size() < static_cast<size_t>(length)) return kBroken;
  const auto lead = static_cast<unsigned char>(text[0]);
  char32_t value = length == 1 ? lead : lead & (0x7F >> length);
  for (int i = 1; i < length; ++i) {
    const auto next = static_cast<unsigned char>(text[static_cast<size_t>(i)]);
    if ((next & 0xC0) != 0x80) return kBroken;
    value = (value << 6) | (next & 0x3F);
  }
  return acceptable(value, length) ? value : kBroken;
}

}  // namespace

CodePoint take_code_point(std::string_view& rest) {
  const int length = length_from(static_cast<unsigned char>(rest[0]));
  const char32_t value = decode(rest, length);
  const bool valid = value <= 0x10FFFF;
  const CodePoint point{rest.substr(0, valid ? static_cast<size_t>(length) : 1), valid ? value : 0xFFFD, valid};
  rest.remove_prefix(point.bytes.size());
  return point;
}

}  // namespace weft
