#include "weft/engine/gather_together.h"

#include <c10/util/intrusive_ptr.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "weft/base/log.h"
#include "weft/base/text.h"
#include "weft/engine/live_engines.h"
#include "weft/engine/refuse_impl.h"

namespace weft {
namespace {

using engine::ModelTensors;
using engine::refuse;
using WeakTensor = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;

struct GivenGroup {
  std::vector<WeakTensor> members;
  std::thread::id thread = std::this_thread::get_id();  // that gave it
};

// Ranks may be threads of one process: what one of them has given is not for another one's model.
struct Waiting {
  std::mutex mutex;
  std::vector<GivenGroup> groups;
};

Waiting& waiting() {
  static Waiting one;
  return one;
}

std::vector<at::Tensor> alive(const GivenGroup& group) {
  std::vector<at::Tensor> out;
  for (const WeakTensor& member : group.members) {
    auto strong = member.lock();
    if (strong.defined()) out.emplace_back(std::move(strong));
  }
  return out;
}

bool has(const std::vector<at::Tensor>& tensors, const at::Tensor& one) {
  return std::ranges::any_of(tensors, [&](const at::Tensor& other) { return other.is_same(one); });
}

void check_new(const at::Tensor& tensor, const std::vector<GivenGroup>& groups) {
  if (!tensor.defined())
    refuse("a parameter to gather together is undefined", "", "call gather_together() when the model has been built");
  if (engine::find_trainer(tensor) != nullptr) {
    refuse("gather_together() comes too late",
           cat("an engine trains the parameter of shape ", plan::shape_text(tensor.sizes().vec()), " already"),
           "call it before initialize()");
  }
  for (const GivenGroup& group : groups) {
    if (!has(alive(group), tensor)) continue;
    refuse("a parameter is in two groups to gather together",
           cat("its shape is ", plan::shape_text(tensor.sizes().vec())),
           "give it in one of them; units do not overlap");
  }
}

// By the tensor, and of those that are none of them by their memory.
class NamesOf {
 public:
  explicit NamesOf(const ModelTensors& model) {
    for (const auto& [name, tensor] : model.parameters) {
      by_tensor_.try_emplace(tensor.unsafeGetTensorImpl(), name);
      if (tensor.has_storage()) by_storage_.try_emplace(tensor.storage().unsafeGetStorageImpl(), name);
    }
  }
  const std::string* find(const at::Tensor& tensor) const { return find_in(by_tensor_, tensor.unsafeGetTensorImpl()); }
  const std::string* find_memory(const at::Tensor& tensor) const {
    return tensor.has_storage() ? find_in(by_storage_, tensor.storage().unsafeGetStorageImpl()) : nullptr;
  }

 private:
  using Names = std::map<const void*, std::string>;
  static const std::string* find_in(const Names& names, const void* key) {
    const auto found = names.find(key);
    return found == names.end() ? nullptr : &found->second;
  }

  Names by_tensor_, by_storage_;
};

enum class Whose { kThis, kOther };

// Whose parameters they are: all of them this model's, or none.
Whose whose(const std::vector<at::Tensor>& group, const NamesOf& names) {
  std::vector<std::string> known, strange;
  for (const at::Tensor& tensor : group) {
    const std::string* const name = names.find(tensor);
    const std::string* const base = name == nullptr ? names.find_memory(tensor) : nullptr;
    if (name != nullptr) {
      known.push_back(cat("'", *name, "'"));
    } else {
      strange.push_back(base != nullptr ? cat("a view of '", *base, "'")
                                        : cat("one of shape ", plan::shape_text(tensor.sizes().vec())));
      if (base != nullptr) known.push_back(cat("'", *base, "'"));
    }
  }
  if (known.empty()) return Whose::kOther;
  if (strange.empty()) return Whose::kThis;
  refuse("of parameters to gather together, some are not the model's own",
         cat("the model has ", join(known, ", "), "; besides there is ", join(strange, ", ")),
         "give gather_together() tensors of named_parameters() themselves, not views or copies");
}

}  // namespace

void gather_together(const std::vector<at::Tensor>& parameters) {
  Waiting& all = waiting();
  const std::scoped_lock lock(all.mutex);
  GivenGroup group;
  for (const at::Tensor& tensor : parameters) {
    check_new(tensor, all.groups);
    group.members.emplace_back(tensor.getIntrusivePtr());
  }
  all.groups.push_back(std::move(group));
}

namespace engine {

std::vector<std::vector<at::Tensor>> take_groups(const ModelTensors& model) {
  Waiting& all = waiting();
  const std::scoped_lock lock(all.mutex);
  const NamesOf names(model);
  std::vector<std::vector<at::Tensor>> out;
  std::erase_if(all.groups, [&](const GivenGroup& group) {
    std::vector<at::Tensor> tensors = alive(group);
    if (tensors.empty()) return true;
    if (whose(tensors, names) == Whose::kThis) {
      out.push_back(std::move(tensors));
      return true;
    }
    if (group.thread == std::this_thread::get_id()) {
      log_warn("gather_together() was given ", tensors.size(), " tensors, the first of shape ",
               plan::shape_text(tensors.front().sizes().vec()),
               ", of which this model has none: they wait for an engine that has");
    }
    return false;
  });
  return out;
}

}  // namespace engine

}  // namespace weft
