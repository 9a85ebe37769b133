#include "weft/monitor/terminal.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <cstdlib>
#include <map>
#include <optional>

#include "tests/support/posix.h"
#include "weft/base/text.h"
#include "weft/monitor/html.h"
#include "weft/monitor/numbers.h"

namespace weft {
namespace {

// Sets the variables that detect_terminal() reads, and puts the old values back.
class Environment {
 public:
  explicit Environment(const std::map<std::string, std::string>& wanted) {
    for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG", "COLUMNS", "NO_COLOR", "TERM"}) {
      const char* value = std::getenv(name);
      before_[name] = value == nullptr ? std::nullopt : std::optional<std::string>(value);
      ::unsetenv(name);
    }
    for (const auto& [name, value] : wanted) ::setenv(name.c_str(), value.c_str(), 1);
  }
  ~Environment() {
    for (const auto& [name, value] : before_) {
      if (value)
        ::setenv(name.c_str(), value->c_str(), 1);
      else
        ::unsetenv(name.c_str());
    }
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  std::map<std::string, std::optional<std::string>> before_;
};

struct Pty {
  int master = -1, slave = -1;
  explicit Pty(unsigned short columns) {
    winsize window{.ws_row = 24, .ws_col = columns, .ws_xpixel = 0, .ws_ypixel = 0};
    EXPECT_EQ(::openpty(&master, &slave, nullptr, nullptr, &window), 0);
  }
  ~Pty() {
    ::close(master);
    ::close(slave);
  }
};

using Variables = std::map<std::string, std::string>;

Terminal detect_with(const Variables& variables, int fd) {
  const Environment environment(variables);
  return detect_terminal(fd);
}

TEST(Terminal, ReadsTheWindowOfATty) {
  const Pty pty(57);
  const Terminal terminal = detect_with({{"COLUMNS", "33"}, {"TERM", "xterm"}, {"LANG", "en_US.UTF-8"}}, pty.slave);
  EXPECT_TRUE(terminal.is_tty);
  EXPECT_EQ(terminal.columns, 57);
  EXPECT_TRUE(terminal.colour);
  EXPECT_TRUE(terminal.unicode);
}

TEST(Terminal, FallsBackToColumnsThenToEighty) {
  const test::Pipe pipe = test::make_pipe();
  EXPECT_EQ(detect_with({{"COLUMNS", "33"}}, pipe.write_end.get()).columns, 33);
  EXPECT_EQ(detect_with({{"COLUMNS", "44"}}, Pty(0).slave).columns, 44);
  for (const char* wrong : {"", "0", "-5", "80x", "99999999999999999999"}) {
    EXPECT_EQ(detect_with({{"COLUMNS", wrong}}, pipe.write_end.get()).columns, 80) << wrong;
  }
}

TEST(Terminal, ColourNeedsATtyThatWantsIt) {
  const Pty pty(80);
  const test::Pipe pipe = test::make_pipe();
  EXPECT_TRUE(detect_with({{"TERM", "xterm"}}, pty.slave).colour);
  EXPECT_FALSE(detect_with({{"TERM", "xterm"}}, pipe.write_end.get()).colour);
  EXPECT_FALSE(detect_with({{"TERM", "xterm"}, {"NO_COLOR", "1"}}, pty.slave).colour);
  EXPECT_FALSE(detect_with({{"TERM", "dumb"}}, pty.slave).colour);
}

TEST(Terminal, TheFirstLocaleVariableThatIsSetDecides) {
  EXPECT_TRUE(detect_with({{"LANG", "C.utf8"}}, -1).unicode);
  EXPECT_FALSE(detect_with({{"LANG", "en_US.UTF-8"}, {"LC_ALL", "C"}}, -1).unicode);
  EXPECT_TRUE(detect_with({{"LANG", "C"}, {"LC_CTYPE", "de_DE.UTF-8"}, {"LC_ALL", ""}}, -1).unicode);
  EXPECT_FALSE(detect_with({}, -1).unicode);
}

TEST(Terminal, StyleAddsNothingWithoutColour) {
  EXPECT_EQ(style("done", Style::kGreen, {}), "done");
  EXPECT_EQ(style("done", Style::kGreen, {.is_tty = true, .colour = true}), "\033[32mdone\033[0m");
  EXPECT_EQ(style("", Style::kBold, {.is_tty = true, .colour = true}), "");
}

TEST(Terminal, TruncatesByColumnsNotBytes) {
  EXPECT_EQ(truncate_columns("训练开始", 5), "训练");
  EXPECT_EQ(truncate_columns("训练开始", 8), "训练开始");
  EXPECT_EQ(truncate_columns("training", 5, "…"), "trai…");
  EXPECT_EQ(truncate_columns("training", 2, "..."), "tr");
  EXPECT_EQ(truncate_columns("e\xCC\x81tude", 1), "e\xCC\x81");  // the accent stays with its letter
  EXPECT_EQ(truncate_columns("anything", 0), "");
  for (int columns = 0; columns < 12; ++columns) {
    EXPECT_LE(display_columns(truncate_columns("\xE4\xB8 \xFF\xC0\x80 训\xED\xA0\x80 end", columns, "…")), columns);
  }
}

TEST(Terminal, PrintableRemovesWhatMovesTheCursor) {
  const Terminal utf8{.is_tty = true, .unicode = true}, ascii{.is_tty = true}, file{};
  EXPECT_EQ(printable("a\033[2Jb\r\nc\x7F", utf8), "a [2Jb  c ");
  EXPECT_EQ(printable("\xC2\x9B"
                      "31m",
                      utf8),
            " 31m");  // the one-character form of ESC [
  EXPECT_EQ(printable("x\xFFy", utf8), "x\xEF\xBF\xBDy");
  EXPECT_EQ(printable("训 x", ascii), "? x");
  EXPECT_EQ(printable("训 x", file), "训 x");
}

TEST(Terminal, AClosedReaderIsNoReasonToDie) {
  test::Pipe pipe = test::make_pipe();
  pipe.read_end.reset();
  ASSERT_NE(::signal(SIGPIPE, SIG_DFL), SIG_ERR);
  write_quietly(pipe.write_end.get(), "no reader is left");  // the default action of SIGPIPE would end the test here
  sigset_t pending;
  ::sigpending(&pending);
  EXPECT_EQ(sigismember(&pending, SIGPIPE), 0);
}

TEST(Terminal, AFullPipeIsNotReady) {
  const test::Pipe pipe = test::make_pipe();
  ASSERT_TRUE(can_write_now(pipe.write_end.get()));
  ASSERT_EQ(::fcntl(pipe.write_end.get(), F_SETFL, O_NONBLOCK), 0);
  const std::string block(4096, 'x');
  while (::write(pipe.write_end.get(), block.data(), block.size()) > 0) {
  }
  EXPECT_FALSE(can_write_now(pipe.write_end.get()));
  write_quietly(pipe.write_end.get(), "lost");  // EAGAIN
}

TEST(Numbers, ReadAsPeopleWriteThem) {
  EXPECT_EQ(short_duration_text(45.2), "45s");
  EXPECT_EQ(short_duration_text(130), "2m10s");
  EXPECT_EQ(short_duration_text(3900), "1h05m");
  EXPECT_EQ(short_duration_text(3 * 86400 + 4 * 3600), "3d04h");
  EXPECT_EQ(short_duration_text(1e30), "?");
  EXPECT_EQ(short_duration_text(std::nan("")), "?");
  EXPECT_EQ(grouped_text(1234567), "1,234,567");
  EXPECT_EQ(grouped_text(-123456), "-123,456");
  EXPECT_EQ(grouped_text(INT64_MIN), "-9,223,372,036,854,775,808");
  EXPECT_EQ(loss_text(3.21449), "3.214");
  EXPECT_EQ(loss_text(0.000123456), "0.000123");
  EXPECT_EQ(loss_text(std::nan("")), "nan");
  EXPECT_EQ(fixed_text(-0.0001, 2), "0.00");
  EXPECT_EQ(fixed_text(1e300, 3), "1e+300");
}

TEST(Html, EscapesMarksAndDamage) {
  EXPECT_EQ(escape_html("<a href=\"x\">'&'</a>"), "&lt;a href=&quot;x&quot;&gt;&#39;&amp;&#39;&lt;/a&gt;");
  EXPECT_EQ(escape_html("训练\t1\n"), "训练\t1\n");
  EXPECT_EQ(escape_html(std::string_view("a\0b", 3)),
            "a\xEF\xBF\xBD"
            "b");
  EXPECT_EQ(escape_html("\xC0\xBC"), "\xEF\xBF\xBD\xEF\xBF\xBD");  // an overlong '<' must not become one
  EXPECT_EQ(escape_html("end\xE4\xB8"), "end\xEF\xBF\xBD\xEF\xBF\xBD");
}

}  // namespace
}  // namespace weft
