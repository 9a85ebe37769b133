#include "weft/launcher/output_pump.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>

#include "weft/base/process.h"
#include "weft/base/text.h"

namespace weft::launcher {
namespace {

struct Pipe {
  UniqueFd read, write;
};

Pipe make_pipe() {
  int ends[2];
  EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

void put(const UniqueFd& fd, std::string_view text) {
  ASSERT_EQ(::write(fd.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
}

std::string read_now(const UniqueFd& fd) {
  ::fcntl(fd.get(), F_SETFL, O_NONBLOCK);
  std::string text(1 << 20, '\0');
  const ssize_t got = ::read(fd.get(), text.data(), text.size());
  return text.substr(0, got < 0 ? 0 : static_cast<size_t>(got));
}

void serve_once(OutputPump& pump, int timeout_ms = 10'000) {
  std::vector<pollfd> polled;
  pump.watch(polled);
  ::poll(polled.data(), polled.size(), timeout_ms);
  pump.serve(polled);
}

// How many of the ranks' pipes it would read from now.
int watched_pipes(const OutputPump& pump) {
  std::vector<pollfd> polled;
  pump.watch(polled);
  return static_cast<int>(
      std::count_if(polled.begin() + 2, polled.end(), [](const pollfd& one) { return one.fd >= 0; }));
}

class Pump : public testing::Test {
 protected:
  void SetUp() override { before_ = std::signal(SIGPIPE, SIG_IGN); }
  void TearDown() override { std::signal(SIGPIPE, before_); }

  void (*before_)(int) = nullptr;
  Pipe out_ = make_pipe(), err_ = make_pipe();            // ours
  Pipe rank_out_ = make_pipe(), rank_err_ = make_pipe();  // a rank's
  OutputOptions options_{.out_fd = out_.write.get(), .err_fd = err_.write.get()};
};

TEST_F(Pump, PutsTheRankBeforeWholeLinesOfEachStream) {
  OutputPump pump(options_);
  pump.add_rank(3, std::move(rank_out_.read), std::move(rank_err_.read));
  put(rank_out_.write, "one\ntw");
  put(rank_err_.write, "oh\n");
  serve_once(pump);
  EXPECT_EQ(read_now(out_.read), "[rank 3] one\n");
  EXPECT_EQ(read_now(err_.read), "[rank 3] oh\n");
  put(rank_out_.write, "o");
  rank_out_.write.reset();
  rank_err_.write.reset();
  while (!pump.drained()) serve_once(pump);
  EXPECT_EQ(read_now(out_.read), "[rank 3] two\n");
  EXPECT_EQ(pump.last_lines(3), std::vector<std::string>{"oh"});
}

TEST_F(Pump, PrefixesCanBeLeftOutAndColoured) {
  options_.prefix = false;
  OutputPump plain(options_);
  plain.add_rank(0, std::move(rank_out_.read), UniqueFd());
  put(rank_out_.write, "x\n");
  serve_once(plain);
  EXPECT_EQ(read_now(out_.read), "x\n");

  Pipe other = make_pipe();
  options_.prefix = options_.colour_out = true;
  OutputPump coloured(options_);
  coloured.add_rank(1, std::move(other.read), UniqueFd());
  put(other.write, "x\n");
  serve_once(coloured);
  EXPECT_EQ(read_now(out_.read), "\x1b[33m[rank 1]\x1b[0m x\n");
}

TEST_F(Pump, ASlowReaderStopsTheRankAndNotUs) {
  constexpr size_t kBytes = 2'000'000;
  OutputPump pump(options_);
  Process rank = Process::spawn({.argv = {"head", "-c", cat(kBytes), "/dev/zero"}, .out = Stream::pipe()});
  pump.add_rank(0, std::move(rank.out()), UniqueFd());
  // Nobody reads our output: at last the pump takes no more from the rank, which waits to write.
  const Deadline deadline = Deadline::after(30);
  for (bool takes = true; takes && !deadline.expired(); takes = watched_pipes(pump) > 0) serve_once(pump, 10);
  EXPECT_EQ(watched_pipes(pump), 0);
  EXPECT_EQ(rank.wait(Deadline::after(0)), std::nullopt);
  size_t shown = 0;
  while (!pump.drained() && !deadline.expired()) {
    serve_once(pump, 100);
    shown += read_now(out_.read).size();
  }
  EXPECT_GE(shown, 4 * kBytes);  // \x00 for each byte
  EXPECT_TRUE(rank.wait(deadline)->ok());
}

TEST_F(Pump, AReaderThatLeftLosesTheTextAndNothingElse) {
  OutputPump pump(options_);
  pump.add_rank(0, std::move(rank_out_.read), std::move(rank_err_.read));
  out_.read.reset();
  put(rank_out_.write, "lost\n");
  rank_out_.write.reset();
  put(rank_err_.write, "shown\n");
  rank_err_.write.reset();
  for (int i = 0; i < 10 && !pump.drained(); ++i) serve_once(pump);
  EXPECT_TRUE(pump.drained());
  EXPECT_EQ(read_now(err_.read), "[rank 0] shown\n");
}

TEST_F(Pump, ClosingTakesWhatIsThere) {
  OutputPump pump(options_);
  pump.add_rank(0, std::move(rank_out_.read), UniqueFd());
  put(rank_out_.write, "a\nlast words");
  pump.close_pipes();
  pump.flush(Deadline::after(10));
  EXPECT_TRUE(pump.drained());
  EXPECT_EQ(read_now(out_.read), "[rank 0] a\n[rank 0] last words\n");
}

TEST_F(Pump, FlushEndsAtItsDeadline) {
  OutputPump pump(options_);
  ::fcntl(out_.write.get(), F_SETPIPE_SZ, 4096);
  pump.add_rank(0, std::move(rank_out_.read), UniqueFd());
  put(rank_out_.write, std::string(20'000, 'x'));
  pump.close_pipes();
  pump.flush(Deadline::after(0.05));
  EXPECT_FALSE(pump.drained());
}

}  // namespace
}  // namespace weft::launcher
