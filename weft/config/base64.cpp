#include <algorithm>
#include <cstdint>

#include "weft/config/base64_impl.h"

namespace weft::config {
namespace {

int digit_of(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  if (c == '-' || c == '+') return 62;
  if (c == '_' || c == '/') return 63;
  return -1;
}

bool is_base64_digit(char c) { return digit_of(c) >= 0; }

std::string_view without_padding(std::string_view text) {
  for (int i = 0; i < 2 && text.ends_with('='); ++i) text.remove_suffix(1);
  return text;
}

}  // namespace

std::optional<std::string> decode_base64(std::string_view text) {
  const std::string_view digits = without_padding(text);
  if (text.empty() || text.size() % 4 != 0 || !std::ranges::all_of(digits, is_base64_digit)) return std::nullopt;
  std::string bytes;
  uint32_t bits = 0;
  int num_bits = 0;
  for (const char c : digits) {
    bits = (bits << 6) | static_cast<uint32_t>(digit_of(c));
    num_bits += 6;
    if (num_bits < 8) continue;
    num_bits -= 8;
    bytes += static_cast<char>((bits >> num_bits) & 0xFF);
  }
  return bytes;
}

bool looks_like_base64_object(std::string_view text) {
  constexpr size_t kShortest = 20;  // below that it may as well be a file's name
  const std::string_view digits = without_padding(text);
  return digits.size() >= kShortest && (digits.starts_with("ey") || digits.starts_with("ew")) &&
         std::ranges::all_of(digits, is_base64_digit);
}

}  // namespace weft::config
