#include "weft/checkpoint/safetensors_header.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "weft/base/error.h"
#include "weft/base/text.h"
#include "weft/checkpoint/strict_json_impl.h"

namespace weft::checkpoint {
namespace {

using nlohmann::json;

[[noreturn]] void refuse_header(std::string what, const std::string& path) {
  throw Error(ErrorKind::kInput, {.title = "not a valid safetensors file",
                                  .what = std::move(what),
                                  .where = path,
                                  .fix = "the file is damaged or was not written as safetensors; use another copy"});
}

json parse_header_json(std::string_view text, const std::string& path) {
  try {
    return parse_strict_json(text, {.depth = 4});  // header > tensor > array is all the format has
  } catch (const JsonFault& fault) {
    refuse_header(cat("the header cannot be read: ", fault.what()), path);
  }
}

uint64_t shape_bytes(const TensorEntry& entry, const std::string& path) {
  const auto width = dtype_bytes(entry.dtype);
  if (!width) refuse_header(cat("tensor '", entry.name, "' has the unknown dtype '", entry.dtype, "'"), path);
  uint64_t bytes = *width;
  for (const int64_t extent : entry.shape) {
    if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(extent), &bytes)) {
      refuse_header(cat("the shape of tensor '", entry.name, "' overflows"), path);
    }
  }
  return bytes;
}

std::vector<int64_t> parse_shape(const json& value, const std::string& name, const std::string& path) {
  if (!value.is_array()) refuse_header(cat("tensor '", name, "' has no shape"), path);
  std::vector<int64_t> shape;
  for (const auto& extent : value) {
    if (!extent.is_number_unsigned() || extent.get<uint64_t>() > INT64_MAX)
      refuse_header(cat("the shape of tensor '", name, "' is not a list of sizes"), path);
    shape.push_back(extent.get<int64_t>());
  }
  return shape;
}

TensorEntry parse_entry(const std::string& name, const json& value, const std::string& path) {
  static constexpr std::string_view kKeys[] = {"data_offsets", "dtype", "shape"};
  if (!value.is_object() || value.size() != std::size(kKeys))
    refuse_header(cat("tensor '", name, "' is not {dtype, shape, data_offsets}"), path);
  for (const auto key : kKeys) {
    if (!value.contains(std::string(key))) refuse_header(cat("tensor '", name, "' lacks '", key, "'"), path);
  }
  const auto& offsets = value["data_offsets"];
  const bool pair =
      offsets.is_array() && offsets.size() == 2 && offsets[0].is_number_unsigned() && offsets[1].is_number_unsigned();
  if (!pair || !value["dtype"].is_string())
    refuse_header(cat("tensor '", name, "' has a malformed dtype or data_offsets"), path);
  TensorEntry entry{.name = name,
                    .dtype = value["dtype"].get<std::string>(),
                    .shape = parse_shape(value["shape"], name, path),
                    .begin = offsets[0].get<uint64_t>(),
                    .end = offsets[1].get<uint64_t>()};
  const uint64_t bytes = shape_bytes(entry, path);
  if (entry.end < entry.begin || entry.end - entry.begin != bytes) {
    refuse_header(cat("tensor '", name, "' spans bytes ", entry.begin, "..", entry.end, ", its shape takes ", bytes),
                  path);
  }
  return entry;
}

void parse_metadata(const json& value, SafetensorsHeader& header, const std::string& path) {
  if (!value.is_object()) refuse_header("__metadata__ is not an object", path);
  for (const auto& [key, text] : value.items()) {
    if (!text.is_string()) refuse_header(cat("the metadata '", key, "' is not a string"), path);
    header.metadata[key] = text.get<std::string>();
  }
}

void check_no_holes(const SafetensorsHeader& header, const std::string& path) {
  uint64_t at = 0;
  for (const auto& entry : header.tensors) {
    if (entry.begin != at)
      refuse_header(cat("tensor '", entry.name, "' starts at byte ", entry.begin, ", the one before ends at ", at),
                    path);
    at = entry.end;
  }
  if (at != header.data_bytes)
    refuse_header(cat("the tensors take ", at, " bytes, the file holds ", header.data_bytes), path);
}

}  // namespace

std::optional<uint64_t> dtype_bytes(std::string_view dtype) {
  static constexpr std::pair<std::string_view, uint64_t> kWidths[] = {{"F64", 8}, {"F32", 4}, {"F16", 2}, {"BF16", 2},
                                                                      {"I64", 8}, {"I32", 4}, {"I16", 2}, {"I8", 1},
                                                                      {"U8", 1},  {"BOOL", 1}};
  const auto* found = std::ranges::find(kWidths, dtype, &std::pair<std::string_view, uint64_t>::first);
  if (found == std::end(kWidths)) return std::nullopt;
  return found->second;
}

uint64_t parse_header_length(std::string_view first_8_bytes, uint64_t file_bytes, const std::string& path) {
  if (first_8_bytes.size() < 8)
    refuse_header(cat("the file has ", file_bytes, " bytes, a header takes at least 8"), path);
  uint64_t length = 0;
  std::memcpy(&length, first_8_bytes.data(), 8);
  if (length > kMaxHeaderBytes)
    refuse_header(cat("the header claims ", length, " bytes, the limit is ", kMaxHeaderBytes), path);
  if (length > file_bytes - 8)
    refuse_header(cat("the header claims ", length, " bytes, the file has ", file_bytes), path);
  return length;
}

SafetensorsHeader parse_header(std::string_view json_text, uint64_t file_bytes, const std::string& path) {
  const json root = parse_header_json(json_text, path);
  if (!root.is_object()) refuse_header("the header is not an object", path);
  SafetensorsHeader header;
  header.data_begin = 8 + json_text.size();
  header.data_bytes = file_bytes - header.data_begin;
  for (const auto& [name, value] : root.items()) {
    if (name == "__metadata__") {
      parse_metadata(value, header, path);
    } else {
      header.tensors.push_back(parse_entry(name, value, path));
    }
  }
  // Empty tensors share their offset with the next one: order by both ends.
  std::ranges::sort(header.tensors, {}, [](const TensorEntry& e) { return std::pair(e.begin, e.end); });
  check_no_holes(header, path);
  return header;
}

SafetensorsHeader read_header(File& file) {
  const uint64_t file_bytes = file.size();
  std::string head(8, '\0');
  head.resize(file.read_at(0, std::as_writable_bytes(std::span(head))));
  std::string text(parse_header_length(head, file_bytes, file.path()), '\0');
  file.read_at(8, std::as_writable_bytes(std::span(text)));
  return parse_header(text, file_bytes, file.path());
}

std::string render_header(const SafetensorsHeader& header) {
  json root = json::object();
  if (!header.metadata.empty()) root["__metadata__"] = header.metadata;
  for (const auto& entry : header.tensors) {
    root[entry.name] = {{"dtype", entry.dtype}, {"shape", entry.shape}, {"data_offsets", {entry.begin, entry.end}}};
  }
  std::string text = root.dump();
  text.append((64 - (8 + text.size()) % 64) % 64, ' ');
  const uint64_t length = text.size();
  std::string out(8, '\0');
  std::memcpy(out.data(), &length, 8);
  return out + text;
}

}  // namespace weft::checkpoint
