#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "weft/base/text.h"
#include "weft/checkpoint/manifest.h"
#include "weft/checkpoint/manifest_impl.h"
#include "weft/checkpoint/strict_json_impl.h"

namespace weft::checkpoint {
namespace {

using nlohmann::json;

constexpr size_t kHexDigits = 32;  // of one hash

// One object of the text: knows what it is called and where it stands, and that it has exactly the keys it should.
class Fields {
 public:
  Fields(const json& value, std::string called, std::span<const std::string_view> keys, const std::string& where)
      : value_(value), called_(std::move(called)), where_(where) {
    if (!value.is_object()) refuse("is not an object");
    for (const auto key : keys) {
      if (!value.contains(std::string(key))) refuse(cat("lacks '", key, "'"));
    }
    if (value.size() != keys.size()) refuse("has keys that the format does not know");
  }

  const json& operator[](std::string_view key) const { return value_.at(std::string(key)); }

  uint64_t size(std::string_view key) const { return size(value_.at(std::string(key)), key); }
  uint64_t size(const json& value, std::string_view key) const {
    constexpr auto kMost = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
    if (!value.is_number_unsigned() || value.get<uint64_t>() > kMost)
      refuse(cat("has a '", key, "' that is not a whole number from 0 to 2^63-1"));
    return value.get<uint64_t>();
  }
  std::string text(std::string_view key) const {
    if (!(*this)[key].is_string()) refuse(cat("has a '", key, "' that is not a string"));
    return (*this)[key].get<std::string>();
  }
  const json& list(std::string_view key) const {
    if (!(*this)[key].is_array()) refuse(cat("has a '", key, "' that is not a list"));
    return (*this)[key];
  }
  const json& object(std::string_view key) const {
    if (!(*this)[key].is_object()) refuse(cat("has a '", key, "' that is not an object"));
    return (*this)[key];
  }
  [[noreturn]] void refuse(std::string_view what) const { refuse_manifest(cat(called_, " ", what), where_); }

 private:
  const json& value_;
  std::string called_;
  const std::string& where_;
};

json parse_manifest_json(std::string_view text, const std::string& where) {
  if (text.size() > kMaxManifestBytes)
    refuse_manifest(cat("it has ", text.size(), " bytes, the limit is ", kMaxManifestBytes), where);
  try {
    return parse_strict_json(text, {.depth = 6});  // root > files > file > slices > slice
  } catch (const JsonFault& fault) {
    refuse_manifest(fault.what(), where);
  }
}

// Before any parsing: damage is told from malice by the hash, and most of what goes wrong is damage.
void check_seal(std::string_view text, const std::string& where) {
  const size_t sealed_at = kSealBegin.size() + kHexDigits + kSealEnd.size();
  if (text.size() < sealed_at || !text.starts_with(kSealBegin) || !text.substr(0, sealed_at).ends_with(kSealEnd))
    refuse_manifest("it does not begin with its own hash", where);
  const std::string found = to_hex(hash128(std::as_bytes(std::span(text.substr(sealed_at)))));
  const auto claimed = text.substr(kSealBegin.size(), kHexDigits);
  if (claimed != found) refuse_manifest(cat("its hash is ", found, ", it says ", claimed), where);
}

StoredTensors parse_tensors(const json& value, const std::string& where) {
  static constexpr std::array<std::string_view, 2> kKeys = {"dtype", "shape"};
  StoredTensors tensors;
  for (const auto& [name, entry] : value.items()) {
    if (!is_plain_name(name)) refuse_manifest("a tensor's name is empty, too long or not plain text", where);
    const Fields fields(entry, cat("tensor '", name, "'"), kKeys, where);
    StoredTensor tensor{.dtype = fields.text("dtype"), .shape = {}};
    for (const auto& extent : fields.list("shape"))
      tensor.shape.push_back(static_cast<int64_t>(fields.size(extent, "shape")));
    tensors.emplace(name, std::move(tensor));
  }
  return tensors;
}

std::vector<Hash128> parse_blocks(const Fields& fields) {
  const std::string hex = fields.text("blocks");
  if (hex.size() % kHexDigits != 0) fields.refuse(cat("has 'blocks' of ", hex.size(), " hex digits, not 32 for each"));
  std::vector<Hash128> blocks;
  for (size_t at = 0; at < hex.size(); at += kHexDigits) {
    auto hash = hash_from_hex(std::string_view(hex).substr(at, kHexDigits));
    if (!hash) fields.refuse(cat("has a malformed hash for block ", at / kHexDigits));
    blocks.push_back(hash.value());
  }
  return blocks;
}

StoredSlice parse_slice(const json& value, const Fields& file) {
  if (!value.is_array() || value.size() != 4 || !value[0].is_string())
    file.refuse("has a slice that is not [tensor, begin, end, offset]");
  return {.tensor = value[0].get<std::string>(),
          .begin = file.size(value[1], "begin"),
          .end = file.size(value[2], "end"),
          .offset = file.size(value[3], "offset")};
}

StoredFile parse_file(const std::string& name, const json& value, const std::string& where) {
  static constexpr std::array<std::string_view, 5> kKeys = {"bytes", "block_bytes", "blocks", "slices", "host"};
  if (!is_plain_name(name)) refuse_manifest("a file's name is empty, too long or not plain text", where);
  const bool has_host = value.is_object() && value.contains("host");
  const Fields fields(value, cat("file '", name, "'"), std::span(kKeys).first(has_host ? 5 : 4), where);
  StoredFile file{.name = name,
                  .bytes = fields.size("bytes"),
                  .block_bytes = fields.size("block_bytes"),
                  .blocks = parse_blocks(fields),
                  .slices = {},
                  .host = has_host ? fields.text("host") : ""};
  if (has_host && !is_plain_name(file.host)) fields.refuse("has a 'host' that is empty, too long or not plain text");
  for (const auto& slice : fields.list("slices")) file.slices.push_back(parse_slice(slice, fields));
  return file;
}

int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

std::string parse_section(const std::string& name, const json& value, const std::string& where) {
  static constexpr std::array<std::string_view, 1> kKeys = {"hex"};
  if (!is_plain_name(name)) refuse_manifest("a section's name is empty, too long or not plain text", where);
  if (value.is_string()) return value.get<std::string>();
  const Fields fields(value, cat("section '", name, "'"), kKeys, where);
  const std::string hex = fields.text("hex");
  std::string bytes;
  for (size_t at = 0; at + 1 < hex.size(); at += 2) {
    const int high = digit_of(hex[at]), low = digit_of(hex[at + 1]);
    if (high < 0 || low < 0) fields.refuse("is not hex digits");
    bytes += static_cast<char>(high * 16 + low);
  }
  if (hex.size() % 2 != 0) fields.refuse("has half a byte too much");
  return bytes;
}

double parse_metric(const std::string& name, const json& value, const std::string& where) {
  const bool is_good = is_plain_name(name) && value.is_number() && std::isfinite(value.get<double>());
  if (!is_good) refuse_manifest("a metric is not a name and a finite number", where);
  return value.get<double>();
}

}  // namespace

Manifest parse_manifest(std::string_view text, const std::string& where) {
  static constexpr std::array<std::string_view, 9> kKeys = {"xxh3_128", "version", "step",    "world",   "plan",
                                                            "files",    "tensors", "metrics", "sections"};
  check_seal(text, where);
  const json value = parse_manifest_json(text, where);
  if (!value.is_object() || value.value("version", json()) != json(kManifestVersion))
    refuse_manifest(cat("it is not of version ", kManifestVersion, ", the only one this build reads"), where);
  const Fields root(value, "the manifest", kKeys, where);
  Manifest manifest;
  manifest.step = static_cast<int64_t>(root.size("step"));
  const uint64_t world = root.size("world");
  if (world < 1 || world > kMaxWorld) root.refuse(cat("has a 'world' of ", world, " ranks"));
  manifest.world = static_cast<int>(world);
  manifest.plan = root.text("plan");
  manifest.tensors = parse_tensors(root.object("tensors"), where);
  for (const auto& [name, file] : root.object("files").items()) manifest.files.push_back(parse_file(name, file, where));
  for (const auto& [name, section] : root.object("sections").items())
    manifest.sections[name] = parse_section(name, section, where);
  for (const auto& [name, metric] : root.object("metrics").items())
    manifest.metrics[name] = parse_metric(name, metric, where);
  check_manifest(manifest, where);
  return manifest;
}

Part parse_part(std::string_view text, const std::string& where) {
  static constexpr std::array<std::string_view, 3> kKeys = {"name", "file", "tensors"};
  const json value = parse_manifest_json(text, where);
  const Fields root(value, "the part", kKeys, where);
  return {.tensors = parse_tensors(root.object("tensors"), where),
          .file = parse_file(root.text("name"), root["file"], where)};
}

}  // namespace weft::checkpoint
