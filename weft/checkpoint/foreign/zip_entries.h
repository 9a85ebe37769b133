// Where the entries of a zip file lie: the container that torch.save writes, in which every entry is stored as it is. A file
// of any size is found by its last bytes and its directory; no entry is read.
//
//   for (const ZipEntry& entry : read_zip(*file)) file->read_at(entry.offset, ...);
//
// The directory is hostile input. Refused: what is compressed or encrypted, several disks, a comment or anything else behind the
// directory, a name twice, names that lead elsewhere, entries that overlap each other or the directory, sizes past the end. Checksums
// are not compared: that would take reading all of it, and torch can be told to leave them out.
//
// Threads: pure functions over a File. Failure: Error(kInput) that names the file and the byte; IoError.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/base/env.h"

namespace weft::checkpoint::foreign {

struct ZipEntry {
  std::string name = {};
  uint64_t offset = 0;  // of its bytes, from the start of the file
  uint64_t bytes = 0;
  bool operator==(const ZipEntry&) const = default;
};

inline constexpr uint64_t kMaxZipEntries = 1'000'000;
inline constexpr uint64_t kMaxZipDirectoryBytes = 256 << 20;

// In the order of the directory.
std::vector<ZipEntry> read_zip(File& file);

}  // namespace weft::checkpoint::foreign
