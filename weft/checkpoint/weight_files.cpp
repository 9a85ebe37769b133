#include "weft/checkpoint/weight_files.h"

#include <set>
#include <tuple>
#include <utility>

#include "weft/base/check.h"
#include "weft/base/error.h"
#include "weft/base/text.h"
#include "weft/checkpoint/foreign/state_dict.h"
#include "weft/checkpoint/model_files.h"

namespace weft::checkpoint {
namespace {

[[noreturn]] void refuse_weights(std::string title, std::string what, const std::string& path, std::string fix) {
  throw Error(ErrorKind::kInput,
              {.title = std::move(title), .what = std::move(what), .where = path, .fix = std::move(fix)});
}

// Of a folder, the file or index in it: safetensors before torch.save's, and the file where both are there, as others choose.
std::string file_or_index(Env& env, const std::string& path) {
  const auto info = env.stat(path);
  if (!info || info->kind != FileKind::kFolder) return path;
  for (const std::string_view name : {kModelFile, kModelIndex, kTorchModelFile, kTorchModelIndex}) {
    if (env.stat(cat(path, "/", name))) return cat(path, "/", name);
  }
  refuse_weights("there are no weights in this folder",
                 cat("neither ", kModelFile, " nor ", kModelIndex, " nor ", kTorchModelFile, " nor ", kTorchModelIndex),
                 path, "give a folder that a model was saved in, or a file of weights");
}

// torch.save has written zip files since 1.6, and bare pickles before; safetensors begin with a length.
bool is_pickle(Env& env, const std::string& path) {
  if (path.ends_with(".safetensors")) return false;
  const auto file = env.open(path, OpenMode::kRead);
  std::string first(4, '\0');
  first.resize(file->read_at(0, std::as_writable_bytes(std::span(first))));
  return first == "PK\x03\x04" || first.starts_with("\x80\x02\x8a");
}

}  // namespace

WeightFiles::WeightFiles(Env& env, const std::string& path) : path_(file_or_index(env, path)) {
  path_.ends_with(".json") ? add_indexed(env, path_) : add(env, path_);
}

void WeightFiles::add(Env& env, const std::string& path) {
  is_pickle(env, path) ? add_pickle(env, path) : add_safetensors(env, path);
}

void WeightFiles::add_place(const std::string& name, Place place) {
  const std::string path = place.path;
  if (!places_.emplace(name, std::move(place)).second)
    refuse_weights("a tensor is in two files", cat("'", name, "'"), path, "use another copy");
}

void WeightFiles::add_safetensors(Env& env, const std::string& path) {
  File& file = *files_.emplace_back(env.open(path, OpenMode::kRead));
  const SafetensorsHeader header = read_header(file);
  for (const TensorEntry& entry : header.tensors) {
    add_place(entry.name, {.tensor = {.dtype = entry.dtype, .shape = entry.shape},
                           .path = path,
                           .file = &file,
                           .begin = header.data_begin + entry.begin});
  }
}

void WeightFiles::add_pickle(Env& env, const std::string& path) {
  foreign::TorchFile& file = *torch_files_.emplace_back(std::make_unique<foreign::TorchFile>(env, path));
  foreign::StateDict weights = state_dict_in(file);
  // By where it lies and how it is laid out: the same memory under two names is one tensor.
  std::map<std::tuple<uint64_t, uint64_t, std::vector<int64_t>, std::vector<int64_t>>, std::string> first_names;
  for (const foreign::NamedTensor& one : weights.tensors) {
    const foreign::TorchTensor& t = one.tensor;
    const auto [first, is_new] = first_names.try_emplace({t.storage_offset, t.first, t.shape, t.strides}, one.name);
    if (!is_new && t.num_elements() > 0) tied_.emplace(one.name, first->second);
    add_place(one.name,
              {.tensor = {.dtype = t.dtype, .shape = t.shape}, .path = path, .torch_file = &file, .torch_tensor = t});
  }
  others_.insert(others_.end(), weights.others.begin(), weights.others.end());
}

void WeightFiles::add_indexed(Env& env, const std::string& index_path) {
  const auto file_of = parse_index(read_file(env, index_path, kMaxIndexBytes), index_path);
  const std::string folder = folder_of(index_path);
  std::set<std::string> names;
  for (const auto& [tensor, file] : file_of) names.insert(file);
  for (const std::string& name : names) add(env, cat(folder, "/", name));
  for (const auto& [tensor, file] : file_of) {
    const auto found = places_.find(tensor);
    if (found == places_.end() || found->second.path != cat(folder, "/", file))
      refuse_weights("the index does not say what is in the files", cat("'", tensor, "' is not in ", file), index_path,
                     "use another copy");
  }
}

std::vector<std::string> WeightFiles::names() const {
  std::vector<std::string> out;
  for (const auto& [name, place] : places_) out.push_back(name);
  return out;
}

const StoredTensor* WeightFiles::find(const std::string& name) const {
  const auto found = places_.find(name);
  return found == places_.end() ? nullptr : &found->second.tensor;
}

void WeightFiles::read(const std::string& name, uint64_t first, std::span<std::byte> into) {
  const Place& place = places_.at(name);
  const uint64_t width = width_of(place.tensor), count = into.size() / width, elements = numel_of(place.tensor);
  WEFT_CHECK(into.size() % width == 0 && first <= elements && count <= elements - first);
  if (place.torch_file != nullptr) {
    place.torch_file->read(place.torch_tensor, first, into);
  } else if (place.file->read_at(place.begin + first * width, into) != into.size()) {
    refuse_weights("the file has become shorter", cat("'", name, "' ends early"), place.path, "use another copy");
  }
  read_bytes_ += static_cast<int64_t>(into.size());
}

}  // namespace weft::checkpoint
