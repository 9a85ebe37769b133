#include "weft/launcher/shell_words.h"

#include <gtest/gtest.h>

#include "weft/base/error.h"
#include "weft/base/process.h"
#include "weft/base/text.h"

namespace weft::launcher {
namespace {

using Words = std::vector<std::string>;

TEST(ShellWords, PlainWordsStayReadable) {
  EXPECT_EQ(quote_for_shell("/usr/bin/weft"), "/usr/bin/weft");
  EXPECT_EQ(quote_for_shell("it's"), R"('it'\''s')");
  EXPECT_EQ(quote_for_shell(""), "''");
}

// The shell itself is the judge: it prints its argument back.
TEST(ShellWords, AShellReadsExactlyTheWord) {
  const Words words = {"a b",      "a\nb",   "$HOME", "`id`", "$(id)", "\\", "'", "''",
                       "\"",       "a'b\"c", "*",     "~",    "#x",    "-n", "!", "a;b|c&d<e>f(g){h}",
                       "\xff\xfe", "\t",     "=x",    "a\\"};
  for (const auto& word : words) {
    const auto done = run_and_capture({.argv = {"/bin/sh", "-c", cat("printf '%s.' ", quote_for_shell(word))}},
                                      Deadline::after(20), 1 << 16);
    EXPECT_EQ(done.out, word + ".") << quote_for_shell(word);
    EXPECT_EQ(split_words(quote_for_shell(word)), Words{word});
  }
}

TEST(ShellWords, CommandsAreCutAsAShellCutsThem) {
  const std::pair<std::string, Words> cases[] = {
      {"", {}},
      {"  \t\n ", {}},
      {"ssh", {"ssh"}},
      {" ssh  -p 22\t-J 'a b' ", {"ssh", "-p", "22", "-J", "a b"}},
      {R"(a"b 'c'"d e\ f)", {"ab 'c'd", "e f"}},
      {R"("a\"b" 'c\d')", {R"(a"b)", R"(c\d)"}},
      {"'' x", {"", "x"}},
  };
  for (const auto& [text, words] : cases) EXPECT_EQ(split_words(text), words) << text;
  EXPECT_THROW(split_words("ssh 'a"), Error);
  EXPECT_THROW(split_words("ssh \"a"), Error);
}

}  // namespace
}  // namespace weft::launcher
