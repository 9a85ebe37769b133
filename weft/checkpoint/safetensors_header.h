// The header of a safetensors file: 8 bytes of length (little endian), that many bytes of JSON, then the tensors' bytes.
// Torch-free, so that the parser of hostile files runs under the sanitizers and the fuzzer.
//
// The parser refuses whatever the format forbids: a header over 100 MB or past the end of the file, duplicate or unknown keys,
// holes or overlaps between tensors, sizes that do not match dtype and shape, arithmetic that overflows.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/base/env.h"

namespace weft::checkpoint {

struct TensorEntry {
  std::string name;
  std::string dtype;  // as the format spells it: F32, BF16, I64, ...
  std::vector<int64_t> shape;
  uint64_t begin = 0;  // bytes from the start of the data section
  uint64_t end = 0;
};

struct SafetensorsHeader {
  std::vector<TensorEntry> tensors;             // in the order of their bytes
  std::map<std::string, std::string> metadata;  // the "__metadata__" object
  uint64_t data_begin = 0;                      // bytes from the start of the file
  uint64_t data_bytes = 0;
};

inline constexpr uint64_t kMaxHeaderBytes = 100'000'000;

// Bytes of one element, or nothing for a dtype this build does not know.
std::optional<uint64_t> dtype_bytes(std::string_view dtype);

// The first 8 bytes and the size of the file give the length of the JSON text. Throws Error(kInput) naming `path`.
uint64_t parse_header_length(std::string_view first_8_bytes, uint64_t file_bytes, const std::string& path);
SafetensorsHeader parse_header(std::string_view json_text, uint64_t file_bytes, const std::string& path);
// Both, of an open file.
SafetensorsHeader read_header(File& file);

// The bytes that stand before the data section, padded with spaces so that the data starts at a multiple of 64 bytes.
std::string render_header(const SafetensorsHeader& header);

}  // namespace weft::checkpoint
