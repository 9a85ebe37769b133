#include "weft/monitor/progress.h"

#include <chrono>
#include <utility>

#include "weft/base/log.h"

namespace weft {
namespace {

// Faster than the eye follows costs bytes over ssh; slower looks stuck.
constexpr int64_t kLiveIntervalNs = 100'000'000;
// A log file of a day's run stays under 20,000 lines.
constexpr int64_t kPlainIntervalNs = 5'000'000'000;
constexpr std::string_view kEraseLine = "\r\033[K";

int64_t steady_now_ns() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

Progress::Progress(ProgressOptions options, std::function<int64_t()> now_ns)
    : options_(std::move(options)), now_ns_(now_ns ? std::move(now_ns) : steady_now_ns) {
  if (options_.terminal.is_tty) set_log_prelude([this] { erase_live(); });
}

Progress::~Progress() {
  if (options_.terminal.is_tty) set_log_prelude(nullptr);
  finish();
}

void Progress::update(const ProgressSample& sample) {
  const std::lock_guard lock(mutex_);
  if (finished_) return;
  last_ = sample;
  last_is_drawn_ = false;
  const int64_t now = now_ns_();
  const int64_t interval = options_.terminal.is_tty ? kLiveIntervalNs : kPlainIntervalNs;
  if (drawn_at_ns_ && now - *drawn_at_ns_ < interval) return;
  // A step must not wait for a terminal that the user stopped or a pipe that nobody empties.
  if (!can_write_now(options_.fd)) return;
  drawn_at_ns_ = now;
  if (options_.terminal.is_tty)
    draw_live("");
  else
    draw_plain();
}

void Progress::finish() {
  const std::lock_guard lock(mutex_);
  if (std::exchange(finished_, true) || !last_) return;
  if (options_.terminal.is_tty)
    draw_live("\n");
  else if (!last_is_drawn_)
    draw_plain();
  line_is_live_ = false;
}

void Progress::draw_live(std::string_view line_end) {
  Terminal terminal = options_.terminal;
  if (const int columns = window_columns(options_.fd); columns > 0) terminal.columns = columns;
  write_quietly(options_.fd, cat(kEraseLine, live_progress_line(options_.title, *last_, terminal), line_end));
  last_is_drawn_ = line_is_live_ = true;
}

void Progress::draw_plain() {
  write_quietly(options_.fd, cat(plain_progress_line(options_.title, *last_, options_.terminal), "\n"));
  last_is_drawn_ = true;
}

void Progress::erase_live() {
  const std::lock_guard lock(mutex_);
  // The log writes its line after this returns: a redraw by another thread in between would run into it. The full
  // interval until the next redraw gives the line time to land.
  drawn_at_ns_ = now_ns_();
  if (std::exchange(line_is_live_, false)) write_quietly(options_.fd, kEraseLine);
}

}  // namespace weft
