// Numbers as both readers take them. Free functions, any thread. Internal to the room.
#pragma once

#include <optional>
#include <string_view>

#include "weft/config/value.h"

namespace weft::config {

// Digits with an optional sign, fraction and exponent, as Python's float() rounds them. Nothing when it is too large for
// a double; what is too small is 0. Requires: such text, without '+' or '_'.
std::optional<double> read_double(std::string_view digits);

// The number at `span`, of which `digits` is the plain form (as for read_double), by hjson's rule: value.h. Throws
// ReadError (too large).
Value number_value(const SourcePtr& source, Span span, std::string_view digits);

// Infinity, -inf, NaN: what Python's json writes, or a person, for numbers that no config can hold.
bool is_no_number(std::string_view word);
[[noreturn]] void refuse_no_number(const SourcePtr& source, Span span);
[[noreturn]] void refuse_large_number(const SourcePtr& source, Span span);

}  // namespace weft::config
