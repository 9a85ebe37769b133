// What a saved step consists of: its tensors, which file holds which elements of each, the hash of every block of every file,
// and whatever else the run must remember. manifest.json is this, sealed with a hash of its own; docs/formats/checkpoint.md
// is the page about it. Plain values, comparable, torch-free.
//
//   const Manifest manifest = parse_manifest(text, path);   // every claim in it has been checked against the others
//
// Threads: pure functions. Failure: Error(kInput) that names the manifest and the file, tensor or block at fault.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weft/base/hash.h"
#include "weft/checkpoint/safetensors_header.h"

namespace weft::checkpoint {

// Small blocks mean that a read of a few elements verifies little else, large ones that the manifest stays short: at
// 1 MiB a tebibyte takes 32 MiB of hashes.
inline constexpr uint64_t kBlockBytes = 1 << 20;
inline constexpr uint64_t kMinBlockBytes = 512;
inline constexpr uint64_t kMaxBlockBytes = 64 << 20;  // a reader holds one in memory
inline constexpr uint64_t kMaxManifestBytes = 128 << 20;
inline constexpr uint64_t kMaxNameBytes = 1000;
inline constexpr int kMaxWorld = 1'000'000;

struct StoredTensor {
  std::string dtype = {};  // as safetensors spells it: F32, BF16, I64, ...
  std::vector<int64_t> shape = {};
  bool operator==(const StoredTensor&) const = default;
};

using StoredTensors = std::map<std::string, StoredTensor, std::less<>>;

// A run of elements of one tensor, taken as flat, in one file.
struct StoredSlice {
  std::string tensor = {};
  uint64_t begin = 0;  // elements
  uint64_t end = 0;
  uint64_t offset = 0;  // bytes from the start of the file
  bool operator==(const StoredSlice&) const = default;
};

struct StoredFile {
  std::string name = {};  // inside the step's folder
  uint64_t bytes = 0;
  uint64_t block_bytes = kBlockBytes;
  std::vector<Hash128> blocks = {};  // of every block_bytes from the start; the last may be shorter
  std::vector<StoredSlice> slices = {};
  std::string host = {};  // on whose disk it lies; "": in the one folder that all ranks see
  bool operator==(const StoredFile&) const = default;

  uint64_t size_of_block(uint64_t block) const;
  // "'wte', 'h.bias'": whose elements lie in the block; "the header" before the first.
  std::string tensors_in_block(uint64_t block) const;
};

// What one rank adds to a step: the file it wrote and the tensors that file has elements of.
struct Part {
  StoredTensors tensors = {};
  StoredFile file = {};
  bool operator==(const Part&) const = default;
};

struct Manifest {
  int64_t step = 0;
  int world = 1;          // ranks that saved
  std::string plan = {};  // the hash of the plan they saved under
  StoredTensors tensors = {};
  std::vector<StoredFile> files = {};                // by name
  std::map<std::string, std::string> sections = {};  // config, data position, random state, ...: any bytes
  std::map<std::string, double> metrics = {};        // finite numbers, to choose the best step by
  bool operator==(const Manifest&) const = default;

  const StoredFile* find_file(std::string_view name) const;
};

// Elements of a tensor. Requires: it stands in a Manifest that was checked.
uint64_t numel_of(const StoredTensor& tensor);
// Bytes of one of its elements. Requires: the same.
uint64_t width_of(const StoredTensor& tensor);

// The safetensors header of a file with these slices: a whole tensor under its name, a part of one as NAME[begin:end], flat.
// Requires: every slice's tensor is among `tensors`, and its dtype is known.
SafetensorsHeader header_of(const StoredFile& file, const StoredTensors& tensors);

// `head` with the ranks' parts put in, without metrics that are not finite: a loss that is none must not cost the step.
// Throws when two ranks disagree on a tensor, or what check_manifest throws.
Manifest merge_parts(Manifest head, std::span<const Part> parts, const std::string& where);

// Everything a manifest claims must fit together: names, sizes, blocks, and that the slices cover every element of every
// tensor once. `where` is the path for the message.
void check_manifest(const Manifest& manifest, const std::string& where);

// The text of manifest.json and back. Requires for render: the manifest has been checked.
std::string render_manifest(const Manifest& manifest);
Manifest parse_manifest(std::string_view text, const std::string& where);
// A JSON object with its own hash in front, as parse_manifest wants it.
std::string seal_manifest(std::string_view json_object);

// A part as text, for the way from its rank to the one that commits.
std::string render_part(const Part& part);
Part parse_part(std::string_view text, const std::string& where);

}  // namespace weft::checkpoint
