#include "weft/engine/clock_offsets.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <map>

#include "weft/base/clock.h"

namespace weft::engine {
namespace {

constexpr int kRounds = 32;
constexpr int kTag = 7411;  // of no other exchange

void put(const at::Tensor& on_device, int64_t value) {
  const at::Tensor here = at::empty({1}, at::kLong);
  *here.mutable_data_ptr<int64_t>() = value;
  on_device.copy_(here);
}

int64_t get(const at::Tensor& on_device) { return *on_device.cpu().const_data_ptr<int64_t>(); }

void answer(comm::Group& group, const at::Tensor& message) {
  for (int i = 0; i < kRounds; ++i) {
    group.recv(message, 0, kTag);
    put(message, now_ns());
    group.send(message, 0, kTag);
  }
}

int64_t ask(comm::Group& group, int rank, const at::Tensor& message) {
  int64_t quickest_ns = INT64_MAX, offset_ns = 0;
  for (int i = 0; i < kRounds; ++i) {
    const int64_t asked_ns = now_ns();
    group.send(message, rank, kTag);
    group.recv(message, rank, kTag);
    const int64_t theirs_ns = get(message), took_ns = now_ns() - asked_ns;
    if (took_ns >= quickest_ns) continue;
    quickest_ns = took_ns;
    offset_ns = asked_ns + took_ns / 2 - theirs_ns;
  }
  return offset_ns;
}

}  // namespace

std::vector<int64_t> clock_offsets(comm::Group& group, const std::vector<std::string>& hosts, at::Device device) {
  const at::Tensor message = at::empty({1}, at::TensorOptions().dtype(at::kLong).device(device)).zero_();
  std::map<std::string, int64_t> known = {{hosts[0], 0}};
  std::vector<int64_t> out(hosts.size(), 0);
  for (int rank = 1; rank < group.world(); ++rank) {
    const std::string& host = hosts[static_cast<size_t>(rank)];
    if (!known.contains(host)) {
      known[host] = group.rank() == 0 ? ask(group, rank, message) : 0;
      if (group.rank() == rank) answer(group, message);
    }
    out[static_cast<size_t>(rank)] = known[host];
  }
  return out;
}

}  // namespace weft::engine
