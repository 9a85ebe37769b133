#include "weft/checkpoint/foreign/deepspeed_files.h"

#include <algorithm>
#include <charconv>
#include <map>

#include "weft/base/error.h"
#include "weft/base/text.h"

namespace weft::checkpoint::foreign {
namespace {

constexpr std::string_view kLatest = "latest", kModelEnd = "model_states.pt", kOptimEnd = "optim_states.pt";
constexpr uint64_t kMaxLatestBytes = 4096;

[[noreturn]] void refuse_folder(std::string what, std::string where, std::string fix) {
  throw Error(ErrorKind::kInput, {.title = "not a DeepSpeed checkpoint that can be imported",
                                  .what = std::move(what),
                                  .where = std::move(where),
                                  .fix = std::move(fix)});
}

bool takes(std::string_view& text, std::string_view piece) {
  if (!text.starts_with(piece)) return false;
  text.remove_prefix(piece.size());
  return true;
}

std::optional<int> take_number(std::string_view& text) {
  int out = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (problem != std::errc() || out < 0) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return out;
}

// What a name says.
struct Named {
  bool is_model = false;
  std::optional<int> rank;  // of data parallelism; none: there is one such file
  int model_rank = 0;
};

std::optional<Named> read_name(std::string_view name) {
  Named out;
  takes(name, "bf16_") || takes(name, "fp16_");
  if (takes(name, "zero_pp_rank_")) {
    out.rank = take_number(name);
    if (!out.rank || !takes(name, "_")) return std::nullopt;
  }
  if (!takes(name, "mp_rank_")) return std::nullopt;
  const auto model_rank = take_number(name);
  if (!model_rank || !takes(name, "_")) return std::nullopt;
  out.model_rank = *model_rank;
  out.is_model = name == kModelEnd;
  if (!out.is_model && name != kOptimEnd) return std::nullopt;
  return out;
}

bool has_states(Env& env, const std::string& folder) {
  const auto info = env.stat(folder);
  if (!info || info->kind != FileKind::kFolder) return false;
  return std::ranges::any_of(env.list(folder), [](const std::string& name) { return name.ends_with(kModelEnd); });
}

std::string checked_tag(std::string tag, const std::string& where) {
  while (!tag.empty() && (tag.back() == '\n' || tag.back() == '\r' || tag.back() == ' ')) tag.pop_back();
  if (tag.empty() || tag == "." || tag == ".." || tag.find('/') != std::string::npos ||
      tag.find('\0') != std::string::npos)
    refuse_folder("its tag is not the name of a folder in it", where, "give one with --tag");
  return tag;
}

std::optional<std::string> folder_in(Env& env, std::string source, const std::string& tag) {
  while (source.size() > 1 && source.ends_with('/')) source.pop_back();
  if (!tag.empty()) {
    std::string folder = cat(source, "/", checked_tag(tag, source));
    if (!has_states(env, folder))
      refuse_folder("no *_model_states.pt is there", folder, "give a --tag that was saved there");
    return folder;
  }
  if (has_states(env, source)) return source;
  const auto info = env.stat(source);
  if (!info || info->kind != FileKind::kFolder || !env.stat(cat(source, "/", kLatest))) return std::nullopt;
  const std::string latest =
      checked_tag(read_file(env, cat(source, "/", kLatest), kMaxLatestBytes), cat(source, "/", kLatest));
  const std::string folder = cat(source, "/", latest);
  return has_states(env, folder) ? std::optional(folder) : std::nullopt;
}

void check_kind(const std::string& name, const std::optional<Named>& named, const std::string& folder) {
  const bool is_part =
      name.find("expert") != std::string::npos || name.starts_with("layer_") || name.starts_with("expp_");
  if (is_part || (named && named->model_rank != 0)) {
    refuse_folder(
        cat("'", name, "' is of tensor or pipeline parallelism, or of experts, where no file has a whole layer"),
        folder, "put it together with DeepSpeed's own tools first (zero_to_fp32.py, ds_to_universal.py)");
  }
}

// Ranks 0 to n - 1, without holes.
std::vector<std::shared_ptr<TorchFile>> opened(Env& env, const std::map<int, std::string>& names,
                                               const std::string& folder) {
  std::vector<std::shared_ptr<TorchFile>> out;
  for (const auto& [rank, name] : names) {
    if (rank != static_cast<int>(out.size()))
      refuse_folder(cat("the file of rank ", out.size(), " is missing, that of rank ", rank, " is there"), folder,
                    "copy the files of all ranks");
    out.push_back(std::make_shared<TorchFile>(env, cat(folder, "/", name)));
  }
  return out;
}

}  // namespace

std::optional<DeepSpeedFiles> open_deepspeed(Env& env, const std::string& source, const std::string& tag) {
  const auto folder = folder_in(env, source, tag);
  if (!folder) return std::nullopt;
  std::map<int, std::string> models, optims;
  for (const std::string& name : env.list(*folder)) {
    if (!name.ends_with("_states.pt")) continue;
    const auto named = read_name(name);
    check_kind(name, named, *folder);
    if (!named) continue;
    if (!(named->is_model ? models : optims).emplace(named->rank.value_or(0), name).second)
      refuse_folder(cat("'", name, "' is another file of the same rank"), *folder,
                    "one checkpoint a folder: remove the other's files");
  }
  if (models.empty())
    refuse_folder("no *_model_states.pt of a name that DeepSpeed gives", *folder, "give the folder that was saved to");
  return DeepSpeedFiles{.folder = *folder,
                        .tag = folder->substr(folder->rfind('/') + 1),
                        .models = opened(env, models, *folder),
                        .optims = opened(env, optims, *folder)};
}

}  // namespace weft::checkpoint::foreign
