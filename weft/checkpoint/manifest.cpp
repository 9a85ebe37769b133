#include "weft/checkpoint/manifest.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "weft/base/error.h"
#include "weft/base/text.h"
#include "weft/base/utf8.h"
#include "weft/checkpoint/manifest_impl.h"
#include "weft/checkpoint/safetensors_header.h"
#include "weft/checkpoint/strict_json_impl.h"

namespace weft::checkpoint {
namespace {

using nlohmann::json;

constexpr size_t kMaxNamesInMessage = 4;

// Two tensors named in a message are a help, two thousand are not.
std::string listed(const std::vector<std::string>& names) {
  const size_t shown = std::min(names.size(), kMaxNamesInMessage);
  std::string out = join(std::span(names).first(shown), ", ");
  return names.size() > shown ? cat(out, " and ", names.size() - shown, " more") : out;
}

json json_of(const StoredTensors& tensors) {
  json out = json::object();
  for (const auto& [name, tensor] : tensors) out[name] = {{"dtype", tensor.dtype}, {"shape", tensor.shape}};
  return out;
}

json json_of(const StoredFile& file) {
  std::string blocks;
  for (const Hash128 hash : file.blocks) blocks += to_hex(hash);
  json slices = json::array();
  for (const auto& slice : file.slices)
    slices.push_back(json::array({slice.tensor, slice.begin, slice.end, slice.offset}));
  json out{{"bytes", file.bytes}, {"block_bytes", file.block_bytes}, {"blocks", blocks}, {"slices", slices}};
  if (!file.host.empty()) out["host"] = file.host;
  return out;
}

std::string hex_of(std::string_view bytes) {
  static constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    out += kDigits[byte >> 4U];
    out += kDigits[byte & 15U];
  }
  return out;
}

json json_of_section(const std::string& bytes) {
  if (is_text(bytes)) return bytes;
  return json::object({{"hex", hex_of(bytes)}});
}

std::string key_of(const StoredSlice& slice, const StoredTensor& tensor) {
  const bool is_whole = slice.begin == 0 && slice.end == numel_of(tensor);
  return is_whole ? slice.tensor : cat(slice.tensor, "[", slice.begin, ":", slice.end, "]");
}

void add_tensors(Manifest& manifest, const Part& part, const std::string& where) {
  for (const auto& [name, tensor] : part.tensors) {
    const auto [at, is_new] = manifest.tensors.emplace(name, tensor);
    if (!is_new && at->second != tensor)
      refuse_manifest(cat("tensor '", name, "' has another shape or dtype in ", part.file.name, " than before"), where);
  }
}

}  // namespace

void refuse_manifest(std::string what, const std::string& where) {
  throw Error(ErrorKind::kInput, {.title = "not a valid checkpoint manifest",
                                  .what = std::move(what),
                                  .where = where,
                                  .fix = "the step is damaged or was not written by weft; use another step"});
}

bool is_text(std::string_view bytes) {
  while (!bytes.empty()) {
    if (!take_code_point(bytes).valid) return false;
  }
  return true;
}

bool is_plain_name(std::string_view name) {
  if (name.empty() || name.size() > kMaxNameBytes) return false;
  while (!name.empty()) {
    const CodePoint point = take_code_point(name);
    if (!point.valid || is_control(point.value)) return false;
  }
  return true;
}

uint64_t StoredFile::size_of_block(uint64_t block) const { return std::min(block_bytes, bytes - block * block_bytes); }

std::string StoredFile::tensors_in_block(uint64_t block) const {
  const uint64_t begin = block * block_bytes, end = begin + size_of_block(block);
  std::vector<std::string> names;
  for (size_t i = 0; i < slices.size(); ++i) {
    // Slices lie one after the other, so each ends where the next begins.
    const uint64_t slice_end = i + 1 < slices.size() ? slices[i + 1].offset : bytes;
    if (slices[i].offset < end && slice_end > begin) names.push_back(cat("'", slices[i].tensor, "'"));
  }
  names.erase(std::ranges::unique(names).begin(), names.end());
  return names.empty() ? "the header" : listed(names);
}

const StoredFile* Manifest::find_file(std::string_view name) const {
  const auto found = std::ranges::find(files, name, &StoredFile::name);
  return found == files.end() ? nullptr : &*found;
}

uint64_t numel_of(const StoredTensor& tensor) {
  uint64_t numel = 1;
  for (const int64_t extent : tensor.shape) numel *= static_cast<uint64_t>(extent);
  return numel;
}

uint64_t width_of(const StoredTensor& tensor) { return dtype_bytes(tensor.dtype).value(); }

SafetensorsHeader header_of(const StoredFile& file, const StoredTensors& tensors) {
  SafetensorsHeader header;
  const uint64_t first = file.slices.empty() ? 0 : file.slices.front().offset;
  for (const auto& slice : file.slices) {
    const StoredTensor& tensor = tensors.at(slice.tensor);
    const uint64_t numel = slice.end - slice.begin, begin = slice.offset - first;
    TensorEntry entry{.name = key_of(slice, tensor), .dtype = tensor.dtype, .shape = tensor.shape, .begin = begin};
    if (entry.name != slice.tensor) entry.shape = {static_cast<int64_t>(numel)};
    entry.end = begin + numel * width_of(tensor);
    header.tensors.push_back(std::move(entry));
  }
  return header;
}

Manifest merge_parts(Manifest head, std::span<const Part> parts, const std::string& where) {
  for (const Part& part : parts) {
    add_tensors(head, part, where);
    head.files.push_back(part.file);
  }
  std::ranges::sort(head.files, {}, &StoredFile::name);
  std::erase_if(head.metrics, [](const auto& metric) { return !std::isfinite(metric.second); });
  check_manifest(head, where);
  return head;
}

std::string seal_manifest(std::string_view json_object) {
  const std::string_view sealed = json_object.substr(std::min<size_t>(1, json_object.size()));
  return cat(kSealBegin, to_hex(hash128(std::as_bytes(std::span(sealed)))), kSealEnd, sealed);
}

std::string render_manifest(const Manifest& manifest) {
  json files = json::object(), sections = json::object();
  for (const auto& file : manifest.files) files[file.name] = json_of(file);
  for (const auto& [name, bytes] : manifest.sections) sections[name] = json_of_section(bytes);
  const json root = {{"version", kManifestVersion}, {"step", manifest.step},
                     {"world", manifest.world},     {"plan", manifest.plan},
                     {"files", std::move(files)},   {"tensors", json_of(manifest.tensors)},
                     {"metrics", manifest.metrics}, {"sections", std::move(sections)}};
  return seal_manifest(root.dump());
}

std::string render_part(const Part& part) {
  const json root = {{"name", part.file.name}, {"file", json_of(part.file)}, {"tensors", json_of(part.tensors)}};
  return root.dump();
}

}  // namespace weft::checkpoint
