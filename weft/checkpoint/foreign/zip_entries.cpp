#include "weft/checkpoint/foreign/zip_entries.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "weft/base/text.h"
#include "weft/checkpoint/foreign/refuse_impl.h"

namespace weft::checkpoint::foreign {
namespace {

// The records of the format, by their first four bytes, and how long they are without names and extra fields.
constexpr uint32_t kLocalMark = 0x04034b50, kEntryMark = 0x02014b50, kEndMark = 0x06054b50, kEnd64Mark = 0x06064b50,
                   kLocator64Mark = 0x07064b50;
constexpr uint64_t kLocalBytes = 30, kEntryBytes = 46, kEndBytes = 22, kEnd64Bytes = 56, kLocator64Bytes = 20;
constexpr uint32_t kIn64 = UINT32_MAX;  // "see the 64-bit field"
constexpr uint16_t kIn64Short = UINT16_MAX, kExtra64 = 1;
constexpr uint16_t kEncrypted = 1;
constexpr uint64_t kMaxEntryNameBytes = 1000;

template <typename T>
T number_at(std::string_view bytes, uint64_t at) {
  T out = 0;
  for (size_t i = 0; i < sizeof(T); ++i)
    out = static_cast<T>(out |
                         static_cast<T>(static_cast<uint64_t>(static_cast<unsigned char>(bytes[at + i])) << (8 * i)));
  return out;
}

struct Directory {
  uint64_t offset = 0, bytes = 0, num_entries = 0;
  uint64_t end = 0;  // where the records begin that close the file
};

// An entry as the directory has it: where its own header is.
struct Listed {
  std::string name = {};
  uint64_t header = 0, bytes = 0;
};

class ZipReader {
 public:
  explicit ZipReader(File& file) : file_(file), file_bytes_(file.size()) {}

  std::vector<ZipEntry> entries() {
    const Directory directory = find_directory();
    std::vector<ZipEntry> out;
    std::set<std::string_view> names;
    const std::vector<Listed> listed = read_directory(directory);
    for (const Listed& one : listed) {
      if (!names.insert(one.name).second) refuse_at(cat("'", one.name, "' stands twice in it"), directory.offset);
      out.push_back(placed(one, directory.offset));
    }
    check_apart(listed, out);
    return out;
  }

 private:
  [[noreturn]] void refuse_at(const std::string& what, uint64_t at) const {
    refuse(cat("as a zip file: ", what), cat(file_.path(), ", byte ", at));
  }

  std::string bytes_at(uint64_t at, uint64_t count) {
    if (at > file_bytes_ || count > file_bytes_ - at)
      refuse_at(cat("it ends before byte ", at, " + ", count), file_bytes_);
    std::string out(count, '\0');
    if (file_.read_at(at, std::as_writable_bytes(std::span(out))) != count) refuse_at("it has become shorter", at);
    return out;
  }

  Directory find_directory() {
    if (file_bytes_ < kEndBytes) refuse_at(cat("it has ", file_bytes_, " bytes only"), 0);
    const uint64_t at = file_bytes_ - kEndBytes;
    const std::string end = bytes_at(at, kEndBytes);
    if (number_at<uint32_t>(end, 0) != kEndMark || number_at<uint16_t>(end, 20) != 0)
      refuse_at("it does not end as one", at);
    if (number_at<uint16_t>(end, 4) != 0 || number_at<uint16_t>(end, 6) != 0) refuse_at("it spans several disks", at);
    Directory out{.offset = number_at<uint32_t>(end, 16),
                  .bytes = number_at<uint32_t>(end, 12),
                  .num_entries = number_at<uint16_t>(end, 10),
                  .end = at};
    // torch always writes the 64-bit records too; where they are, they count.
    if (at >= kLocator64Bytes && number_at<uint32_t>(bytes_at(at - kLocator64Bytes, 4), 0) == kLocator64Mark)
      out = find_directory_64(at - kLocator64Bytes);
    else if (out.offset == kIn64 || out.bytes == kIn64 || out.num_entries == kIn64Short)
      refuse_at("its 64-bit record is missing", at);
    if (out.offset > out.end || out.bytes != out.end - out.offset)
      refuse_at(cat("its directory claims bytes ", out.offset, " + ", out.bytes, ", and ends at ", out.end), at);
    if (out.num_entries > kMaxZipEntries || out.bytes > kMaxZipDirectoryBytes)
      refuse_at(cat("its directory claims ", out.num_entries, " entries in ", out.bytes, " bytes, which is too much"),
                at);
    return out;
  }

  Directory find_directory_64(uint64_t locator_at) {
    const auto at = number_at<uint64_t>(bytes_at(locator_at, kLocator64Bytes), 8);
    if (at > locator_at || locator_at - at != kEnd64Bytes) refuse_at("its 64-bit record is elsewhere", locator_at);
    const std::string end = bytes_at(at, kEnd64Bytes);
    if (number_at<uint32_t>(end, 0) != kEnd64Mark) refuse_at("its 64-bit record is damaged", at);
    return {.offset = number_at<uint64_t>(end, 48),
            .bytes = number_at<uint64_t>(end, 40),
            .num_entries = number_at<uint64_t>(end, 32),
            .end = at};
  }

  std::vector<Listed> read_directory(const Directory& directory) {
    const std::string bytes = bytes_at(directory.offset, directory.bytes);
    std::vector<Listed> out;
    uint64_t at = 0;
    for (uint64_t i = 0; i < directory.num_entries; ++i) {
      if (bytes.size() - at < kEntryBytes || number_at<uint32_t>(bytes, at) != kEntryMark)
        refuse_at(cat("entry ", i, " of its directory is damaged"), directory.offset + at);
      const std::string_view fixed = std::string_view(bytes).substr(at, kEntryBytes);
      const uint64_t name_bytes = number_at<uint16_t>(fixed, 28), extra_bytes = number_at<uint16_t>(fixed, 30);
      const uint64_t whole = kEntryBytes + name_bytes + extra_bytes + number_at<uint16_t>(fixed, 32);
      if (bytes.size() - at < whole)
        refuse_at(cat("entry ", i, " of its directory passes the end"), directory.offset + at);
      const std::string_view name = std::string_view(bytes).substr(at + kEntryBytes, name_bytes);
      const std::string_view extra = std::string_view(bytes).substr(at + kEntryBytes + name_bytes, extra_bytes);
      out.push_back(listed(fixed, name, extra, directory.offset + at));
      at += whole;
    }
    if (at != bytes.size()) refuse_at("its directory has more than its entries", directory.offset + at);
    return out;
  }

  Listed listed(std::string_view fixed, std::string_view name, std::string_view extra, uint64_t at) const {
    check_name(name, at);
    if ((number_at<uint16_t>(fixed, 8) & kEncrypted) != 0) refuse_at(cat("'", name, "' is encrypted"), at);
    Listed out{
        .name = std::string(name), .header = number_at<uint32_t>(fixed, 42), .bytes = number_at<uint32_t>(fixed, 24)};
    uint64_t stored = number_at<uint32_t>(fixed, 20);
    std::string_view wide = extra_64(extra, name, at);
    const auto widen = [&](uint64_t& value) {
      if (value != kIn64) return;
      if (wide.size() < 8) refuse_at(cat("the 64-bit sizes of '", name, "' are missing"), at);
      value = number_at<uint64_t>(wide, 0);
      wide.remove_prefix(8);
    };
    widen(out.bytes);
    widen(stored);
    widen(out.header);
    if (number_at<uint16_t>(fixed, 10) != 0 || stored != out.bytes)
      refuse_at(cat("'", name, "' is compressed, which torch.save never does"), at);
    return out;
  }

  std::string_view extra_64(std::string_view extra, std::string_view name, uint64_t at) const {
    while (extra.size() >= 4) {
      const auto bytes = number_at<uint16_t>(extra, 2);
      if (bytes > extra.size() - 4) refuse_at(cat("an extra field of '", name, "' passes its end"), at);
      if (number_at<uint16_t>(extra, 0) == kExtra64) return extra.substr(4, bytes);
      extra.remove_prefix(4 + bytes);
    }
    return {};
  }

  // Nothing is ever unpacked; a name that leads out of its folder is a sign of somebody who hopes for it.
  void check_name(std::string_view name, uint64_t at) const {
    const bool plain = !name.empty() && name.size() <= kMaxEntryNameBytes && name.front() != '/' &&
                       std::ranges::none_of(name, [](unsigned char c) { return c < 0x20 || c == 0x7f || c == '\\'; });
    if (!plain) refuse_at("an entry has a name that no file of torch.save has", at);
    for (size_t begin = 0; begin <= name.size();) {
      const size_t end = std::min(name.find('/', begin), name.size());
      if (name.substr(begin, end - begin) == "..") refuse_at(cat("'", name, "' leads out of its folder"), at);
      begin = end + 1;
    }
  }

  ZipEntry placed(const Listed& one, uint64_t directory_at) {
    if (one.header > directory_at || directory_at - one.header < kLocalBytes)
      refuse_at(cat("'", one.name, "' begins behind the entries"), one.header);
    const std::string local = bytes_at(one.header, kLocalBytes);
    const uint64_t name_bytes = number_at<uint16_t>(local, 26), extra_bytes = number_at<uint16_t>(local, 28);
    if (number_at<uint32_t>(local, 0) != kLocalMark || number_at<uint16_t>(local, 8) != 0 ||
        name_bytes != one.name.size() || bytes_at(one.header + kLocalBytes, name_bytes) != one.name)
      refuse_at(cat("'", one.name, "' is not where the directory says"), one.header);
    const uint64_t offset = one.header + kLocalBytes + name_bytes + extra_bytes;
    if (offset > directory_at || one.bytes > directory_at - offset)
      refuse_at(cat("'", one.name, "' with its ", one.bytes, " bytes passes the end of the entries"), one.header);
    return {.name = one.name, .offset = offset, .bytes = one.bytes};
  }

  // Two entries that share bytes make a small file into a large one, and one tensor into another.
  void check_apart(const std::vector<Listed>& listed, const std::vector<ZipEntry>& entries) const {
    std::vector<size_t> order(listed.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::ranges::sort(order, {}, [&](size_t i) { return listed[i].header; });
    uint64_t end = 0;
    for (const size_t i : order) {
      if (listed[i].header < end)
        refuse_at(cat("'", listed[i].name, "' overlaps the entry before it"), listed[i].header);
      end = entries[i].offset + entries[i].bytes;
    }
  }

  File& file_;
  const uint64_t file_bytes_;
};

}  // namespace

std::vector<ZipEntry> read_zip(File& file) { return ZipReader(file).entries(); }

}  // namespace weft::checkpoint::foreign
