#include "weft/engine/model_tensors.h"

#include <c10/core/DeviceType.h>

#include <algorithm>
#include <map>

#include "weft/base/text.h"
#include "weft/engine/refuse_impl.h"

namespace weft::engine {
namespace {

plan::Dtype trainable_dtype(const std::string& name, const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kHalf: return plan::Dtype::kFp16;
    case at::kBFloat16: return plan::Dtype::kBf16;
    case at::kFloat: return plan::Dtype::kFp32;
    case at::kDouble: return plan::Dtype::kFp64;
    default:
      refuse(cat("parameter '", name, "' has a type that cannot be trained"), c10::toString(tensor.scalar_type()),
             "make it float, double, half or bfloat16, or register it as a buffer");
  }
}

void check_dense(const std::string& name, const at::Tensor& tensor) {
  if (!tensor.defined()) refuse(cat("parameter '", name, "' is undefined"), "", "give it a value before initialize()");
  if (tensor.layout() != at::kStrided) {
    refuse(cat("parameter '", name, "' is not dense"), "", "only dense parameters can lie in flat buckets");
  }
}

// Two names for one tensor are a tie. Two tensors over the same bytes would be torn apart when they are laid into buckets; those that
// only lie in one allocation, as the weights of an LSTM that cuDNN has flattened, may be.
class Ties {
  struct Bytes {
    std::string name;
    int64_t begin, end;
  };
  // From its first element to its last, whatever lies between.
  static Bytes bytes_of(const std::string& name, const at::Tensor& tensor) {
    int64_t last = 0;
    for (int64_t i = 0; i < tensor.dim(); ++i) last += (tensor.size(i) - 1) * tensor.stride(i);
    const int64_t begin = tensor.storage_offset() * tensor.element_size();
    return {name, begin, begin + (last + 1) * tensor.element_size()};
  }

 public:
  std::optional<int> owner_of(int number, const std::string& name, const at::Tensor& tensor) {
    const auto [same, is_new] = by_tensor_.try_emplace(tensor.unsafeGetTensorImpl(), number);
    if (!is_new) return same->second;
    if (tensor.numel() == 0) return std::nullopt;
    auto& others = by_storage_[tensor.storage().unsafeGetStorageImpl()];
    const Bytes own = bytes_of(name, tensor);
    for (const Bytes& other : others) {
      if (own.end <= other.begin || other.end <= own.begin) continue;
      refuse(cat("parameters '", other.name, "' and '", name, "' are different tensors over one memory"), "",
             "register the same tensor under both names, so that they count as tied");
    }
    others.push_back(own);
    return std::nullopt;
  }

 private:
  std::map<const void*, int> by_tensor_;
  std::map<const void*, std::vector<Bytes>> by_storage_;
};

int number_of(const at::Tensor& tensor, const ModelTensors& model, const plan::ParameterTable& table) {
  for (size_t i = 0; i < model.parameters.size(); ++i) {
    if (model.parameters[i].second.is_same(tensor)) return table.owner(static_cast<int>(i));
  }
  refuse("a tensor to gather together with others is no parameter of the model", "",
         "give tensors of named_parameters() themselves, not views or copies");
}

}  // namespace

std::string change_of(const ModelTensors& now, const ModelTensors& given) {
  std::map<std::string_view, const at::Tensor*> before;
  for (const auto& [name, tensor] : given.parameters) before[name] = &tensor;
  for (const auto& [name, tensor] : now.parameters) {
    const auto found = before.find(name);
    if (found == before.end())
      return cat("parameter '", name,
                 "' was added after initialize(), and nobody trains it; register all of them before");
    if (!found->second->is_same(tensor))
      return cat("parameter '", name,
                 "' is another tensor than at initialize(), which nobody trains; write into it with copy_()");
    before.erase(found);
  }
  return before.empty() ? ""
                        : cat("parameter '", before.begin()->first, "' was taken out of the model after initialize()");
}

std::string short_type(std::string_view type) {
  const size_t colons = type.substr(0, type.find('<')).rfind("::");
  if (colons != std::string_view::npos) type.remove_prefix(colons + 2);
  if (type.size() > 4 && type.ends_with("Impl")) type.remove_suffix(4);
  return std::string(type);
}

ModelTensors with_defined_buffers(ModelTensors model) {
  std::erase_if(model.buffers, [](const auto& buffer) { return !buffer.second.defined(); });
  return model;
}

plan::ParameterTable table_of(const ModelTensors& model) {
  std::vector<plan::Parameter> parameters;
  Ties ties;
  for (const auto& [name, tensor] : model.parameters) {
    check_dense(name, tensor);
    parameters.push_back({.name = name,
                          .shape = tensor.sizes().vec(),
                          .dtype = trainable_dtype(name, tensor),
                          .frozen = !tensor.requires_grad(),
                          .tied_to = ties.owner_of(static_cast<int>(parameters.size()), name, tensor)});
  }
  plan::ParameterTable table(std::move(parameters));
  if (table.trainable().empty()) {
    refuse("the model has nothing to train", cat(table.size(), " parameters, none of them requires a gradient"),
           "register parameters, or set requires_grad before initialize()");
  }
  device_of(model);
  return table;
}

at::Device device_of(const ModelTensors& model) {
  const auto& [first_name, first] = model.parameters.front();
  for (const auto& [name, tensor] : model.parameters) {
    if (tensor.device() == first.device()) continue;
    refuse("the model's parameters are on different devices",
           cat("'", first_name, "' is on ", first.device().str(), ", '", name, "' on ", tensor.device().str()),
           "move the whole model to one device before initialize()");
  }
  return first.device();
}

std::vector<std::vector<int>> numbers_of(const std::vector<std::vector<at::Tensor>>& groups, const ModelTensors& model,
                                         const plan::ParameterTable& table) {
  std::vector<std::vector<int>> out;
  for (const auto& group : groups) {
    out.emplace_back();
    for (const at::Tensor& tensor : group) {
      const int number = number_of(tensor, model, table);
      if (std::ranges::find(out.back(), number) == out.back().end()) out.back().push_back(number);
    }
  }
  return out;
}

}  // namespace weft::engine
