#include "weft/launcher/shell_words.h"

#include <algorithm>
#include <cstring>

#include "weft/base/error.h"
#include "weft/base/text.h"

namespace weft::launcher {
namespace {

bool needs_no_quotes(char c) {
  const bool is_name = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  return is_name || (c != '\0' && std::strchr("_-./:=@%+,", c) != nullptr);
}

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n'; }

// One character of a word, and the quotes around it.
struct Cutter {
  std::vector<std::string> words = {};
  bool in_word = false;
  char quote = 0;

  void add(char c) {
    if (!in_word) words.emplace_back();
    in_word = true;
    words.back() += c;
  }
  void open(char c) {
    quote = c;
    if (!in_word) words.emplace_back();
    in_word = true;
  }
};

}  // namespace

std::string quote_for_shell(std::string_view word) {
  if (!word.empty() && std::ranges::all_of(word, needs_no_quotes)) return std::string(word);
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

std::vector<std::string> split_words(std::string_view text) {
  Cutter cutter;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool is_escape = c == '\\' && cutter.quote != '\'' && i + 1 < text.size();
    if (is_escape) {
      cutter.add(text[++i]);
    } else if (cutter.quote != 0) {
      if (c == cutter.quote)
        cutter.quote = 0;
      else
        cutter.add(c);
    } else if (c == '\'' || c == '"') {
      cutter.open(c);
    } else if (is_blank(c)) {
      cutter.in_word = false;
    } else {
      cutter.add(c);
    }
  }
  if (cutter.quote == 0) return cutter.words;
  throw Error(ErrorKind::kInput, {.title = "a quote does not end",
                                  .what = cat("in: ", text),
                                  .where = "",
                                  .fix = cat("add the closing ", cutter.quote)});
}

}  // namespace weft::launcher
