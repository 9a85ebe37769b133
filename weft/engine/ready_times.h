// When the gradients of a backward were there, seen from its begin.
//
// On the CPU that is when their hooks run. On a device the hooks run when the work has only been asked for, long before it is done:
// there, events on the streams of the hooks tell, if somebody wants to know.
//
//   times.begin(true);
//   times.note(parameter);            // in the hook, on the thread and the stream that made the gradient
//   times.end();                      // last_s and backward_s are there; on a device, this waits for it
//
// Threads: one at a time. Failure: torch's errors, where a device is lost.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Event.h>

#include <vector>

#include "weft/base/clock.h"

namespace weft::engine {

class ReadyTimes {
 public:
  ReadyTimes(c10::Device device, size_t num_parameters);

  // Of a backward that nobody measures, a device's times are those at which the work was asked for: only their order means something.
  void begin(bool measured);
  void note(int parameter);
  void end();

  // By parameter: the last time it was noted, of whichever backward that was.
  const std::vector<double>& last_s() const { return last_s_; }
  double backward_s() const { return backward_s_; }

 private:
  void mark(c10::Event& event) const;
  double until_s(const c10::Event& event) const;

  const c10::Device device_;
  Stopwatch since_begin_;
  std::vector<double> last_s_;
  double backward_s_ = 0;
  // While a device's backward is measured, else empty: by parameter, then of the begin and of the end.
  std::vector<c10::Event> events_;
};

}  // namespace weft::engine
