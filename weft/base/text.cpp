#include "weft/base/text.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <vector>

#include "weft/base/utf8.h"

namespace weft {
namespace {

char folded(char c) { return c == '-' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }

struct Range {
  char32_t first, last;
};

// The blocks that terminals draw two cells wide, as far as our own output (English, Chinese, emoji marks) can contain them.
constexpr Range kWide[] = {
    {0x1100, 0x115F}, {0x2E80, 0x303E},   {0x3041, 0x33FF},   {0x3400, 0x4DBF},   {0x4E00, 0x9FFF},  {0xA000, 0xA4CF},
    {0xAC00, 0xD7A3}, {0xF900, 0xFAFF},   {0xFE30, 0xFE6F},   {0xFF00, 0xFF60},   {0xFFE0, 0xFFE6},  {0x2705, 0x2705},
    {0x274C, 0x274C}, {0x1F300, 0x1F64F}, {0x1F680, 0x1F6FF}, {0x1F900, 0x1F9FF}, {0x20000, 0x3FFFD}};
constexpr Range kZero[] = {{0, 0x1F}, {0x7F, 0x9F}, {0x300, 0x36F}, {0x200B, 0x200F}, {0xFE00, 0xFE0F}};

bool within(std::span<const Range> ranges, char32_t point) {
  return std::ranges::any_of(ranges, [&](Range r) { return point >= r.first && point <= r.last; });
}

template <typename T>
void append_exactly(std::string& out, T number) {
  char digits[40];
  out.append(digits, std::to_chars(digits, digits + sizeof digits, number).ptr);
}

}  // namespace

namespace detail {
void append_number(std::string& out, long long number) { append_exactly(out, number); }
void append_number(std::string& out, unsigned long long number) { append_exactly(out, number); }
void append_number(std::string& out, float number) { append_exactly(out, number); }
void append_number(std::string& out, double number) { append_exactly(out, number); }
}  // namespace detail

std::string join(std::span<const std::string> pieces, std::string_view separator) {
  std::string out;
  for (const auto& piece : pieces) {
    if (!out.empty()) out += separator;
    out += piece;
  }
  return out;
}

int edit_distance(std::string_view a, std::string_view b) {
  // Three rows of the classic table: two back for the swap of neighbours.
  std::vector<int> before(b.size() + 1), above(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) above[j] = static_cast<int>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = static_cast<int>(i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const char x = folded(a[i - 1]), y = folded(b[j - 1]);
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (x == y ? 0 : 1)});
      const bool swapped = i > 1 && j > 1 && x == folded(b[j - 2]) && folded(a[i - 2]) == y;
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    std::swap(before, above);
    std::swap(above, row);
  }
  return above[b.size()];
}

std::string nearest(std::string_view word, std::span<const std::string> candidates) {
  // A third of the letters wrong is still a slip of the fingers; more is another word.
  const int limit = std::max<int>(1, static_cast<int>(word.size()) / 3);
  std::string best;
  int best_distance = limit + 1;
  for (const auto& candidate : candidates) {
    const int distance = edit_distance(word, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

int display_columns(std::string_view utf8) {
  int columns = 0;
  while (!utf8.empty()) {
    const char32_t point = take_code_point(utf8).value;
    columns += within(kZero, point) ? 0 : within(kWide, point) ? 2 : 1;
  }
  return columns;
}

}  // namespace weft
