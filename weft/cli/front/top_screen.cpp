#include "weft/cli/front/top_screen.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <csignal>

#include "weft/base/clock.h"
#include "weft/monitor/terminal.h"

namespace weft::cli {
namespace {

constexpr std::string_view kEnter = "\033[?1049h\033[?25l", kLeave = "\033[?25h\033[?1049l";

sigset_t leaving_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH}) sigaddset(&set, number);
  return set;
}

}  // namespace

TopScreen::TopScreen() {
  const sigset_t set = leaving_signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  signals_.reset(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  has_keys_ = ::isatty(STDIN_FILENO) == 1 && ::tcgetattr(STDIN_FILENO, &before_) == 0;
  if (has_keys_) {
    termios keys = before_;
    keys.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO | ISIG);
    keys.c_cc[VMIN] = 0;
    keys.c_cc[VTIME] = 0;
    ::tcsetattr(STDIN_FILENO, TCSANOW, &keys);
  }
  write_quietly(STDOUT_FILENO, kEnter);
}

TopScreen::~TopScreen() {
  write_quietly(STDOUT_FILENO, kLeave);
  if (has_keys_) ::tcsetattr(STDIN_FILENO, TCSAFLUSH, &before_);
}

int TopScreen::rows() {
  winsize window{};
  return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_row > 0 ? window.ws_row : 24;
}

void TopScreen::draw(const std::vector<std::string>& lines) {
  std::string out = "\033[H";
  for (size_t i = 0; i < lines.size(); ++i) {
    out += lines[i];
    out += "\033[K";  // the rest of the line that was there
    if (i + 1 < lines.size()) out += "\r\n";
  }
  out += "\033[J";
  if (can_write_now(STDOUT_FILENO)) write_quietly(STDOUT_FILENO, out);
}

bool TopScreen::read_keys() {
  char keys[64];
  const ssize_t got = ::read(STDIN_FILENO, keys, sizeof keys);
  if (got <= 0) return true;  // the terminal is gone
  constexpr char kCtrlC = 3, kCtrlD = 4, kEscape = 27;
  // An arrow key is Esc and two more; Esc by itself leaves.
  if (got == 1 && keys[0] == kEscape) return true;
  for (ssize_t i = 0; i < got; ++i)
    if (keys[i] == 'q' || keys[i] == 'Q' || keys[i] == kCtrlC || keys[i] == kCtrlD) return true;
  return false;
}

bool TopScreen::wait_for_leave(double seconds) {
  const Deadline until = Deadline::after(seconds);
  for (;;) {
    pollfd both[2] = {{.fd = has_keys_ ? STDIN_FILENO : -1, .events = POLLIN, .revents = 0},
                      {.fd = signals_.get(), .events = POLLIN, .revents = 0}};
    const int ready = static_cast<int>(retry_interrupted([&] { return ::poll(both, 2, until.poll_ms()); }));
    if (ready <= 0) return false;
    if (both[0].revents != 0 && read_keys()) return true;
    signalfd_siginfo signal{};
    if (both[1].revents == 0 || ::read(signals_.get(), &signal, sizeof signal) != sizeof signal) continue;
    return signal.ssi_signo != SIGWINCH;
  }
}

}  // namespace weft::cli
