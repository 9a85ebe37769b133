// Numbers as people read them in a progress line, a table or a chart. Free functions, any thread, no failure: what is
// not a number comes out as "nan" or "inf", an unknown duration as "?".
#pragma once

#include <cstdint>
#include <string>

namespace weft {

// 3.1416 with 2 decimals: "3.14". Never "-0.00"; very large values fall back to "1.5e+20".
std::string fixed_text(double value, int decimals);

// The given number of significant digits, shortest form: "0.00123", "1.23e-09".
std::string significant_text(double value, int digits);

// "12,345".
std::string grouped_text(int64_t value);

// Two units at most: "45s", "2m10s", "1h05m", "3d04h". "?" for negative, infinite or unknown.
std::string short_duration_text(double seconds);

// A loss: three decimals where that says something ("3.214"), significant digits elsewhere ("0.00012", "1.23e+05").
std::string loss_text(double value);

}  // namespace weft
