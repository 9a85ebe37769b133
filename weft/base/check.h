// WEFT_CHECK: assertions about ourselves, on in every build. User input must never reach one; use Error for that.
//
//   WEFT_CHECK(offset <= size);            // throws Error(kBug), printing the condition
//   WEFT_CHECK_EQ(bucket.numel, expected); // and both values
#pragma once

#include <source_location>
#include <string>

#include "weft/base/text.h"

namespace weft::detail {

[[noreturn]] void check_failed(const char* condition, const std::string& values, std::source_location where);

template <typename A, typename B>
std::string both(const A& a, const B& b) {
  return cat("left is ", a, ", right is ", b);
}

}  // namespace weft::detail

#define WEFT_CHECK(condition)                                                                        \
  do {                                                                                               \
    if (!(condition)) ::weft::detail::check_failed(#condition, "", std::source_location::current()); \
  } while (false)

#define WEFT_CHECK_OP_(a, op, b)                                                                   \
  do {                                                                                             \
    const auto& weft_left = (a);                                                                   \
    const auto& weft_right = (b);                                                                  \
    if (!(weft_left op weft_right))                                                                \
      ::weft::detail::check_failed(#a " " #op " " #b, ::weft::detail::both(weft_left, weft_right), \
                                   std::source_location::current());                               \
  } while (false)

#define WEFT_CHECK_EQ(a, b) WEFT_CHECK_OP_(a, ==, b)
#define WEFT_CHECK_NE(a, b) WEFT_CHECK_OP_(a, !=, b)
#define WEFT_CHECK_LE(a, b) WEFT_CHECK_OP_(a, <=, b)
#define WEFT_CHECK_LT(a, b) WEFT_CHECK_OP_(a, <, b)
#define WEFT_CHECK_GE(a, b) WEFT_CHECK_OP_(a, >=, b)
#define WEFT_CHECK_GT(a, b) WEFT_CHECK_OP_(a, >, b)
