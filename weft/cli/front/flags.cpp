#include "weft/cli/front/flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "weft/base/error.h"
#include "weft/base/text.h"

namespace weft::cli {
namespace {

std::vector<std::string> flag_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const auto* option : app.get_options()) {
    for (const auto& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

Error unknown_flag(const CLI::App& app, const std::string& word) {
  const std::string flag = word.substr(0, word.find('='));
  const std::string meant = nearest(flag, flag_names(app));
  const std::string help = cat("weft ", app.get_name(), " --help lists the flags");
  const bool is_flag = flag.starts_with('-');
  return {ErrorKind::kInput,
          {.title = is_flag ? cat("weft ", app.get_name(), " has no flag ", flag)
                            : cat("weft ", app.get_name(), " does not know what to do with '", flag, "'"),
           .what = "",
           .where = "",
           .fix = is_flag && !meant.empty() ? cat("did you mean ", meant, "? ", help) : help}};
}

std::function<std::string(const std::string&)> whole_number(int64_t low, int64_t high) {
  return [=](const std::string& text) -> std::string {
    int64_t number = 0;
    if (!CLI::detail::lexical_cast(text, number)) return cat("'", text, "' is not a whole number");
    if (number < low || number > high) return cat(text, " is outside ", low, "..", high);
    return "";
  };
}

// The values of a flag that has a list of them, or all flags where no flag is named.
void print_words(const CLI::App& app, const std::string& flag) {
  std::vector<std::string> words = flag_names(app);
  if (!flag.empty()) {
    const CLI::Option* option = app.get_option_no_throw(flag);
    const std::string values = option == nullptr ? "" : option->get_type_name();
    words = values.find('|') == std::string::npos ? std::vector<std::string>() : CLI::detail::split(values, '|');
  }
  for (const auto& word : words) std::printf("%s\n", word.c_str());
}

}  // namespace

std::unique_ptr<CLI::App> make_app(const std::string& command, const std::string& description,
                                   const std::string& example) {
  auto app = std::make_unique<CLI::App>(description, command);
  app->option_defaults()->take_last();  // a flag given twice: the later one counts, as everywhere
  app->allow_extras();                  // so that we see the unknown flags ourselves
  app->footer("Example:\n  " + example);
  app->get_formatter()->column_width(28);
  return app;
}

bool parse_flags(CLI::App& app, const std::vector<std::string>& arguments) {
  if (arguments.size() == 2 && arguments[0] == kListWords) {
    print_words(app, arguments[1]);
    return false;
  }
  std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());  // CLI11 takes them so
  try {
    app.parse(reversed);
  } catch (const CLI::CallForHelp&) {
    std::fputs(app.help("weft").c_str(), stdout);
    return false;
  } catch (const CLI::ParseError& error) {
    throw Error(ErrorKind::kInput, {.title = cat("weft ", app.get_name(), ": ", error.what()),
                                    .what = "",
                                    .where = "",
                                    .fix = cat("weft ", app.get_name(), " --help shows each flag with its range")});
  }
  const auto extras = app.remaining();
  if (!extras.empty()) throw unknown_flag(app, extras.front());
  return true;
}

void refuse(std::string title, std::string what, std::string fix) {
  throw Error(ErrorKind::kInput,
              {.title = std::move(title), .what = std::move(what), .where = "", .fix = std::move(fix)});
}

CLI::Option* add_int(CLI::App& app, const std::string& name, int64_t& value, int64_t low, int64_t high,
                     const std::string& help) {
  return app.add_option(name, value, help)->capture_default_str()->check(whole_number(low, high))->type_name("N");
}

CLI::Option* add_int(CLI::App& app, const std::string& name, std::optional<int64_t>& value, int64_t low, int64_t high,
                     const std::string& help) {
  return app.add_option(name, value, help)->check(whole_number(low, high))->type_name("N");
}

CLI::Option* add_choice(CLI::App& app, const std::string& name, std::string& value,
                        const std::vector<std::string>& choices, const std::string& help) {
  const auto is_one = [choices](const std::string& text) -> std::string {
    if (std::ranges::find(choices, text) != choices.end()) return "";
    const std::string meant = nearest(text, choices);
    return cat("'", text, "' is not one of ", join(choices, ", "),
               meant.empty() ? "" : cat("; did you mean ", meant, "?"));
  };
  return app.add_option(name, value, help)->check(is_one)->type_name(join(choices, "|"));
}

}  // namespace weft::cli
