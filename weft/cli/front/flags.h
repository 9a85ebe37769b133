// CLI11 with our manners: a misspelt flag is answered with the one that was meant, values are checked with a reason, and
// every mistake is an Error(kInput), exit code 2.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace CLI {  // NOLINT(readability-identifier-naming): the library's own name
class App;
class Option;
}  // namespace CLI

namespace weft::cli {

std::unique_ptr<CLI::App> make_app(const std::string& command, const std::string& description,
                                   const std::string& example);

// True when the command should run; false when help was asked for and printed.
bool parse_flags(CLI::App& app, const std::vector<std::string>& arguments);

// `--name`, an integer within [low, high].
CLI::Option* add_int(CLI::App& app, const std::string& name, int64_t& value, int64_t low, int64_t high,
                     const std::string& help);

}  // namespace weft::cli
