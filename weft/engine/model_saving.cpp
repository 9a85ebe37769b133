#include "weft/engine/model_saving.h"

#include <c10/util/accumulate.h>

#include <algorithm>
#include <map>

#include "weft/base/text.h"
#include "weft/checkpoint/model_files.h"

namespace weft::engine {
namespace {

using checkpoint::TensorSpec;

// Others take "pt" for: made by torch, as it stands.
const std::map<std::string, std::string> kMetadata = {{"format", "pt"}};

uint64_t bytes_of_spec(const TensorSpec& spec) {
  return static_cast<uint64_t>(c10::multiply_integers(spec.shape)) * c10::elementSize(spec.type);
}

// Several files that get their names together; their bytes are in "NAME.tmp" until then.
class Files {
 public:
  Files(Env& env, std::string folder) : env_(env), folder_(std::move(folder)) {}
  ~Files() {
    for (const std::string& name : names_) try_remove(cat(path(name), ".tmp"));
  }
  Files(const Files&) = delete;
  Files& operator=(const Files&) = delete;

  void add(const std::string& name, const std::function<void(File&)>& fill) {
    names_.push_back(name);
    const auto file = env_.open(cat(path(name), ".tmp"), OpenMode::kCreate);
    fill(*file);
    file->sync();
  }
  // The index goes first and comes last: without it, no mixture of two saves can be taken for a model.
  void commit() {
    if (env_.stat(path(std::string(checkpoint::kModelIndex)))) {
      env_.remove_file(path(std::string(checkpoint::kModelIndex)));
      env_.sync_folder(folder_);
    }
    for (const std::string& name : env_.list(folder_)) {
      const bool is_ours = std::ranges::find(names_, name) != names_.end();
      if (checkpoint::is_model_file(name) && !is_ours) env_.remove_file(path(name));
    }
    for (const std::string& name : names_) {
      if (name == checkpoint::kModelIndex) env_.sync_folder(folder_);
      env_.rename(cat(path(name), ".tmp"), path(name));
    }
    names_.clear();
    env_.sync_folder(folder_);
  }

 private:
  std::string path(const std::string& name) const { return cat(folder_, "/", name); }
  void try_remove(const std::string& what) {
    try {
      if (env_.stat(what)) env_.remove_file(what);
    } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): the failure that led here is the one to tell
    }
  }

  Env& env_;
  const std::string folder_;
  std::vector<std::string> names_;
};

}  // namespace

void save_model_files(Env& env, const std::string& path, const WeightSource& source, const SaveModelOptions& options) {
  if (path.ends_with(".safetensors")) {
    return publish_file(
        env, path, [&](File& file) { checkpoint::stream_safetensors(file, source.specs, source.tensor, kMetadata); });
  }
  make_folders_durably(env, path);
  std::vector<uint64_t> bytes;
  uint64_t total = 0;
  for (const TensorSpec& spec : source.specs) total += bytes.emplace_back(bytes_of_spec(spec));
  const auto shards = checkpoint::split_into_files(bytes, static_cast<uint64_t>(options.max_shard_bytes));
  Files files(env, path);
  std::map<std::string, std::string> file_of;
  for (size_t i = 0; i < shards.size(); ++i) {
    const std::string name = checkpoint::model_file_name(i, shards.size());
    std::vector<TensorSpec> specs;
    for (const size_t number : shards[i]) {
      specs.push_back(source.specs[number]);
      file_of.emplace(source.specs[number].name, name);
    }
    files.add(name, [&](File& file) {
      checkpoint::stream_safetensors(
          file, specs, [&](size_t number) { return source.tensor(shards[i][number]); }, kMetadata);
    });
  }
  if (shards.size() > 1) {
    const std::string index = checkpoint::render_index(file_of, total);
    files.add(std::string(checkpoint::kModelIndex), [&](File& file) { file.write_at(0, bytes_of(index)); });
  }
  files.commit();
}

}  // namespace weft::engine
