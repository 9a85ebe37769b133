#include "weft/engine/ready_times.h"

#include <c10/core/impl/VirtualGuardImpl.h>

namespace weft::engine {

ReadyTimes::ReadyTimes(c10::Device device, size_t num_parameters) : device_(device), last_s_(num_parameters, 0) {}

void ReadyTimes::begin(bool measured) {
  since_begin_.restart();
  events_.clear();
  if (!measured || device_.is_cpu()) return;
  const size_t count = last_s_.size() + 2;
  events_.reserve(count);
  for (size_t i = 0; i < count; ++i)
    events_.emplace_back(device_.type(), c10::EventFlag::BACKEND_DEFAULT);  // with times
  mark(events_[last_s_.size()]);
}

void ReadyTimes::note(int parameter) {
  last_s_[static_cast<size_t>(parameter)] = since_begin_.elapsed_s();
  if (!events_.empty()) mark(events_[static_cast<size_t>(parameter)]);
}

void ReadyTimes::end() {
  backward_s_ = since_begin_.elapsed_s();
  if (events_.empty()) return;
  // Autograd has made this stream wait for all others that it used.
  mark(events_.back());
  backward_s_ = until_s(events_.back());
  for (size_t i = 0; i < last_s_.size(); ++i) {
    if (events_[i].was_marked_for_recording()) last_s_[i] = until_s(events_[i]);
  }
  events_.clear();
}

void ReadyTimes::mark(c10::Event& event) const {
  event.record(c10::impl::VirtualGuardImpl(device_.type()).getStream(device_));
}

double ReadyTimes::until_s(const c10::Event& event) const {
  event.synchronize();
  return events_[last_s_.size()].elapsedTime(event) * 1e-3;
}

}  // namespace weft::engine
