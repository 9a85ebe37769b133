// Small text tools used everywhere: concatenation and "did you mean". Free functions, no state, any thread.
//
// cat() exists because fmt must not appear in our headers: libtorch ships a different fmt on its include path.
#pragma once

#include <concepts>
#include <span>
#include <string>
#include <string_view>

namespace weft {

namespace detail {
inline void append(std::string& out, std::string_view piece) { out += piece; }
inline void append(std::string& out, const char* piece) { out += piece; }
inline void append(std::string& out, char piece) { out += piece; }
inline void append(std::string& out, bool piece) { out += piece ? "true" : "false"; }
// Compiled once, in text.cpp: nearly every file joins numbers into text.
void append_number(std::string& out, long long number);
void append_number(std::string& out, unsigned long long number);
void append_number(std::string& out, float number);
void append_number(std::string& out, double number);
template <std::signed_integral T>
void append(std::string& out, T piece) {
  append_number(out, static_cast<long long>(piece));
}
template <std::unsigned_integral T>
void append(std::string& out, T piece) {
  append_number(out, static_cast<unsigned long long>(piece));
}
inline void append(std::string& out, float piece) { append_number(out, piece); }
inline void append(std::string& out, double piece) { append_number(out, piece); }
}  // namespace detail

// Joins strings, characters and numbers (shortest exact form): cat("rank ", 3, " of ", 8).
template <typename... Pieces>
std::string cat(const Pieces&... pieces) {
  std::string out;
  (detail::append(out, pieces), ...);
  return out;
}

std::string join(std::span<const std::string> pieces, std::string_view separator);

// Edits (insert, delete, replace, swap of neighbours) that turn a into b, ignoring case and treating '-' as '_'.
int edit_distance(std::string_view a, std::string_view b);

// The candidate a person most likely meant by `word`, or "" when none is near enough to be worth saying.
std::string nearest(std::string_view word, std::span<const std::string> candidates);

// Display columns of UTF-8 text: wide characters (CJK) count two, combining marks none. Control characters count none.
int display_columns(std::string_view utf8);

}  // namespace weft
