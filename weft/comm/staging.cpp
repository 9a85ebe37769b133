#include "weft/comm/staging.h"

#include <ATen/ops/empty.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <map>
#include <mutex>

namespace weft::comm {
namespace {

c10::impl::VirtualGuardImpl guard_of(c10::Device device) { return c10::impl::VirtualGuardImpl(device.type()); }

// One for all groups of a device: collectives of one rank do not overtake each other on the copy engine anyway.
c10::Stream copy_stream(c10::Device device) {
  static std::mutex mutex;
  static std::map<c10::Device, c10::Stream, bool (*)(const c10::Device&, const c10::Device&)> streams(
      [](const c10::Device& a, const c10::Device& b) {
        return std::pair(a.type(), a.index()) < std::pair(b.type(), b.index());
      });
  const std::scoped_lock lock(mutex);
  const auto found = streams.find(device);
  if (found != streams.end()) return found->second;
  return streams.emplace(device, guard_of(device).getStreamFromGlobalPool(device, true)).first->second;
}

c10::Device device_of(const Collective& call) {
  return call.input.defined() ? call.input.device() : call.output.device();
}

at::Tensor pinned_like(const at::Tensor& device) {
  return at::empty({device.numel()}, device.options().device(at::kCPU).pinned_memory(true));
}

at::Tensor flat(const at::Tensor& tensor) { return tensor.view({-1}); }

}  // namespace

StagedCall::StagedCall(const Collective& call)
    : device_(call),
      host_(call),
      stream_(copy_stream(device_of(call))),
      copied_out_(device_of(call).type()),
      copied_back_(device_of(call).type()) {
  c10::Event ready(stream_.device_type());
  ready.record(guard_of(stream_.device()).getStream(stream_.device()));
  ready.block(stream_);
  const c10::StreamGuard on_copy_stream(stream_);
  if (call.input.defined()) host_.input = copy_out(call.input);
  if (call.output.defined()) {
    host_.output = call.output.is_same(call.input) ? host_.input : pinned_like(call.output);
  }
  copied_out_.record(stream_);
}

at::Tensor StagedCall::copy_out(const at::Tensor& device) {
  at::Tensor host = pinned_like(device);
  host.copy_(flat(device), /*non_blocking=*/true);
  device.record_stream(stream_);
  return host;
}

void StagedCall::wait_copied_out() { copied_out_.synchronize(); }

void StagedCall::copy_back() {
  const c10::StreamGuard on_copy_stream(stream_);
  if (device_.output.defined()) {
    flat(device_.output).copy_(host_.output, /*non_blocking=*/true);
    device_.output.record_stream(stream_);
  }
  copied_back_.record(stream_);
}

void StagedCall::order_current_stream() { copied_back_.block(guard_of(stream_.device()).getStream(stream_.device())); }

bool StagedCall::landed() const { return copied_back_.query(); }

}  // namespace weft::comm
