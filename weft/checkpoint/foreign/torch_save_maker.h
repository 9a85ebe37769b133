// Files as torch.save writes them, byte by byte, and ones that it would never write: for the tests of this room and of those that read
// such files.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weft/base/env.h"
#include "weft/base/text.h"

namespace weft::checkpoint::foreign::test {

template <typename T>
std::string little(T value) {
  std::string out(sizeof(T), '\0');
  std::memcpy(out.data(), &value, sizeof value);
  return out;
}

struct ZipPart {
  std::string name, bytes;
  uint16_t method = 0, flags = 0x808;
  int64_t header_shift = 0;  // a lie in the directory
};

struct ZipLies {
  bool with_64 = true;
  std::string comment = {};
  int more_entries = 0;
  uint16_t disk = 0;
};

inline std::string zip_of(const std::vector<ZipPart>& parts, const ZipLies& lies = {}) {
  std::string out, directory;
  for (const ZipPart& part : parts) {
    const auto header = static_cast<uint32_t>(static_cast<int64_t>(out.size()) + part.header_shift);
    const auto size = static_cast<uint32_t>(part.bytes.size());
    const auto name_size = static_cast<uint16_t>(part.name.size());
    const std::string extra = cat("FB", little<uint16_t>(2), "ZZ");  // torch aligns entries with such a field
    out += cat("PK\x03\x04", little<uint16_t>(0), little(part.flags), little(part.method), std::string(16, '\0'),
               little(name_size), little(static_cast<uint16_t>(extra.size())), part.name, extra, part.bytes);
    directory += cat("PK\x01\x02", little<uint16_t>(0), little<uint16_t>(0), little(part.flags), little(part.method),
                     std::string(8, '\0'), little(size), little(size), little(name_size), std::string(12, '\0'),
                     little(header), part.name);
  }
  const uint64_t at = out.size(), count = parts.size() + static_cast<uint64_t>(lies.more_entries);
  out += directory;
  const uint64_t end_64 = out.size();
  if (lies.with_64) {
    out += cat("PK\x06\x06", little<uint64_t>(44), std::string(12, '\0'), little(count), little(count),
               little<uint64_t>(directory.size()), little(at));
    out += cat("PK\x06\x07", little<uint32_t>(0), little(end_64), little<uint32_t>(1));
  }
  return out + cat("PK\x05\x06", little(lies.disk), little<uint16_t>(0), little(static_cast<uint16_t>(count)),
                   little(static_cast<uint16_t>(count)), little(static_cast<uint32_t>(directory.size())),
                   little(static_cast<uint32_t>(at)), little(static_cast<uint16_t>(lies.comment.size())), lies.comment);
}

// --- Pickles: pieces to put one after the other ----------------------------------------------------------------------

inline std::string pickled(std::string_view body) { return cat("\x80\x02", body, "."); }
inline std::string text(std::string_view words) { return cat("X", little(static_cast<uint32_t>(words.size())), words); }
inline std::string integer(int64_t value) { return cat("\x8a\x08", little(value)); }
inline std::string global(std::string_view module, std::string_view name) { return cat("c", module, "\n", name, "\n"); }
inline std::string sizes(const std::vector<int64_t>& values) {
  std::string out = "(";
  for (const int64_t value : values) out += integer(value);
  return out + "t";
}
using Entries = std::vector<std::pair<std::string, std::string>>;
inline std::string dict(const Entries& entries) {
  std::string out = "}(";
  for (const auto& [key, value] : entries) out += text(key) + value;
  return out + "u";
}
inline std::string list(const std::vector<std::string>& items) {
  std::string out = "](";
  for (const std::string& item : items) out += item;
  return out + "e";
}

struct TensorWords {
  std::string storage = "FloatStorage", key = "0";
  int64_t count = 0;  // elements of the storage
  int64_t first = 0;
  std::vector<int64_t> shape = {}, strides = {};
};

inline std::string tensor(const TensorWords& t) {
  return cat(global("torch._utils", "_rebuild_tensor_v2"), "((", text("storage"), global("torch", t.storage),
             text(t.key), text("cpu"), integer(t.count), "tQ", integer(t.first), sizes(t.shape), sizes(t.strides),
             "\x89", global("collections", "OrderedDict"), ")RtR");
}

// The whole file: data.pkl, and storages by key.
inline std::string torch_file(const std::string& pickle, const Entries& storages) {
  std::vector<ZipPart> parts = {{.name = "archive/data.pkl", .bytes = pickle},
                                {.name = "archive/byteorder", .bytes = "little"}};
  for (const auto& [key, bytes] : storages) parts.push_back({.name = cat("archive/data/", key), .bytes = bytes});
  parts.push_back({.name = "archive/version", .bytes = "3\n"});
  return zip_of(parts);
}

inline std::string floats(const std::vector<float>& values) {
  std::string out(values.size() * sizeof(float), '\0');
  std::memcpy(out.data(), values.data(), out.size());
  return out;
}

inline void put_file(Env& env, const std::string& path, const std::string& bytes) {
  write_file(env, path, bytes_of(bytes));
}

}  // namespace weft::checkpoint::foreign::test
