#include "weft/engine/model_loading.h"

#include <ATen/record_function.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <exception>
#include <functional>
#include <map>
#include <optional>
#include <set>

#include "weft/base/error.h"
#include "weft/base/text.h"
#include "weft/checkpoint/dtypes.h"
#include "weft/checkpoint/weight_tensors.h"
#include "weft/engine/agree.h"
#include "weft/engine/live_engines.h"
#include "weft/engine/sharded_init.h"
#include "weft/engine/training.h"

namespace weft {
namespace {

using checkpoint::StoredTensor;
using checkpoint::WeightFiles;
using engine::ModelTensors;

// A tensor of the model and the name under which the file has it.
struct Target {
  at::Tensor tensor;
  std::string name;
};

class Matching {
 public:
  Matching(const ModelTensors& model, const WeightFiles& files, const LoadWeightsOptions& options) : files_(files) {
    for (const auto* tensors : {&model.parameters, &model.buffers}) {
      for (const auto& [name, tensor] : *tensors) {
        if (!tensor.defined()) continue;
        known_.insert(name);
        take(name, tensor);
      }
    }
    if (options.strict) {
      for (const auto& [tensor, name] : missing_) problems_.push_back(cat("'", name, "' is missing"));
      for (const std::string& name : files.names()) {
        if (!known_.contains(name)) problems_.push_back(cat("'", name, "' is not a tensor of this model"));
      }
    }
  }

  void check(const std::string& path) const {
    if (problems_.empty()) return;
    throw Error(ErrorKind::kInput,
                {.title = "the weights do not fit the model",
                 .what = join(problems_, "\n"),
                 .where = path,
                 .fix = "load the files of this model, or leave names out with LoadWeightsOptions::strict"});
  }
  const std::vector<Target>& targets() const { return targets_; }

 private:
  // Tied ones are there under one of their names, the first that the file has.
  void take(const std::string& name, const at::Tensor& tensor) {
    const void* const key = tensor.unsafeGetTensorImpl();
    if (has_.contains(key)) return;
    const StoredTensor* const entry = files_.find(name);
    if (entry == nullptr) {
      missing_.emplace(key, name);
      return;
    }
    has_.insert(key);
    missing_.erase(key);
    if (entry->shape != tensor.sizes().vec()) {
      problems_.push_back(cat("'", name, "' is ", plan::shape_text(entry->shape), ", the model wants ",
                              plan::shape_text(tensor.sizes().vec())));
    } else if (!fits(checkpoint::dtype_of(entry->dtype), tensor.scalar_type())) {
      problems_.push_back(
          cat("'", name, "' is ", entry->dtype, ", the model wants ", c10::toString(tensor.scalar_type())));
    }
    targets_.push_back({tensor, name});
  }
  static bool fits(at::ScalarType from, at::ScalarType to) {
    return from == to || (c10::isFloatingType(from) && c10::isFloatingType(to));
  }

  const WeightFiles& files_;
  std::set<std::string> known_;
  std::set<const void*> has_;
  std::map<const void*, std::string> missing_;
  std::vector<std::string> problems_;
  std::vector<Target> targets_;
};

// Whose ranks have to fail together: those of an engine, or of a ShardedInit.
comm::Group* group_of(const ModelTensors& model) {
  for (const auto& [name, tensor] : model.parameters) {
    if (engine::Training* const training = engine::find_trainer(tensor)) return training->world().group.get();
    if (comm::Group* const group = engine::group_of_nursery(tensor)) return group;
  }
  return nullptr;
}

// What one rank comes upon, all throw.
void together(comm::Group* group, at::Device device, const std::function<void()>& what) {
  std::exception_ptr failure;
  std::string text;
  try {
    what();
  } catch (const std::exception& error) {
    failure = std::current_exception();
    text = error.what();
  }
  if (group != nullptr) {
    const auto texts = engine::exchange_texts(*group, text, device);
    const auto other = std::ranges::find_if(texts, [](const std::string& one) { return !one.empty(); });
    if (other != texts.end() && !failure) {
      throw Error(ErrorKind::kInput, {.title = cat("rank ", other - texts.begin(), " could not load the weights"),
                                      .what = *other,
                                      .where = cat("rank ", group->rank()),
                                      .fix = "see what that rank says"});
    }
  }
  if (failure) std::rethrow_exception(failure);
}

void fill_whole(WeightFiles& files, const Target& target) {
  const engine::HeldWhole held(target.tensor);
  target.tensor.detach().copy_(read_elements(files, target.name, 0, target.tensor.numel()).view(target.tensor.sizes()));
}

// Bytes [first, first + count) of the tensor as the model has it: the elements that they are of, converted.
at::Tensor converted_bytes(WeightFiles& files, const Target& target, int64_t first, int64_t count) {
  const int64_t width = target.tensor.element_size();
  const int64_t begin = first / width, end = (first + count + width - 1) / width;
  return read_elements(files, target.name, begin, end - begin)
      .to(target.tensor.scalar_type())
      .view(at::kByte)
      .narrow(0, first - begin * width, count);
}

void read_into(WeightFiles& files, const std::vector<Target>& targets) {
  std::map<engine::Training*, std::map<int, std::string>> trained;  // names in the file by number of the parameter
  for (const Target& target : targets) {
    engine::Training* const training = engine::find_trainer(target.tensor);
    if (training != nullptr) {
      trained[training].emplace(training->owner_of(target.tensor), target.name);
    } else if (!engine::fill_cut(target.tensor, [&](int64_t first, int64_t count) {
                 return converted_bytes(files, target, first, count);
               })) {
      fill_whole(files, target);
    }
  }
  for (const auto& [training, names] : trained) {
    training->load_weights(names, [&](const std::string& name, int64_t first, int64_t count) {
      return read_elements(files, name, first, count);
    });
  }
}

}  // namespace

LoadedWeights load_weights(const ModelTensors& model, const std::string& path, const LoadWeightsOptions& options) {
  const at::NoGradGuard no_grad;
  const at::DisableRecordFunctionGuard unwatched;  // what is read is nothing that is being built
  comm::Group* const group = group_of(model);
  const at::Device device = model.parameters.empty() ? at::kCPU : engine::device_of(model);
  std::optional<WeightFiles> files;
  std::optional<Matching> matching;
  together(group, device, [&] {
    files.emplace(Env::posix(), path);
    matching.emplace(model, *files, options);
    matching->check(files->path());
  });
  together(group, device, [&] { read_into(*files, matching->targets()); });
  return {.num_tensors = std::ssize(matching->targets()), .read_bytes = files->read_bytes()};
}

}  // namespace weft
