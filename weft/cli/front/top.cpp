#include "weft/cli/front/top.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <optional>
#include <thread>

#include "weft/base/clock.h"
#include "weft/base/error.h"
#include "weft/base/text.h"
#include "weft/cli/front/command.h"
#include "weft/cli/front/flags.h"
#include "weft/cli/front/top_screen.h"
#include "weft/monitor/live/state_json.h"
#include "weft/monitor/live/top_view.h"

namespace weft::cli {
namespace {

constexpr double kDrawS = 1, kSayS = 5;
// A server that is started again is back by then.
constexpr double kGiveUpS = 10;

bool has_ended(const LiveState& state) {
  return state.status == "finished" || state.status == "stopped" || state.status == "failed";
}

// The reader of a pipe is gone, or the disk is full: there is nobody to go on for.
bool say(const std::string& line) {
  return std::fprintf(stdout, "%s\n", line.c_str()) >= 0 && std::fflush(stdout) == 0;
}

void show_once(const LiveState& state) {
  constexpr int kAllRows = 10000;
  for (const auto& line : top_lines(state, detect_terminal(STDOUT_FILENO), kAllRows)) std::printf("%s\n", line.c_str());
}

// A server may be away for a moment: that is shown, and asked again. The first answer must come.
class PatientSource {
 public:
  PatientSource(StateSource& source, LiveState first) : source_(source), last_(std::move(first)) {}
  const LiveState& read() {
    try {
      last_ = source_.read();
      lost_.reset();
    } catch (const Error& error) {
      if (!lost_) lost_.emplace();
      last_.notes = {cat("connection lost, retrying: ", error.text().title)};
    }
    return last_;
  }
  bool is_lost() const { return lost_.has_value(); }
  // For a reader that nobody can interrupt.
  void give_up_in_time() const {
    if (!lost_ || lost_->elapsed_s() < kGiveUpS) return;
    throw Error(ErrorKind::kEnvironment,
                {.title = "nobody shows the run any more",
                 .what = cat("no answer for ", kGiveUpS, " s; the last one: ", top_sentence(last_)),
                 .where = source_.name(),
                 .fix = "a run that serves its own page takes it along when it ends: its folder says how it ended"});
  }

 private:
  StateSource& source_;
  LiveState last_;
  std::optional<Stopwatch> lost_;
};

int draw_until_left(PatientSource& source, const std::string& page) {
  const std::string last_line = cat("q leaves", page.empty() ? "" : cat("; in a browser: ", page));
  TopScreen screen;
  do {
    Terminal terminal = detect_terminal(STDOUT_FILENO);
    auto lines = top_lines(source.read(), terminal, TopScreen::rows() - 1);
    lines.push_back(style(truncate_columns(last_line, terminal.columns - 1), Style::kDim, terminal));
    screen.draw(lines);
  } while (!screen.wait_for_leave(kDrawS));
  return 0;
}

int say_until_ended(PatientSource& source, bool json) {
  std::string said;
  for (;;) {
    const LiveState& state = source.read();
    std::string line = json ? state_json(state) : top_sentence(state);
    if (!json && source.is_lost()) line += cat("; ", state.notes.front());
    const std::string key = json ? cat(state.epoch, " ", state.version, " ", state.stalled, source.is_lost()) : line;
    if (key != said && !say(line)) return 1;
    said = key;
    if (has_ended(state)) return 0;
    source.give_up_in_time();
    std::this_thread::sleep_for(std::chrono::duration<double>(json ? kDrawS : kSayS));
  }
}

}  // namespace

int show_top(StateSource& source, const TopOptions& options) {
  ::signal(SIGPIPE, SIG_IGN);  // a server that leaves, or the reader of our pipe, shows as an error of the write
  LiveState first = source.read();
  if (options.once) {
    if (options.json)
      std::printf("%s\n", state_json(first).c_str());
    else
      show_once(first);
    return 0;
  }
  PatientSource patient(source, std::move(first));
  if (options.json || !detect_terminal(STDOUT_FILENO).is_tty) return say_until_ended(patient, options.json);
  return draw_until_left(patient, options.page);
}

int run_top(const Arguments& arguments) {
  std::string where, token;
  TopOptions options;
  auto app =
      make_app("top",
               "Show a run in the terminal while it goes on: loss, rates, where a step's time goes, memory, the\n"
               "ranks with the slow one marked, and the last lines of the log. q leaves. Into a pipe it writes a\n"
               "line every few seconds until the run ends.",
               "weft top runs/mine\n"
               "  weft top node-a:6006 --token 3f...     of another machine, through its `weft watch`\n"
               "Exit codes: 0 fine, 1 nobody answers (any more), 2 no run there.");
  app->add_option("RUN", where, "folder of a run, folder of runs (the newest), or HOST:PORT of a server")
      ->required()
      ->type_name("");
  app->add_flag("--once", options.once, "show it once and leave");
  app->add_flag("--json", options.json, "print the state as JSON, a line each time it changes");
  app->add_option("--token", token, "for a server that wants one")->type_name("TEXT");
  if (!parse_flags(*app, arguments)) return 0;
  const auto source = open_state_source(Env::posix(), where, token);
  return show_top(*source, options);
}

}  // namespace weft::cli
