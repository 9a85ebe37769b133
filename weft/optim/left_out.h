// How many updates a device has left out because a factor was not finite. The device counts; the host learns of it by a copy that is
// asked for behind the count, so that it never waits for work that came later.
//
//   left_out.count(factor);              // once an update; flag() is then 1 where this one must not happen
//   ... launch the update, the next forward and backward ...
//   left_out.known();                    // waits for the count, not for what was launched since
//
// Owns a few numbers on the device and one in page-locked memory. Threads: one at a time, with one stream. Failure: torch's own.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>

#include <cstdint>
#include <optional>

namespace weft::optim {

class LeftOut {
 public:
  // `factor`: one fp32 element, on a device as a rule.
  void count(const at::Tensor& factor);
  // Of the last count(): fp32, there. 1: left out.
  const at::Tensor& flag() const { return flag_; }
  // Of all of them.
  const at::Tensor& total() const { return total_; }
  // The total here. 0 before the first count().
  int64_t known() const;

 private:
  at::Tensor flag_, total_, here_;
  std::optional<c10::Event> copied_;
};

}  // namespace weft::optim
