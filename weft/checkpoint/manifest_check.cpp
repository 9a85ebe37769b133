#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "weft/base/text.h"
#include "weft/checkpoint/manifest.h"
#include "weft/checkpoint/manifest_impl.h"
#include "weft/checkpoint/safetensors_header.h"
#include "weft/checkpoint/store_names.h"

namespace weft::checkpoint {
namespace {

// Where one run of elements of a tensor lies, for the check that all of them lie somewhere.
struct Run {
  uint64_t begin = 0, end = 0;
  const std::string* file = nullptr;
};
using Runs = std::map<std::string_view, std::vector<Run>>;

void check_tensor(const std::string& name, const StoredTensor& tensor, const std::string& where) {
  if (!is_plain_name(name)) refuse_manifest("a tensor's name is empty, too long or not plain text", where);
  const auto width = dtype_bytes(tensor.dtype);
  if (!width) refuse_manifest(cat("tensor '", name, "' has the unknown dtype '", tensor.dtype, "'"), where);
  // In int64_t: no size of ours reaches 2^63, and sums of two sizes then fit uint64_t. A zero hides no overflow behind it.
  auto bytes = static_cast<int64_t>(*width);
  for (const int64_t extent : tensor.shape) {
    if (extent < 0 || __builtin_mul_overflow(bytes, std::max<int64_t>(extent, 1), &bytes))
      refuse_manifest(cat("the shape of tensor '", name, "' takes 2^63 bytes or more"), where);
  }
}

void check_blocks(const StoredFile& file, const std::string& where) {
  if (!is_stored_file_name(file.name))
    refuse_manifest(cat("the file name '", file.name, "' is not NAME.safetensors inside the step's folder"), where);
  const uint64_t block = file.block_bytes;
  if (block < kMinBlockBytes || block > kMaxBlockBytes || !std::has_single_bit(block))
    refuse_manifest(cat("file '", file.name, "' has blocks of ", block, " bytes"), where);
  const uint64_t expected = file.bytes / block + (file.bytes % block != 0 ? 1 : 0);
  if (file.blocks.size() != expected)
    refuse_manifest(
        cat("file '", file.name, "' of ", file.bytes, " bytes has ", file.blocks.size(), " hashes, not ", expected),
        where);
}

// Bytes the slice takes. Requires: the manifest's tensors have been checked.
uint64_t check_slice(const Manifest& manifest, const StoredFile& file, const StoredSlice& slice,
                     const std::string& where) {
  const auto tensor = manifest.tensors.find(slice.tensor);
  if (tensor == manifest.tensors.end())
    refuse_manifest(cat("file '", file.name, "' has elements of a tensor that is not listed: '", slice.tensor, "'"),
                    where);
  const uint64_t numel = numel_of(tensor->second);
  if (slice.begin > slice.end || slice.end > numel)
    refuse_manifest(cat("file '", file.name, "' claims elements ", slice.begin, " to ", slice.end, " of tensor '",
                        slice.tensor, "', which has ", numel),
                    where);
  return (slice.end - slice.begin) * width_of(tensor->second);
}

// The slices follow each other without holes up to the end of the file, as safetensors has it.
void check_slices(const Manifest& manifest, const StoredFile& file, const std::string& where, Runs& runs) {
  uint64_t at = file.slices.empty() ? file.bytes : file.slices.front().offset;
  for (const auto& slice : file.slices) {
    const uint64_t bytes = check_slice(manifest, file, slice, where);
    if (slice.offset != at || bytes > file.bytes || at > file.bytes - bytes)
      refuse_manifest(cat("tensor '", slice.tensor, "' lies at byte ", slice.offset, " of file '", file.name, "' with ",
                          bytes, " bytes; expected byte ", at, " of ", file.bytes),
                      where);
    at += bytes;
    if (bytes > 0) runs[slice.tensor].push_back({.begin = slice.begin, .end = slice.end, .file = &file.name});
  }
  if (at != file.bytes)
    refuse_manifest(cat("the slices of file '", file.name, "' end at byte ", at, " of ", file.bytes), where);
}

void check_coverage(const std::string& name, uint64_t numel, std::vector<Run> runs, const std::string& where) {
  std::ranges::sort(runs, {}, &Run::begin);
  uint64_t at = 0;
  for (const Run& run : runs) {
    if (run.begin < at)
      refuse_manifest(
          cat("element ", run.begin, " of tensor '", name, "' lies in two places, one of them file '", *run.file, "'"),
          where);
    if (run.begin > at) break;
    at = run.end;
  }
  if (at != numel)
    refuse_manifest(cat("element ", at, " of tensor '", name, "' lies in no file; it has ", numel), where);
}

void check_names(const Manifest& manifest, const std::string& where) {
  for (const auto& [name, bytes] : manifest.sections) {
    if (!is_plain_name(name)) refuse_manifest("a section's name is empty, too long or not plain text", where);
  }
  for (const auto& [name, metric] : manifest.metrics) {
    if (!is_plain_name(name) || !std::isfinite(metric))
      refuse_manifest("a metric is not a name and a finite number", where);
  }
  if (!is_text(manifest.plan)) refuse_manifest("the plan is not text", where);
}

}  // namespace

void check_manifest(const Manifest& manifest, const std::string& where) {
  if (manifest.step < 0 || manifest.world < 1 || manifest.world > kMaxWorld)
    refuse_manifest(cat("step ", manifest.step, " of ", manifest.world, " ranks cannot be"), where);
  check_names(manifest, where);
  for (const auto& [name, tensor] : manifest.tensors) check_tensor(name, tensor, where);
  Runs runs;
  for (size_t i = 0; i < manifest.files.size(); ++i) {
    if (i > 0 && manifest.files[i - 1].name >= manifest.files[i].name)
      refuse_manifest(cat("file '", manifest.files[i].name, "' stands twice"), where);
    check_blocks(manifest.files[i], where);
    check_slices(manifest, manifest.files[i], where, runs);
  }
  for (const auto& [name, tensor] : manifest.tensors)
    check_coverage(name, numel_of(tensor), std::move(runs[name]), where);
}

}  // namespace weft::checkpoint
