#include "weft/monitor/progress.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>

#include <cmath>
#include <thread>

#include "tests/support/text.h"
#include "weft/base/log.h"
#include "weft/monitor/test_spans_impl.h"

namespace weft {
namespace {

using test::count_of;
using test::without_escapes;

const ProgressSample kSample{
    .step = 450, .total_steps = 1000, .fraction = 0.45, .loss = 3.2144, .tokens_per_s = 12345, .eta_s = 130};

// The reading end tells what was written so far, without waiting.
class Pipe {
 public:
  Pipe() {
    EXPECT_EQ(::pipe(ends_), 0);
    EXPECT_EQ(::fcntl(ends_[0], F_SETFL, O_NONBLOCK), 0);
  }
  ~Pipe() {
    ::close(ends_[0]);
    ::close(ends_[1]);
  }
  int writer() const { return ends_[1]; }
  std::string read_all() {
    std::string out;
    char buffer[4096];
    for (ssize_t n; (n = ::read(ends_[0], buffer, sizeof buffer)) > 0;) out.append(buffer, static_cast<size_t>(n));
    return out;
  }

 private:
  int ends_[2] = {-1, -1};
};

// Sends standard error elsewhere while it lives.
class StderrTo {
 public:
  explicit StderrTo(int fd) : before_(::dup(STDERR_FILENO)) { ::dup2(fd, STDERR_FILENO); }
  ~StderrTo() {
    ::dup2(before_, STDERR_FILENO);
    ::close(before_);
  }
  StderrTo(const StderrTo&) = delete;
  StderrTo& operator=(const StderrTo&) = delete;

 private:
  int before_;
};

TEST(ProgressLine, ShowsEverythingWhereThereIsRoom) {
  const std::string line = live_progress_line("train", kSample, {.is_tty = true, .columns = 100});
  EXPECT_EQ(line, "train  [############................]   45%  step  450/1000  loss 3.214  12.3K tok/s  ETA 2m10s");
  const std::string unicode = live_progress_line("train", kSample, {.is_tty = true, .columns = 40, .unicode = true});
  EXPECT_EQ(unicode, "████▌░░░░░   45%  loss 3.214  ETA 2m10s");
}

TEST(ProgressLine, NeverReachesTheLastColumn) {
  ProgressSample strange = kSample;
  strange.loss = -1.0 / 0.0;
  strange.step = INT64_MAX;
  strange.eta_s = 1e300;
  strange.fraction = 7;
  for (const auto& sample : {kSample, strange, ProgressSample{}}) {
    for (const char* title : {"train", "", "训练 gpt-nano 一二三四五六七八九十", "\xFF\033[2J\n"}) {
      for (int columns = 1; columns <= 200; ++columns) {
        for (const bool rich : {false, true}) {
          const Terminal terminal{.is_tty = true, .columns = columns, .colour = rich, .unicode = rich};
          const std::string line = live_progress_line(title, sample, terminal);
          ASSERT_LT(display_columns(without_escapes(line)), std::max(columns, 1)) << columns << ": " << line;
          ASSERT_EQ(without_escapes(line).find_first_of("\033\r\n"), std::string::npos);
        }
      }
    }
  }
}

TEST(ProgressLine, DropsTheLeastImportantFirst) {
  const auto at = [](int columns) {
    return live_progress_line("train", kSample, {.is_tty = true, .columns = columns});
  };
  EXPECT_EQ(at(10), " 45%");
  EXPECT_EQ(at(20), " 45%  loss 3.214");
  EXPECT_EQ(at(30), " 45%  loss 3.214  ETA 2m10s");
  EXPECT_EQ(at(40), "[###.....]   45%  loss 3.214  ETA 2m10s");
}

TEST(ProgressLine, SaysHundredPercentOnlyWhenDone) {
  ProgressSample sample = kSample;
  const auto has = [&](const char* text) {
    return plain_progress_line("", sample, {}).find(text) != std::string::npos;
  };
  sample.fraction = 0.99999;
  EXPECT_TRUE(has("(99%)"));
  EXPECT_TRUE(has("2m10s left"));
  sample.fraction = 1;
  EXPECT_TRUE(has("(100%)"));
  EXPECT_FALSE(has("left"));
  sample.fraction = 0.29;
  EXPECT_TRUE(has("(29%)"));
  sample.fraction = NAN;
  EXPECT_FALSE(has("%"));
}

class ProgressTest : public testing::Test {
 protected:
  Progress make(Terminal terminal) {
    return Progress({.title = "train", .fd = pipe.writer(), .terminal = terminal}, [this] { return now_ns; });
  }
  Pipe pipe;
  int64_t now_ns = 0;
};

TEST_F(ProgressTest, APipeGetsPlainLinesEveryFiveSecondsAndTheFirstAndLast) {
  auto progress = make({.is_tty = false, .columns = 10, .colour = false, .unicode = true});
  ProgressSample sample = kSample;
  for (int step = 0; step <= 120; ++step) {  // twelve seconds
    sample.step = step;
    progress.update(sample);
    now_ns += 100 * kMs;
  }
  progress.finish();
  progress.finish();
  const std::string out = pipe.read_all();
  for (const char c : out) EXPECT_TRUE(c == '\n' || static_cast<unsigned char>(c) >= 0x20) << out;
  EXPECT_EQ(count_of(out, "\n"), 4U) << out;
  EXPECT_TRUE(out.starts_with("train: step 0/1000 (45%), loss 3.214, 12.3K tokens/s, 2m10s left\n")) << out;
  EXPECT_NE(out.find("step 50/1000"), std::string::npos);
  EXPECT_NE(out.find("step 100/1000"), std::string::npos);
  EXPECT_NE(out.find("step 120/1000"), std::string::npos);
}

TEST_F(ProgressTest, APipeDoesNotGetTheSameSampleTwice) {
  auto progress = make({});
  progress.update(kSample);
  progress.finish();
  EXPECT_EQ(count_of(pipe.read_all(), "\n"), 1U);
}

TEST_F(ProgressTest, ATtyIsRedrawnTenTimesASecondAtMost) {
  auto progress = make({.is_tty = true, .columns = 60});
  for (int i = 0; i < 1000; ++i) {
    progress.update(kSample);
    now_ns += 1 * kMs;
  }
  EXPECT_EQ(count_of(pipe.read_all(), "\r\033[K"), 10U);
}

TEST_F(ProgressTest, FinishShowsTheLastSampleAndEndsTheLine) {
  auto progress = make({.is_tty = true, .columns = 60});
  progress.update(kSample);
  ProgressSample last = kSample;
  last.loss = 1.5;
  progress.update(last);  // too soon to be drawn
  progress.finish();
  progress.update(kSample);
  const std::string out = pipe.read_all();
  EXPECT_NE(out.find("loss 1.500"), std::string::npos);
  EXPECT_TRUE(out.ends_with("\n"));
  EXPECT_EQ(count_of(out, "\n"), 1U);
}

TEST_F(ProgressTest, WritesNothingWithoutASample) {
  make({.is_tty = true}).finish();
  make({}).finish();
  EXPECT_EQ(pipe.read_all(), "");
}

TEST_F(ProgressTest, ALogLineErasesTheLiveLineFirst) {
  const StderrTo redirected(pipe.writer());
  {
    auto progress = make({.is_tty = true, .columns = 60});
    progress.update(kSample);
    pipe.read_all();
    log_error("disk is slow");
    log_error("still slow");
    EXPECT_EQ(pipe.read_all(), "\r\033[K[weft] [ERROR] disk is slow\n[weft] [ERROR] still slow\n");
    now_ns += 100 * kMs;
    progress.update(kSample);
    progress.finish();
    pipe.read_all();
    log_error("after the end");
    EXPECT_EQ(pipe.read_all(), "[weft] [ERROR] after the end\n");
  }
  log_error("the prelude is gone");
  EXPECT_EQ(pipe.read_all(), "[weft] [ERROR] the prelude is gone\n");
}

TEST_F(ProgressTest, ALogLineHasAnIntervalToLandBeforeTheNextRedraw) {
  const StderrTo redirected(pipe.writer());
  auto progress = make({.is_tty = true, .columns = 60});
  progress.update(kSample);
  now_ns += 250 * kMs;
  log_error("disk is slow");
  pipe.read_all();
  progress.update(kSample);
  now_ns += 99 * kMs;
  progress.update(kSample);
  EXPECT_EQ(pipe.read_all(), "");
  now_ns += 1 * kMs;
  progress.update(kSample);
  EXPECT_NE(pipe.read_all().find("45%"), std::string::npos);
}

TEST_F(ProgressTest, LoggingAndUpdatingFromTwoThreadsNeitherLocksNorLosesALine) {
  const StderrTo redirected(pipe.writer());
  constexpr int kRounds = 200;
  {
    // Every update is due, so that both threads want the two locks all the time.
    Progress progress({.title = "train", .fd = pipe.writer(), .terminal = {.is_tty = true, .columns = 20}},
                      [this] { return now_ns += 100 * kMs; });
    std::thread logger([] {
      for (int i = 0; i < kRounds; ++i) log_error("still here");
    });
    for (int i = 0; i < kRounds; ++i) progress.update(kSample);
    logger.join();
  }
  EXPECT_EQ(count_of(pipe.read_all(), "[weft] [ERROR] still here\n"), size_t{kRounds});
}

TEST_F(ProgressTest, APipeThatNobodyEmptiesDoesNotStopTheStep) {
  ASSERT_EQ(::fcntl(pipe.writer(), F_SETFL, O_NONBLOCK), 0);
  const std::string block(4096, 'x');
  while (::write(pipe.writer(), block.data(), block.size()) > 0) {
  }
  ASSERT_EQ(::fcntl(pipe.writer(), F_SETFL, 0), 0);  // from here on a write would wait for ever
  auto progress = make({.is_tty = true, .columns = 60});
  progress.update(kSample);
  pipe.read_all();
  progress.update(kSample);  // nothing was drawn yet, so this one is not too soon
  EXPECT_NE(pipe.read_all().find("45%"), std::string::npos);
}

// What a pty shows up to and including `ending`; the kernel hands it over in its own time.
std::string read_until(int fd, std::string_view ending) {
  std::string out;
  while (!out.ends_with(ending)) {
    pollfd wanted{.fd = fd, .events = POLLIN, .revents = 0};
    if (::poll(&wanted, 1, 10'000) != 1) break;
    char buffer[512];
    const ssize_t n = ::read(fd, buffer, sizeof buffer);
    if (n <= 0) break;
    out.append(buffer, static_cast<size_t>(n));
  }
  return out;
}

TEST(ProgressOnAPty, FollowsTheWindow) {
  int master = -1, slave = -1;
  winsize window{.ws_row = 24, .ws_col = 80, .ws_xpixel = 0, .ws_ypixel = 0};
  ASSERT_EQ(::openpty(&master, &slave, nullptr, nullptr, &window), 0);
  int64_t now_ns = 0;
  {
    Terminal terminal{.is_tty = true, .columns = 80};
    Progress progress({.title = "train", .fd = slave, .terminal = terminal}, [&] { return now_ns; });
    progress.update(kSample);
    EXPECT_NE(read_until(master, "ETA 2m10s").find("step"), std::string::npos);
    window.ws_col = 20;
    ASSERT_EQ(::ioctl(master, TIOCSWINSZ, &window), 0);
    now_ns += 100 * kMs;
    progress.update(kSample);
    EXPECT_EQ(read_until(master, "3.214"), "\r\033[K 45%  loss 3.214");
  }
  EXPECT_TRUE(read_until(master, "\n").ends_with("\r\n"));
  ::close(master);
  ::close(slave);
}

}  // namespace
}  // namespace weft
