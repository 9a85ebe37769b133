#include "weft/engine/checks.h"

#include <map>
#include <set>

#include "weft/base/error.h"
#include "weft/base/text.h"
#include "weft/engine/live_engines.h"

namespace weft::engine {

void misuse(std::string title, std::string fix) {
  throw Error(ErrorKind::kBug, {.title = std::move(title), .what = "", .where = "", .fix = std::move(fix)});
}

void refuse_dead(const std::string& why, int rank) {
  throw Error(ErrorKind::kBug, {.title = "this engine cannot go on",
                                .what = why,
                                .where = cat("rank ", rank),
                                .fix = "end the program and start it again from the last save"});
}

void check_loss(const at::Tensor& loss) {
  if (!loss.defined()) misuse("backward() of an undefined loss", "return the loss from forward()");
  if (loss.numel() != 1) misuse(cat("the loss has ", loss.numel(), " elements"), "reduce it to one: loss.mean()");
  if (!loss.requires_grad()) {
    misuse("the loss does not depend on any parameter that requires a gradient",
           "compute it outside of NoGradGuard, and do not detach() it");
  }
}

std::optional<plan::ParameterTable> table_now(const ModelTensors& model, const plan::ParameterTable& table) {
  const auto is_frozen = [&](size_t i) { return !model.parameters[i].second.requires_grad(); };
  size_t i = 0;
  while (i < model.parameters.size() && is_frozen(i) == table[static_cast<int>(i)].frozen) ++i;
  if (i == model.parameters.size()) return std::nullopt;
  std::vector<plan::Parameter> parameters = table.all();
  for (; i < parameters.size(); ++i) parameters[i].frozen = is_frozen(i);
  return plan::ParameterTable(std::move(parameters));
}

std::string change_of(const ModelTensors& model, const plan::Plan& plan, const memory::FlatBuckets& buckets) {
  for (const int parameter : plan.table.trainable()) {
    const auto& [name, tensor] = model.parameters[static_cast<size_t>(parameter)];
    if (!buckets.holds_parameter(parameter)) {
      return cat("parameter '", name,
                 "' was given other memory behind the engine's back; write into it with copy_(), or with "
                 "set_full_param(), which bf16 and fp16 with their fp32 copies need");
    }
  }
  return "";
}

std::vector<std::string> aliased(const ModelTensors& model) {
  std::map<const c10::StorageImpl*, std::set<const c10::TensorImpl*>> tensors_on;
  const auto storage_of = [](const at::Tensor& tensor) { return tensor.storage().unsafeGetStorageImpl(); };
  for (const auto& [name, tensor] : model.parameters)
    tensors_on[storage_of(tensor)].insert(tensor.unsafeGetTensorImpl());
  std::vector<std::string> out;
  for (const auto& [name, tensor] : model.parameters) {
    // Each tensor holds its memory once, whoever holds the tensor. That of another engine's buckets others hold too.
    if (tensor.numel() > 0 && find_trainer(tensor) == nullptr &&
        tensor.storage().use_count() > tensors_on[storage_of(tensor)].size())
      out.push_back(name);
  }
  return out;
}

std::vector<std::string> drop_earlier_gradients(const ModelTensors& model) {
  std::vector<std::string> out;
  for (const auto& [name, tensor] : model.parameters) {
    if (!tensor.mutable_grad().defined()) continue;
    if (find_trainer(tensor) == nullptr) out.push_back(name);
    tensor.mutable_grad().reset();
  }
  return out;
}

std::string WriteWatch::look(const ModelTensors& model, const plan::Plan& plan) {
  const bool is_first = versions_.empty();
  versions_.resize(model.parameters.size());
  std::string found;
  for (const int parameter : plan.table.trainable()) {
    const auto& [name, tensor] = model.parameters[static_cast<size_t>(parameter)];
    auto& version = versions_[static_cast<size_t>(parameter)];
    const auto now = static_cast<uint32_t>(tensor._version());
    if (now != version && !is_first && found.empty()) found = name;
    version = now;
  }
  return found;
}

void WriteWatch::accept(const ModelTensors& model, int parameter) {
  if (versions_.empty()) return;
  const auto number = static_cast<size_t>(parameter);
  versions_[number] = static_cast<uint32_t>(model.parameters[number].second._version());
}

}  // namespace weft::engine
