// The weights of a model in training, written to files while no rank has more of it whole than what is being written.
#include <c10/core/GradMode.h>

#include "weft/base/error.h"
#include "weft/base/log.h"
#include "weft/base/text.h"
#include "weft/engine/agree.h"
#include "weft/engine/model_saving.h"
#include "weft/engine/training.h"

namespace weft::engine {

// One after the other, whole while it is looked at.
class Training::Weights {
 public:
  Weights(Training& training, const SaveModelOptions& options) : it_(training) {
    const auto& table = it_.plan_->table;
    for (int number = 0; number < table.size(); ++number) {
      if (table.owner(number) != number || (options.exclude_frozen_parameters && table[number].frozen)) continue;
      numbers_.push_back(number);
      const at::Tensor& tensor = it_.model_.parameters[static_cast<size_t>(number)].second;
      specs_.push_back({.name = table[number].name, .type = tensor.scalar_type(), .shape = table[number].shape});
    }
    for (const auto& [name, tensor] : it_.model_.buffers)
      specs_.push_back({.name = name, .type = tensor.scalar_type(), .shape = tensor.sizes().vec()});
  }
  ~Weights() { let_go(); }
  Weights(const Weights&) = delete;
  Weights& operator=(const Weights&) = delete;

  const std::vector<checkpoint::TensorSpec>& specs() const { return specs_; }

  at::Tensor bring(size_t i) {
    next_ = i + 1;
    if (i >= numbers_.size()) return buffer(specs_[i].name);
    const int number = numbers_[i];
    const bool in_slices = it_.residents_ != nullptr && it_.guarded_away(number) == nullptr;
    if (!in_slices) return it_.model_.parameters[static_cast<size_t>(number)].second.detach();
    hold(it_.plan_->layout.home(number).bucket);
    const auto& place = it_.plan_->layout.place(number);
    return it_.residents_->whole(held_).narrow(0, place.begin, place.num_elements).view(it_.plan_->table[number].shape);
  }
  // Where a gather takes all ranks, those who do not write bring the same, and whoever failed to write goes on to bring.
  void bring_the_rest() {
    while (next_ < specs_.size()) bring(next_);
  }

 private:
  at::Tensor buffer(const std::string& name) const {
    for (const auto& [key, tensor] : it_.model_.buffers) {
      if (key == name) return tensor.detach();
    }
    return {};
  }
  // Parameters that follow each other often share a bucket.
  void hold(int bucket) {
    if (bucket == held_) return;
    let_go();
    it_.residents_->hold(bucket);
    held_ = bucket;
  }
  void let_go() {
    if (held_ >= 0) it_.residents_->let_go(std::exchange(held_, -1));
  }

  Training& it_;
  std::vector<int> numbers_;
  std::vector<checkpoint::TensorSpec> specs_;
  size_t next_ = 0;
  int held_ = -1;  // the bucket
};

void Training::save_weights(Env& env, const std::string& path, const SaveModelOptions& options) {
  check_alive();
  if (options.max_shard_bytes <= 0)
    misuse(cat("files of at most ", options.max_shard_bytes, " bytes"), "give max_shard_bytes above 0");
  const at::NoGradGuard no_grad;
  gathering_->wait();
  Weights weights(*this, options);
  std::exception_ptr failure;
  std::string text;
  if (world_.rank == 0) {
    try {
      const WeightSource source{weights.specs(), [&](size_t number) { return weights.bring(number); }};
      save_model_files(env, path, source, options);
    } catch (const std::exception& error) {
      failure = std::current_exception();
      text = error.what();
    }
  }
  if (residents_ && !world_.group->one_sided()) weights.bring_the_rest();
  text = exchange_texts(*world_.group, text, device_)[0];
  if (failure) std::rethrow_exception(failure);
  if (text.empty()) return;
  throw Error(ErrorKind::kEnvironment,
              {.title = "rank 0 could not save the model", .what = text, .where = path, .fix = "see what rank 0 says"});
}

bool Training::save_16bit_model(Env& env, const std::string& folder, const SaveModelOptions& options) {
  if (config_.zero_optimization.stage == 3 && !config_.zero_optimization.stage3_gather_16bit_weights_on_model_save) {
    if (world_.rank == 0) {
      log_warn(
          "save_16bit_model() has saved nothing: \"stage3_gather_16bit_weights_on_model_save\" is false. Set it to "
          "true; ",
          "weights are then gathered one after the other");
    }
    return false;
  }
  save_weights(env, folder, options);
  return true;
}

}  // namespace weft::engine
