// What the files of Residents share.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <optional>

namespace weft::engine {

// Of the tensor's device; none on the host.
inline std::optional<c10::Stream> current_stream(const at::Tensor& tensor) {
  if (tensor.is_cpu()) return std::nullopt;
  return c10::impl::VirtualGuardImpl(tensor.device().type()).getStream(tensor.device());
}

}  // namespace weft::engine
