#include "weft/checkpoint/foreign/deepspeed.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "weft/base/text.h"
#include "weft/checkpoint/foreign/deepspeed_impl.h"
#include "weft/checkpoint/foreign/state_dict.h"

namespace weft::checkpoint::foreign {
namespace {

using Kind = Value::Kind;
using Role = DeepSpeedTensor::Role;

// What DeepSpeed itself saves beside the model. Everything else is the program's own.
constexpr std::string_view kOwnKeys[] = {"module",
                                         "buffer_names",
                                         "optimizer",
                                         "param_shapes",
                                         "frozen_param_shapes",
                                         "shared_params",
                                         "frozen_param_fragments",
                                         "lr_scheduler",
                                         "data_sampler",
                                         "random_ltd",
                                         "skipped_steps",
                                         "global_steps",
                                         "global_samples",
                                         "dp_world_size",
                                         "mp_world_size",
                                         "ds_config",
                                         "ds_version",
                                         "sparse_tensor_module_names",
                                         "csr_tensor_module_names",
                                         "checkpoint_parallel_dimensions",
                                         "num_experts"};

class DeepSpeedReader {
 public:
  explicit DeepSpeedReader(const DeepSpeedFiles& files)
      : files_(files), model_(files.models.at(0)), root_(model_->root()), module_(root_.find("module")) {
    if (module_ == nullptr || !module_->is(Kind::kDict)) refuse_layout("it has no 'module'", model_->path());
    if (integer_in(root_.find("mp_world_size")).value_or(1) > 1)
      refuse_layout("it is of several model-parallel ranks", model_->path());
    for (const Value* name : items_of(root_.find("buffer_names"))) buffers_.insert(name->text);
    for (const auto& [name, owner] : entries_of(root_.find("shared_params"))) ties_.emplace(name, owner->text);
  }

  DeepSpeedCheckpoint read() {
    read_numbers();
    if (files_.optims.empty()) {
      const Value* const shapes = root_.find("param_shapes");
      if (shapes != nullptr && !shapes->is(Kind::kNone))
        refuse_layout(cat("it was saved with ZeRO, and no *_optim_states.pt is beside it; weights in 16 bits are in "
                          "the model's own file, ",
                          "which can be imported by itself"),
                      model_->path());
      read_whole_optimizer(model_, unsharded_names(), out_);
      out_.world =
          static_cast<int>(std::clamp<int64_t>(integer_in(root_.find("dp_world_size")).value_or(1), 1, 1'000'000));
    } else {
      read_partitions(files_, out_);
      add_frozen();
    }
    add_buffers();
    for (const auto& [name, owner] : ties_)
      out_.left_out.push_back(cat("'", name, "', which is '", owner, "' under another name"));
    read_scale();
    read_program_state();
    return std::move(out_);
  }

 private:
  void read_numbers() {
    const auto count = [&](std::string_view key) {
      return std::max<int64_t>(0, integer_in(root_.find(key)).value_or(0));
    };
    constexpr int64_t kMost = int64_t{1} << 40;
    out_.global_steps = std::min(count("global_steps"), kMost);
    out_.skipped_steps = std::min(count("skipped_steps"), out_.global_steps);
    const Value* const config = root_.find("ds_config");
    const auto micro = config == nullptr ? std::nullopt : integer_in(config->find("gradient_accumulation_steps"));
    out_.micro_steps = out_.global_steps * std::clamp<int64_t>(micro.value_or(1), 1, 1 << 20);
    const Value* const version = root_.find("ds_version");
    if (version != nullptr && version->is(Kind::kText)) out_.version = version->text.substr(0, 40);
  }

  // Parameters of the model as it stands, each under the first of its names.
  std::vector<std::pair<std::string, FilePart>> unsharded_names() {
    std::vector<std::pair<std::string, FilePart>> out;
    std::map<std::tuple<uint64_t, uint64_t, std::vector<int64_t>>, std::string> first_names;
    for (NamedTensor& one : tensors_in(*model_, *module_).tensors) {
      if (buffers_.contains(one.name)) continue;
      const auto [first, is_new] =
          first_names.try_emplace({one.tensor.storage_offset, one.tensor.first, one.tensor.shape}, one.name);
      if (!is_new && one.tensor.num_elements() > 0) {
        ties_.emplace(one.name, first->second);
      } else {
        out.emplace_back(one.name, FilePart{.file = model_, .tensor = std::move(one.tensor)});
      }
    }
    return out;
  }

  void add_frozen() {
    if (out_.stage == 3) return add_frozen_fragments();
    std::set<std::string> placed;
    for (const DeepSpeedTensor& tensor : out_.tensors) placed.insert(tensor.name);
    for (const NamedTensor& one : tensors_in(*model_, *module_).tensors) {
      if (buffers_.contains(one.name) || ties_.contains(one.name) || placed.contains(one.name)) continue;
      out_.tensors.push_back(whole_tensor(Role::kParameter, one.name, {.file = model_, .tensor = one.tensor}));
    }
  }

  // Cut as the others are: every rank has a part, the last ones padded.
  void add_frozen_fragments() {
    std::vector<std::map<std::string_view, const Value*>> fragments;
    for (const auto& file : files_.models) fragments.push_back(by_name(file->root().find("frozen_param_fragments")));
    for (const auto& [name, value] : entries_of(root_.find("frozen_param_shapes"))) {
      DeepSpeedTensor tensor{.name = std::string(name), .shape = checked_shape(*value, name, *model_)};
      uint64_t left = checked_size(tensor.shape);
      for (size_t rank = 0; rank < fragments.size(); ++rank) {
        const auto found = fragments[rank].find(name);
        if (found == fragments[rank].end())
          refuse_layout(cat("no part of the frozen '", name, "'"), files_.models[rank]->path());
        const FilePart part = part_of(files_.models[rank], *found->second, name);
        if (rank == 0) tensor.dtype = part.tensor.dtype;
        const uint64_t take = std::min(left, part.tensor.num_elements());
        tensor.elements.add(part, 0, take);
        left -= take;
      }
      if (left > 0) refuse_layout(cat("the parts of the frozen '", name, "' lack ", left, " elements"), model_->path());
      out_.tensors.push_back(std::move(tensor));
    }
  }

  void add_buffers() {
    for (const auto& [name, value] : entries_of(module_)) {
      if (!buffers_.contains(std::string(name))) continue;
      out_.tensors.push_back(whole_tensor(Role::kBuffer, std::string(name), part_of(model_, *value, name)));
    }
  }

  // Only one that moves: a fixed scale is the config's.
  void read_scale() {
    const Value* from = root_.find("optimizer");
    if (!files_.optims.empty()) {
      const Value* const state = files_.optims[0]->root().find("optimizer_state_dict");
      from = state == nullptr ? nullptr : state->find("loss_scaler");
    }
    if (from == nullptr) return;
    const auto scale = number_in(from->find("cur_scale"));
    const auto last = integer_in(from->find("last_overflow_iter"));
    if (!scale || !last) return;
    const Value* const config = root_.find("ds_config");
    const Value* const fp16 = config == nullptr ? nullptr : config->find("fp16");
    const auto hysteresis = fp16 == nullptr ? std::nullopt : integer_in(fp16->find("hysteresis"));
    out_.scale =
        DeepSpeedScale{.scale = *scale,
                       .num_updates = integer_in(from->find("cur_iter")).value_or(out_.global_steps),
                       .last_overflow = *last,
                       .hysteresis_left = integer_in(from->find("cur_hysteresis")).value_or(hysteresis.value_or(2))};
  }

  void read_program_state() {
    constexpr std::pair<std::string_view, std::string_view> kLost[] = {
        {"lr_scheduler", "the learning-rate scheduler: weft's follows from the config and the step"},
        {"data_sampler", "the position in the data"},
        {"random_ltd", "the state of random-LTD"}};
    for (const auto& [key, words] : kLost) {
      const Value* const value = root_.find(key);
      if (value != nullptr && !value->is(Kind::kNone)) out_.left_out.emplace_back(words);
    }
    for (const auto& [key, value] : entries_of(&root_)) {
      if (std::ranges::find(kOwnKeys, key) != std::end(kOwnKeys) || key.empty()) continue;
      if (value->is(Kind::kText)) {
        out_.client[std::string(key)] = value->text;
      } else if (value->is(Kind::kBool)) {
        out_.client[std::string(key)] = cat(value->integer != 0);
      } else if (const auto whole = integer_in(value)) {
        out_.client[std::string(key)] = cat(*whole);
      } else if (const auto number = number_in(value)) {
        out_.client[std::string(key)] = cat(*number);
      } else if (!value->is(Kind::kNone)) {
        out_.left_out.push_back(cat("the program's '", key, "', ", described(*value)));
      }
    }
  }

  const DeepSpeedFiles& files_;
  const std::shared_ptr<TorchFile> model_;
  const Value& root_;
  const Value* const module_;
  std::set<std::string> buffers_;
  std::map<std::string, std::string> ties_;  // to the name it is stored under
  DeepSpeedCheckpoint out_;
};

}  // namespace

DeepSpeedCheckpoint read_deepspeed(const DeepSpeedFiles& files) { return DeepSpeedReader(files).read(); }

}  // namespace weft::checkpoint::foreign
