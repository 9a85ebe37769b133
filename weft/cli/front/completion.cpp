#include <CLI/CLI.hpp>
#include <cstdio>

#include "weft/cli/front/command.h"
#include "weft/cli/front/flags.h"
#include "weft/config/setting.h"

namespace weft::cli {
namespace {

// The scripts ask weft itself for the words that may stand at the cursor, so that they never fall behind the flags. No
// words: the shell completes file names.
constexpr const char* kBash = R"sh(# weft completion for bash: source <(weft completion bash)
_weft() {
  local IFS=$'\n'
  COMPREPLY=($(compgen -W "$(weft completion words "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)" -- "${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _weft weft
)sh";

constexpr const char* kZsh = R"sh(#compdef weft
# weft completion for zsh: source <(weft completion zsh)
_weft() {
  local -a candidates
  candidates=(${(f)"$(weft completion words "${(@)words[2,CURRENT]}" 2>/dev/null)"})
  if (( ${#candidates} )); then compadd -a candidates; else _files; fi
}
compdef _weft weft
)sh";

constexpr const char* kFish = R"sh(# weft completion for fish: weft completion fish | source
complete -c weft -n __fish_use_subcommand -f
complete -c weft -a '(weft completion words (commandline -opc)[2..] (commandline -ct) 2>/dev/null)'
)sh";

void print_settings() {
  for (const auto& setting : config::settings())
    std::printf("%.*s\n", static_cast<int>(setting.path.size()), setting.path.data());
}

// `words` are those after "weft" up to the cursor; the last is the one being typed and may be empty.
int print_words(const Arguments& words) {
  if (words.size() <= 1) {
    for (const auto& command : commands()) std::printf("%s\n", command.name);
    return 0;
  }
  if (words[0] == "completion") return run_completion({kListWords, "SHELL"});
  if (words[0] == "bench" && words.size() == 2) {
    std::printf("comm\n");
    return 0;
  }
  if (words[0] == "ckpt")
    return run_ckpt(words.size() == 2 ? Arguments{kListWords} : Arguments{words[1], kListWords, ""});
  const std::string& before = words[words.size() - 2];
  if (before == "--explain") {
    print_settings();
    return 0;
  }
  for (const auto& command : commands()) {
    if (words[0] != command.name) continue;
    const bool wants_flag = words.back().starts_with('-'), after_flag = before.starts_with('-');
    if (wants_flag || after_flag) return command.run({kListWords, wants_flag ? "" : before});
  }
  return 0;
}

}  // namespace

int run_completion(const Arguments& arguments) {
  if (!arguments.empty() && arguments[0] == "words") return print_words({arguments.begin() + 1, arguments.end()});
  std::string shell;
  auto app =
      make_app("completion", "Print the script that teaches a shell to complete weft's commands, flags and settings.",
               "source <(weft completion bash)");
  add_choice(*app, "SHELL", shell, {"bash", "zsh", "fish"}, "whose script")->required();
  if (!parse_flags(*app, arguments)) return 0;
  std::fputs(shell == "bash" ? kBash : shell == "zsh" ? kZsh : kFish, stdout);
  return 0;
}

}  // namespace weft::cli
