#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

bool parses() {
  CLI::App app("probe");
  app.parse("", false);
  return nlohmann::json::parse("[1, 2]").size() == 2;
}
