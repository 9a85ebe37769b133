#include "weft/monitor/terminal.h"

#include <poll.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <ctime>

#include "weft/base/text.h"
#include "weft/base/utf8.h"

namespace weft {
namespace {

std::string_view environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

int columns_from_environment() {
  const std::string_view text = environment("COLUMNS");
  int columns = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), columns);
  const bool good = error == std::errc() && end == text.data() + text.size() && columns > 0;
  return good ? columns : 80;
}

// The first of the three that is set decides, as in setlocale().
bool locale_is_utf8() {
  std::string locale(environment("LC_ALL"));
  if (locale.empty()) locale = environment("LC_CTYPE");
  if (locale.empty()) locale = environment("LANG");
  std::ranges::transform(locale, locale.begin(), [](unsigned char c) { return std::toupper(c); });
  return locale.find("UTF-8") != std::string::npos || locale.find("UTF8") != std::string::npos;
}

const char* escape_for(Style how) {
  switch (how) {
    case Style::kPlain: return "";
    case Style::kBold: return "\033[1m";
    case Style::kDim: return "\033[2m";
    case Style::kGreen: return "\033[32m";
    case Style::kRed: return "\033[31m";
  }
  return "";
}

// While it lives, a write to a closed pipe returns EPIPE instead of killing the process, and the process's own handling
// of the signal is left as it was. Only this thread is affected.
class NoSigpipe {
 public:
  NoSigpipe() {
    sigemptyset(&pipe_only_);
    sigaddset(&pipe_only_, SIGPIPE);
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &pipe_only_, &before_);
  }
  ~NoSigpipe() {
    const timespec at_once{};
    if (raised_ && !was_pending_) sigtimedwait(&pipe_only_, nullptr, &at_once);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  NoSigpipe(const NoSigpipe&) = delete;
  NoSigpipe& operator=(const NoSigpipe&) = delete;

  void raised() { raised_ = true; }

 private:
  sigset_t pipe_only_, before_;
  bool was_pending_ = false;
  bool raised_ = false;
};

}  // namespace

int window_columns(int fd) {
  winsize window{};
  return ::ioctl(fd, TIOCGWINSZ, &window) == 0 ? window.ws_col : 0;
}

Terminal detect_terminal(int fd) {
  Terminal terminal;
  terminal.is_tty = ::isatty(fd) == 1;
  terminal.columns = window_columns(fd);
  if (terminal.columns <= 0) terminal.columns = columns_from_environment();
  terminal.colour = terminal.is_tty && environment("NO_COLOR").empty() && environment("TERM") != "dumb";
  terminal.unicode = locale_is_utf8();
  return terminal;
}

std::string style(std::string_view text, Style how, const Terminal& terminal) {
  if (!terminal.colour || how == Style::kPlain || text.empty()) return std::string(text);
  return cat(escape_for(how), text, "\033[0m");
}

std::string truncate_columns(std::string_view utf8, int columns, std::string_view ending) {
  if (display_columns(utf8) <= columns) return std::string(utf8);
  const int ending_columns = display_columns(ending);
  if (ending_columns >= columns) ending = "";
  const int room = columns - (ending.empty() ? 0 : ending_columns);
  std::string out;
  int used = 0;
  for (std::string_view rest = utf8; !rest.empty();) {
    const CodePoint point = take_code_point(rest);
    used += display_columns(point.bytes);
    if (used > room) break;
    out += point.bytes;
  }
  return out += ending;
}

std::string printable(std::string_view text, const Terminal& terminal) {
  const bool ascii_only = terminal.is_tty && !terminal.unicode;
  std::string out;
  for (std::string_view rest = text; !rest.empty();) {
    const CodePoint point = take_code_point(rest);
    if (is_control(point.value))
      out += ' ';
    else if (ascii_only && point.value >= 0x80)
      out += '?';
    else
      out += point.valid ? point.bytes : kReplacementCharacter;
  }
  return out;
}

std::string pad_columns(std::string_view utf8, int columns) {
  const int missing = std::max(0, columns - display_columns(utf8));
  return cat(utf8, std::string(static_cast<size_t>(missing), ' '));
}

void write_quietly(int fd, std::string_view text) {
  NoSigpipe guard;
  ssize_t written = 0;
  do {
    written = ::write(fd, text.data(), text.size());
  } while (written < 0 && errno == EINTR);
  if (written < 0 && errno == EPIPE) guard.raised();
}

bool can_write_now(int fd) {
  pollfd wanted{.fd = fd, .events = POLLOUT, .revents = 0};
  return ::poll(&wanted, 1, 0) == 1;
}

}  // namespace weft
