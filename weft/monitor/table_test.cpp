#include "weft/monitor/table.h"

#include <gtest/gtest.h>

#include <sstream>

#include "tests/support/text.h"
#include "weft/base/text.h"

namespace weft {
namespace {

using test::without_escapes;

const Table kTable{"train gpt-nano",
                   {{"final loss", "2.005", "below 4.62", Mark::kGood},
                    {"checkpoint", "runs/gpt-nano/store/step_1500"},
                    {"slow steps", "6 of 1,500", "the disk held them up", Mark::kBad},
                    {"说明", "中文"}}};

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

TEST(Table, AlignsColumnsInABox) {
  EXPECT_EQ(render_table(kTable, {.columns = 100, .unicode = true}),
            "╭─ train gpt-nano ───────────────────────────────────────────────────╮\n"
            "│ ✓ final loss  2.005                          below 4.62            │\n"
            "│   checkpoint  runs/gpt-nano/store/step_1500                        │\n"
            "│ ✗ slow steps  6 of 1,500                     the disk held them up │\n"
            "│   说明        中文                                                 │\n"
            "╰────────────────────────────────────────────────────────────────────╯\n");
}

TEST(Table, FortyColumnsPutNotesBelowAndWrapValues) {
  EXPECT_EQ(render_table(kTable, {.columns = 40}),
            "+- train gpt-nano ---------------------+\n"
            "| + final loss  2.005                  |\n"
            "|               below 4.62             |\n"
            "|   checkpoint  runs/gpt-nano/store/st |\n"
            "|               ep_1500                |\n"
            "| ! slow steps  6 of 1,500             |\n"
            "|               the disk held them up  |\n"
            "|   说明        中文                   |\n"
            "+--------------------------------------+\n");
}

TEST(Table, NoLineIsWiderThanTheTerminalAndFramesAreStraight) {
  Table table = kTable;
  table.title = "a title that is much longer than any narrow terminal could ever show";
  table.rows.push_back({"a label with many words to wrap", std::string(120, 'x'), "训练训练训练"});
  table.rows.push_back({"", "", ""});
  for (int columns = 1; columns <= 200; columns += columns < 50 ? 1 : 25) {
    for (const bool rich : {false, true}) {
      const Terminal terminal{.is_tty = true, .columns = columns, .colour = rich, .unicode = rich};
      const auto lines = lines_of(render_table(table, terminal));
      for (const auto& line : lines) {
        const int width = display_columns(without_escapes(line));
        ASSERT_LE(width, columns) << line;
        if (columns < 24) continue;
        ASSERT_EQ(width, display_columns(without_escapes(lines[0]))) << columns << line;
      }
    }
  }
}

TEST(Table, APipeGetsNoControlCharacter) {
  Table table = kTable;
  table.title = "a\033[31mb\r";
  table.rows[0].value = "x\ny\x9B";
  for (const char c : render_table(table, {.is_tty = false, .columns = 60, .unicode = true})) {
    EXPECT_TRUE(c == '\n' || static_cast<unsigned char>(c) >= 0x20);
  }
}

TEST(Table, EmptyTablesAndTitlesAreFine) {
  EXPECT_EQ(render_table({"", {{"a", "b"}}}, {.columns = 40}), "+------+\n| a  b |\n+------+\n");
  EXPECT_EQ(render_table({"t", {}}, {.columns = 40}), "+- t +\n+----+\n");
}

TEST(Wrap, BreaksBetweenWordsThenInsideThem) {
  EXPECT_EQ(wrap_columns("one two three", 7), (std::vector<std::string>{"one two", "three"}));
  EXPECT_EQ(wrap_columns("abcdefgh ij", 5), (std::vector<std::string>{"abcde", "fgh", "ij"}));
  EXPECT_EQ(wrap_columns("训练", 1), (std::vector<std::string>{"?", "?"}));
  EXPECT_EQ(wrap_columns("", 5), (std::vector<std::string>{""}));
}

}  // namespace
}  // namespace weft
