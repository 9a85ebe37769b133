// CLI11 with our manners: a misspelt flag is answered with the one that was meant, values are checked with a reason, and
// every mistake is an Error(kInput), exit code 2.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace CLI {  // NOLINT(readability-identifier-naming): the library's own name
class App;
class Option;
}  // namespace CLI

namespace weft::cli {

std::unique_ptr<CLI::App> make_app(const std::string& command, const std::string& description,
                                   const std::string& example);

// True when the command should run; false when help was asked for and printed, or words for the shell's completion
// (kListWords FLAG: the values of FLAG where its type name lists them, "a|b|c"; kListWords "": every flag).
inline constexpr const char* kListWords = "--list-words";
bool parse_flags(CLI::App& app, const std::vector<std::string>& arguments);

// Throws Error(kInput): for flags that contradict each other, and for values that a flag's own check cannot judge.
[[noreturn]] void refuse(std::string title, std::string what, std::string fix);

// `--name`, an integer within [low, high].
CLI::Option* add_int(CLI::App& app, const std::string& name, int64_t& value, int64_t low, int64_t high,
                     const std::string& help);
// The same where being absent means something.
CLI::Option* add_int(CLI::App& app, const std::string& name, std::optional<int64_t>& value, int64_t low, int64_t high,
                     const std::string& help);
// `--name`, one of a few words; --help and the shell's completion list them.
CLI::Option* add_choice(CLI::App& app, const std::string& name, std::string& value,
                        const std::vector<std::string>& choices, const std::string& help);

}  // namespace weft::cli
