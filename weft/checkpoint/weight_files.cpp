#include "weft/checkpoint/weight_files.h"

#include <ATen/ops/empty.h>

#include <set>
#include <span>

#include "weft/base/check.h"
#include "weft/base/error.h"
#include "weft/base/text.h"
#include "weft/checkpoint/dtypes.h"
#include "weft/checkpoint/model_files.h"
#include "weft/checkpoint/safetensors.h"

namespace weft::checkpoint {
namespace {

[[noreturn]] void refuse(std::string title, std::string what, const std::string& path, std::string fix) {
  throw Error(ErrorKind::kInput,
              {.title = std::move(title), .what = std::move(what), .where = path, .fix = std::move(fix)});
}

// Of a folder, the file or index in it: the file where both are there, as others choose.
std::string file_or_index(Env& env, const std::string& path) {
  const auto info = env.stat(path);
  if (!info || info->kind != FileKind::kFolder) return path;
  for (const std::string_view name : {kModelFile, kModelIndex}) {
    if (env.stat(cat(path, "/", name))) return cat(path, "/", name);
  }
  refuse("there are no weights in this folder", cat("neither ", kModelFile, " nor ", kModelIndex), path,
         "give a folder that a model was saved in, or a .safetensors file");
}

}  // namespace

WeightFiles::WeightFiles(Env& env, const std::string& path) : path_(file_or_index(env, path)) {
  path_.ends_with(".json") ? add_indexed(env, path_) : add(env, path_);
}

void WeightFiles::add(Env& env, const std::string& path) {
  File& file = *files_.emplace_back(env.open(path, OpenMode::kRead));
  SafetensorsHeader header = read_header(file);
  for (TensorEntry& entry : header.tensors) {
    const std::string name = entry.name;
    const Place place{.file = &file, .data_begin = header.data_begin, .entry = std::move(entry)};
    if (!places_.emplace(name, place).second)
      refuse("a tensor is in two files", cat("'", name, "'"), path, "use another copy");
  }
}

void WeightFiles::add_indexed(Env& env, const std::string& index_path) {
  const auto file_of = parse_index(read_file(env, index_path, kMaxIndexBytes), index_path);
  const std::string folder = folder_of(index_path);
  std::set<std::string> names;
  for (const auto& [tensor, file] : file_of) names.insert(file);
  for (const std::string& name : names) add(env, cat(folder, "/", name));
  for (const auto& [tensor, file] : file_of) {
    const auto found = places_.find(tensor);
    if (found == places_.end() || found->second.file->path() != cat(folder, "/", file))
      refuse("the index does not say what is in the files", cat("'", tensor, "' is not in ", file), index_path,
             "use another copy");
  }
}

std::vector<std::string> WeightFiles::names() const {
  std::vector<std::string> out;
  for (const auto& [name, place] : places_) out.push_back(name);
  return out;
}

const TensorEntry* WeightFiles::find(const std::string& name) const {
  const auto found = places_.find(name);
  return found == places_.end() ? nullptr : &found->second.entry;
}

at::Tensor WeightFiles::read(const std::string& name, int64_t first, int64_t count) {
  const Place& place = places_.at(name);
  at::Tensor out = at::empty({count}, at::TensorOptions().dtype(dtype_of(place.entry.dtype)));
  const auto width = static_cast<uint64_t>(out.element_size());
  const uint64_t begin = place.entry.begin + static_cast<uint64_t>(first) * width;
  WEFT_CHECK_LE(begin + out.nbytes(), place.entry.end);
  const size_t got =
      place.file->read_at(place.data_begin + begin, {static_cast<std::byte*>(out.mutable_data_ptr()), out.nbytes()});
  if (got != out.nbytes())
    refuse("the file has become shorter", cat("'", name, "' ends early"), place.file->path(), "use another copy");
  read_bytes_ += static_cast<int64_t>(got);
  return out;
}

}  // namespace weft::checkpoint
