#include "weft/checkpoint/live_slices.h"

#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <sys/mman.h>

#include <algorithm>
#include <span>

#include "weft/base/text.h"
#include "weft/checkpoint/dtypes.h"
#include "weft/checkpoint/tensor_bytes_impl.h"

namespace weft::checkpoint {
namespace {

// So that every copy is aligned for its type, and begins on a cache line.
constexpr int64_t kAlignBytes = 64;
// What is converted or comes from a device passes through memory of this size.
constexpr int64_t kStagedElements = 1 << 20;

int64_t aligned(int64_t bytes) { return (bytes + kAlignBytes - 1) / kAlignBytes * kAlignBytes; }

std::span<std::byte> writable(const at::Tensor& tensor) {
  return {static_cast<std::byte*>(tensor.mutable_data_ptr()), tensor.nbytes()};
}

// Memory is given page by page as it is first written to, while training stands still. A hint: without it that only takes longer.
void take_large_pages(std::span<std::byte> memory) {
  constexpr uintptr_t kPageBytes = 2 << 20;
  const size_t before = (kPageBytes - reinterpret_cast<uintptr_t>(memory.data()) % kPageBytes) % kPageBytes;
  if (memory.size() < before + kPageBytes) return;
  const std::span<std::byte> pages = memory.subspan(before);
  ::madvise(pages.data(), pages.size() / kPageBytes * kPageBytes, MADV_HUGEPAGE);
}

std::string text_of(const std::vector<int64_t>& shape) {
  std::vector<std::string> sizes;
  for (const int64_t size : shape) sizes.push_back(cat(size));
  return cat("[", join(sizes, ", "), "]");
}

void read_piece(StepReader& reader, const LiveSlice& slice, const at::Tensor& into, int64_t first) {
  const auto begin = static_cast<uint64_t>(slice.begin + first);
  reader.read(slice.tensor, begin, begin + static_cast<uint64_t>(into.numel()), writable(into));
}

void read_slice(StepReader& reader, const LiveSlice& slice) {
  const at::Tensor& values = slice.values;
  const at::ScalarType stored = dtype_of(reader.manifest().tensors.at(slice.tensor).dtype);
  if (values.is_cpu() && values.scalar_type() == stored && values.is_contiguous()) {
    return read_piece(reader, slice, values, 0);
  }
  const bool is_flat = values.dim() == 1;
  const int64_t step = is_flat ? kStagedElements : values.numel();
  for (int64_t first = 0; first < values.numel(); first += step) {
    const at::Tensor staged = at::empty({std::min(step, values.numel() - first)}, at::TensorOptions().dtype(stored));
    read_piece(reader, slice, staged, first);
    is_flat ? values.narrow(0, first, staged.numel()).copy_(staged) : values.copy_(staged.view(values.sizes()));
  }
}

}  // namespace

std::vector<SliceToSave> to_save(const std::vector<LiveSlice>& slices) {
  std::vector<SliceToSave> out;
  for (const LiveSlice& slice : slices) {
    const auto begin = static_cast<uint64_t>(slice.begin);
    out.push_back({.tensor = slice.tensor,
                   .dtype = dtype_name(slice.values.scalar_type(), slice.tensor),
                   .shape = slice.shape,
                   .begin = begin,
                   .end = begin + static_cast<uint64_t>(slice.values.numel())});
  }
  return out;
}

uint64_t total_bytes(const std::vector<LiveSlice>& slices) {
  uint64_t out = 0;
  for (const LiveSlice& slice : slices) out += slice.values.nbytes();
  return out;
}

// --- Saving ----------------------------------------------------------------------------------------------------------

void HostCopy::take(const std::vector<LiveSlice>& slices) {
  const at::NoGradGuard no_grad;
  int64_t bytes = 0;
  std::optional<c10::Device> device;
  for (const LiveSlice& slice : slices) {
    bytes += aligned(static_cast<int64_t>(slice.values.nbytes()));
    if (!slice.values.is_cpu()) device = slice.values.device();
  }
  if (!memory_.defined() || memory_.numel() < bytes) {
    memory_ = at::Tensor();  // both at once would be too much
    memory_ = at::empty({bytes}, at::TensorOptions().dtype(at::kByte).pinned_memory(device.has_value()));
    if (!device) take_large_pages(writable(memory_));
  }
  copies_.clear();
  int64_t at = 0;
  for (const LiveSlice& slice : slices) {
    const auto size = static_cast<int64_t>(slice.values.nbytes());
    const at::Tensor copy = memory_.narrow(0, at, size).view(slice.values.scalar_type()).view(slice.values.sizes());
    copy.copy_(slice.values.detach(), /*non_blocking=*/true);
    copies_.push_back(copy);
    at += aligned(size);
  }
  copied_.reset();
  if (!device) return;
  copied_.emplace(device->type());
  copied_->record(c10::impl::VirtualGuardImpl(device->type()).getStream(*device));
}

void HostCopy::write_to(RankFileWriter& writer) {
  if (copied_) copied_->synchronize();
  for (const at::Tensor& copy : copies_) writer.append(data_of(copy));
}

// --- Loading ---------------------------------------------------------------------------------------------------------

void read_slices(StepReader& reader, const std::vector<LiveSlice>& slices) {
  const at::NoGradGuard no_grad;
  for (const LiveSlice& slice : slices) {
    if (slice.values.numel() > 0) read_slice(reader, slice);
  }
}

std::vector<std::string> misfits(const Manifest& manifest, const Shapes& wanted,
                                 const std::vector<std::string>& prefixes) {
  std::vector<std::string> out;
  for (const auto& [name, shape] : wanted) {
    const auto found = manifest.tensors.find(name);
    if (found == manifest.tensors.end()) {
      out.push_back(cat("'", name, "' is missing"));
    } else if (found->second.shape != shape) {
      out.push_back(
          cat("'", name, "' has shape ", text_of(found->second.shape), " there and ", text_of(shape), " here"));
    }
  }
  for (const auto& [name, tensor] : manifest.tensors) {
    const bool counts = std::ranges::any_of(prefixes, [&](const auto& prefix) { return name.starts_with(prefix); });
    if (counts && !wanted.contains(name)) out.push_back(cat("'", name, "' is there and not here"));
  }
  return out;
}

}  // namespace weft::checkpoint
