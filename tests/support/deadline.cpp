#include "tests/support/deadline.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace weft::test {

int Deadline::left_ms() const {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(at_ - Clock::now()).count();
  return static_cast<int>(std::clamp<long>(left, 0, 1'000'000'000));
}

Seconds test_deadline() {
  constexpr double kDefaultSeconds = 60;
  const char* text = std::getenv("WEFT_TEST_DEADLINE_S");
  if (text == nullptr) return Seconds(kDefaultSeconds * kSlowdown);
  char* end = nullptr;
  const double asked = std::strtod(text, &end);
  if (end == text || *end != '\0' || !std::isfinite(asked) || asked <= 0) {
    throw std::invalid_argument(concat("WEFT_TEST_DEADLINE_S must be a number of seconds above 0, not '", text, "'"));
  }
  return Seconds(asked * kSlowdown);
}

Seconds ranks_deadline(Seconds asked) {
  constexpr double kShareOfTest = 0.8;
  return asked.count() > 0 ? asked * kSlowdown : test_deadline() * kShareOfTest;
}

}  // namespace weft::test
