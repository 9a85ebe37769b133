#include "weft/launcher/agent_link.h"

#include <array>
#include <csignal>

#include "weft/base/fd.h"

namespace weft::launcher {

Orders AgentLink::take(const pollfd& polled) {
  Orders orders;
  if (gone_) return orders;
  if (polled.revents != 0) read_some(orders);
  gone_ = gone_ || silence_.expired();
  if (gone_) orders.signals.push_back(SIGTERM);
  return orders;
}

void AgentLink::read_some(Orders& orders) {
  std::array<char, 1 << 16> buffer;
  const ssize_t got = retry_interrupted([&] { return ::read(fd_, buffer.data(), buffer.size()); });
  if (got < 0 && errno == EAGAIN) return;
  gone_ = got <= 0;
  if (gone_) return;
  silence_ = Deadline::after(kSilenceSeconds);
  reader_.feed({buffer.data(), static_cast<size_t>(got)}, [&](const Frame& frame) {
    if (frame.kind == FrameKind::kJob) orders.job = job_of_bytes(frame.bytes);
    if (frame.kind == FrameKind::kSignal) orders.signals.push_back(frame.number);
    is_last_ = is_last_ || (frame.kind == FrameKind::kSignal && frame.bytes == kLastWord);
    orders.kill = orders.kill || frame.kind == FrameKind::kKill;
    if (frame.kind == FrameKind::kBeat) ++orders.num_beats;
  });
}

}  // namespace weft::launcher
