#include "weft/checkpoint/model_files.h"

#include <algorithm>

#include "weft/base/error.h"
#include "weft/base/text.h"
#include "weft/checkpoint/strict_json_impl.h"

namespace weft::checkpoint {
namespace {

using nlohmann::json;

constexpr std::string_view kPrefix = "model-", kBetween = "-of-", kSuffix = ".safetensors";
constexpr size_t kDigits = 5;

[[noreturn]] void refuse_index(std::string what, const std::string& path) {
  throw Error(ErrorKind::kInput, {.title = "not a valid index of weight files",
                                  .what = std::move(what),
                                  .where = path,
                                  .fix = "the file is damaged or was not written as an index; use another copy"});
}

// On-disk: five digits or more, as everybody else has it.
std::string digits(size_t number) {
  std::string out = std::to_string(number);
  out.insert(0, out.size() < kDigits ? kDigits - out.size() : 0, '0');
  return out;
}

bool takes(std::string_view& text, std::string_view piece) {
  if (!text.starts_with(piece)) return false;
  text.remove_prefix(piece.size());
  return true;
}

bool takes_digits(std::string_view& text) {
  const size_t end = std::min(text.find_first_not_of("0123456789"), text.size());
  text.remove_prefix(end);
  return end >= kDigits;
}

// A name in the index's own folder.
bool is_name_beside_index(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos &&
         name.find('\0') == std::string::npos;
}

}  // namespace

std::vector<std::vector<size_t>> split_into_files(const std::vector<uint64_t>& tensor_bytes, uint64_t max_bytes) {
  std::vector<std::vector<size_t>> out(1);
  uint64_t bytes = 0;
  for (size_t i = 0; i < tensor_bytes.size(); ++i) {
    if (!out.back().empty() && (tensor_bytes[i] > max_bytes || bytes > max_bytes - tensor_bytes[i])) {
      out.emplace_back();
      bytes = 0;
    }
    out.back().push_back(i);
    bytes += tensor_bytes[i];
  }
  return out;
}

std::string model_file_name(size_t number, size_t count) {
  if (count == 1) return std::string(kModelFile);
  return cat(kPrefix, digits(number + 1), kBetween, digits(count), kSuffix);
}

bool is_model_file(std::string_view name) {
  if (name == kModelFile) return true;
  return takes(name, kPrefix) && takes_digits(name) && takes(name, kBetween) && takes_digits(name) && name == kSuffix;
}

std::string render_index(const std::map<std::string, std::string>& file_of, uint64_t total_bytes) {
  return json{{"metadata", {{"total_size", total_bytes}}}, {"weight_map", file_of}}.dump(2) + "\n";
}

std::map<std::string, std::string> parse_index(std::string_view text, const std::string& path) {
  json root;
  try {
    root = parse_strict_json(text, {.depth = 8});  // metadata is anybody's
  } catch (const JsonFault& fault) {
    refuse_index(fault.what(), path);
  }
  if (!root.is_object() || !root.contains("weight_map") || !root["weight_map"].is_object())
    refuse_index("it has no \"weight_map\"", path);
  std::map<std::string, std::string> out;
  for (const auto& [name, file] : root["weight_map"].items()) {
    if (!file.is_string() || !is_name_beside_index(file.get<std::string>()))
      refuse_index(cat("tensor '", name, "' is not in a file beside the index"), path);
    out.emplace(name, file.get<std::string>());
  }
  return out;
}

}  // namespace weft::checkpoint
