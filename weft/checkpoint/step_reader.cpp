#include "weft/checkpoint/step_reader.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "weft/base/check.h"
#include "weft/base/error.h"
#include "weft/base/text.h"
#include "weft/checkpoint/store_names.h"

namespace weft::checkpoint {
namespace {

[[noreturn]] void refuse_elsewhere(const StoredFile& file, const std::string& path) {
  throw Error(ErrorKind::kInput, {.title = "a part of the checkpoint is on another host",
                                  .what = cat("'", file.name, "' was saved to the disk of host ", file.host),
                                  .where = path,
                                  .fix = "copy it from there, or load with \"use_node_local_storage\": true"});
}

}  // namespace

struct StepReader::Source {
  const StoredFile* stored = nullptr;
  std::unique_ptr<File> file;

  File& opened(Env& env, const std::string& folder) {
    const std::string path = cat(folder, "/", stored->name);
    if (!file && !stored->host.empty() && !env.stat(path)) refuse_elsewhere(*stored, path);
    if (!file) file = open_stored(env, path, stored->bytes);
    return *file;
  }
};

StepReader::~StepReader() = default;

StepReader::StepReader(Env& env, std::string folder, Manifest manifest)
    : env_(env), folder_(std::move(folder)), manifest_(std::move(manifest)), stream_(env) {
  for (const auto& file : manifest_.files) {
    sources_.push_back({.stored = &file, .file = nullptr});
    for (const auto& slice : file.slices) {
      if (slice.begin < slice.end) places_[slice.tensor].push_back({.source = sources_.size() - 1, .slice = &slice});
    }
  }
  for (auto& [name, places] : places_) std::ranges::sort(places, {}, [](const Place& p) { return p.slice->begin; });
}

const StoredTensor& StepReader::tensor_of(std::string_view name, uint64_t begin, uint64_t end) const {
  const auto tensor = manifest_.tensors.find(name);
  const uint64_t numel = tensor == manifest_.tensors.end() ? 0 : numel_of(tensor->second);
  if (tensor != manifest_.tensors.end() && begin <= end && end <= numel) return tensor->second;
  const std::string why = tensor == manifest_.tensors.end() ? "it holds no tensor of that name" : cat("it has ", numel);
  throw Error(ErrorKind::kInput, {.title = "the checkpoint does not hold what was asked for",
                                  .what = cat("elements ", begin, " to ", end, " of tensor '", name, "': ", why),
                                  .where = folder_,
                                  .fix = ""});
}

std::vector<PlannedRead> StepReader::plan_reads(std::string_view tensor, uint64_t begin, uint64_t end) const {
  const uint64_t width = width_of(tensor_of(tensor, begin, end));
  std::vector<PlannedRead> reads;
  if (begin == end) return reads;
  const auto& places = places_.at(tensor);
  auto place = std::ranges::upper_bound(places, begin, {}, [](const Place& p) { return p.slice->end; });
  for (; place != places.end() && place->slice->begin < end; ++place) {
    const StoredSlice& slice = *place->slice;
    const uint64_t from = std::max(begin, slice.begin), to = std::min(end, slice.end);
    reads.push_back({.file = sources_[place->source].stored->name,
                     .offset = slice.offset + (from - slice.begin) * width,
                     .bytes = (to - from) * width,
                     .into = (from - begin) * width});
  }
  return reads;
}

void StepReader::read(std::string_view tensor, uint64_t begin, uint64_t end, std::span<std::byte> into) {
  const auto reads = plan_reads(tensor, begin, end);
  WEFT_CHECK_EQ(into.size(), (end - begin) * width_of(tensor_of(tensor, begin, end)));
  for (const auto& read : reads) {
    // Sources stand in the order of the manifest's files, which is that of their names.
    const auto source = std::ranges::lower_bound(sources_, read.file, {},
                                                 [](const Source& s) -> const std::string& { return s.stored->name; });
    read_piece(*source, read.offset, into.subspan(read.into, read.bytes));
  }
}

void StepReader::read_piece(Source& source, uint64_t offset, std::span<std::byte> into) {
  while (!into.empty()) {
    const uint64_t block = offset / source.stored->block_bytes, skip = offset % source.stored->block_bytes;
    const auto bytes = stream_.block(source.opened(env_, folder_), *source.stored, block);
    const size_t take = std::min<uint64_t>(into.size(), bytes.size() - skip);
    std::memcpy(into.data(), bytes.data() + skip, take);
    into = into.subspan(take);
    offset += take;
  }
}

}  // namespace weft::checkpoint
