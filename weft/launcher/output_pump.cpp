#include "weft/launcher/output_pump.h"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "weft/base/check.h"
#include "weft/base/error.h"
#include "weft/base/text.h"
#include "weft/monitor/terminal.h"

namespace weft::launcher {
namespace {

// Beyond this the ranks wait: their pipes fill and their writes block, as they would on a slow terminal.
constexpr size_t kMaxPendingBytes = 1 << 20;
// POLLOUT on a pipe promises room for this much and no more.
constexpr size_t kWriteBytes = 4096;
constexpr int kMaxReadsAtClose = 256;

std::string prefix_of(int rank, bool colour) {
  if (!colour) return cat("[rank ", rank, "] ");
  constexpr int kColours[] = {36, 33, 32, 35, 34};  // red is left for errors
  return cat("\x1b[", kColours[rank % 5], "m[rank ", rank, "]\x1b[0m ");
}

}  // namespace

OutputPump::OutputPump(OutputOptions options)
    : options_(options),
      out_{.fd = options.out_fd, .colour = options.colour_out},
      err_{.fd = options.err_fd, .colour = options.colour_err} {}

void OutputPump::add_rank(int rank, UniqueFd out, UniqueFd err) {
  for (auto* pipe : {&out, &err}) {
    if (*pipe && ::fcntl(pipe->get(), F_SETFL, O_NONBLOCK) != 0) throw IoError("prepare a pipe", "", errno);
  }
  sources_.push_back({.rank = rank, .is_err = false, .pipe = std::move(out)});
  sources_.push_back({.rank = rank, .is_err = true, .pipe = std::move(err)});
}

bool OutputPump::is_full() const { return out_.pending.size() + err_.pending.size() > kMaxPendingBytes; }

void OutputPump::watch(std::vector<pollfd>& polled) const {
  // poll(2) passes over a negative descriptor, so that every entry keeps its place.
  for (const auto* sink : {&out_, &err_}) polled.push_back({sink->empty() ? -1 : sink->fd, POLLOUT, 0});
  const bool full = is_full();
  for (const auto& source : sources_) polled.push_back({full ? -1 : source.pipe.get(), POLLIN, 0});
}

void OutputPump::serve(std::span<const pollfd> polled) {
  WEFT_CHECK_EQ(polled.size(), sources_.size() + 2);
  for (size_t i = 0; i < sources_.size(); ++i) {
    if (polled[i + 2].revents != 0) take(sources_[i]);
  }
  out_.write_some();
  err_.write_some();
}

bool OutputPump::take(Source& source) {
  if (!source.pipe) return false;
  std::array<char, 1 << 16> buffer;
  const ssize_t got = retry_interrupted([&] { return ::read(source.pipe.get(), buffer.data(), buffer.size()); });
  if (got < 0 && errno == EAGAIN) return false;
  if (got < 0) throw IoError("read what a rank prints", "", errno);
  pass_on(source, {buffer.data(), static_cast<size_t>(got)});
  if (got > 0) return true;
  source.cutter.finish([&](std::string_view line) { show(source, line); });
  source.pipe.reset();
  return false;
}

void OutputPump::pass_on(Source& source, std::string_view bytes) {
  if (!options_.framed) return source.cutter.feed(bytes, [&](std::string_view line) { show(source, line); });
  const auto kind = source.is_err ? FrameKind::kErrors : FrameKind::kOutput;
  if (!bytes.empty()) send({.kind = kind, .number = source.rank, .bytes = bytes});
}

void OutputPump::feed(int rank, bool is_err, std::string_view bytes) {
  const auto is_it = [&](const Source& source) { return source.rank == rank && source.is_err == is_err; };
  const auto source = std::ranges::find_if(sources_, is_it);
  WEFT_CHECK(source != sources_.end());
  pass_on(*source, bytes);
}

void OutputPump::note(std::string_view line) { err_.pending += cat(safe_line(line, err_.colour), "\n"); }

void OutputPump::send(const Frame& frame) { append_frame(out_.pending, frame); }

void OutputPump::send_raw(std::string_view bytes) { out_.pending += bytes; }

void OutputPump::show(const Source& source, std::string_view line) {
  Sink& sink = source.is_err ? err_ : out_;
  if (options_.prefix) sink.pending += prefix_of(source.rank, sink.colour);
  const std::string safe = safe_line(line, sink.colour);
  sink.pending += cat(safe, "\n");
  if (source.is_err) last_[source.rank].add(safe);
}

void OutputPump::Sink::write_some() {
  while (!empty() && can_write_now(fd)) {
    const size_t size = std::min(kWriteBytes, pending.size() - num_written);
    const ssize_t written = retry_interrupted([&] { return ::write(fd, pending.data() + num_written, size); });
    if (written < 0 && errno == EAGAIN) return;
    num_written = written < 0 ? pending.size() : num_written + static_cast<size_t>(written);
  }
  if (empty()) {
    pending.clear();
    num_written = 0;
  }
}

bool OutputPump::drained() const {
  const bool all_ended = std::ranges::none_of(sources_, [](const Source& source) { return bool(source.pipe); });
  return all_ended && out_.empty() && err_.empty();
}

void OutputPump::close_pipes() {
  for (auto& source : sources_) {
    for (int reads = 0; reads < kMaxReadsAtClose && take(source); ++reads) {
    }
    source.cutter.finish([&](std::string_view line) { show(source, line); });
    source.pipe.reset();
  }
}

void OutputPump::flush(Deadline deadline) {
  for (auto* sink : {&out_, &err_}) {
    for (sink->write_some(); !sink->empty() && !deadline.expired(); sink->write_some()) {
      pollfd wanted{.fd = sink->fd, .events = POLLOUT, .revents = 0};
      ::poll(&wanted, 1, deadline.poll_ms());
    }
  }
}

std::vector<std::string> OutputPump::last_lines(int rank) const {
  const auto found = last_.find(rank);
  return found == last_.end() ? std::vector<std::string>() : found->second.lines();
}

}  // namespace weft::launcher
