#include <fmt/format.h>
#include <spdlog/spdlog.h>

bool logs() {
  spdlog::set_level(spdlog::level::warn);
  return fmt::format("{} of {}", 1, 2) == "1 of 2";
}
