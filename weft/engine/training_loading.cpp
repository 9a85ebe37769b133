// Weights out of files, into what this rank keeps of them.
#include <c10/core/GradMode.h>

#include "weft/engine/training.h"

namespace weft::engine {

void Training::load_bucket(int bucket, const std::map<int, std::string>& names, const ReadWeights& read) {
  const at::Tensor kept = own_parameters(bucket);
  for (const Part& part : parts_of(*plan_, bucket, owner_rank())) {
    const auto name = names.find(part.parameter);
    if (name == names.end() || part.count == 0) continue;
    const at::Tensor values = read(name->second, part.parameter_first, part.count);
    kept.narrow(0, part.first, part.count).copy_(values);
    if (bucket < buckets_->size() && !masters_.empty())
      masters_[static_cast<size_t>(bucket)].narrow(0, part.first, part.count).copy_(values);
  }
}

void Training::load_weights(const std::map<int, std::string>& names, const ReadWeights& read) {
  check_alive();
  if (!guarded_.empty()) misuse("load_weights() inside a GatheredParameters", "let the guard end first");
  const at::NoGradGuard no_grad;
  try {
    gathering_->before_update();
    if (residents_) residents_->before_writing();
    // Nobody waits for a rank that cannot read: all take part in what follows, and throw then.
    std::exception_ptr failure;
    try {
      for (int bucket = 0; bucket < buckets_->num_with_frozen(); ++bucket) load_bucket(bucket, names, read);
    } catch (...) {
      failure = std::current_exception();
    }
    if (residents_) residents_->after_writing();
    gathering_->after_load();
    if (failure) std::rethrow_exception(failure);
  } catch (const std::exception& error) {
    dead_ = error.what();
    throw;
  }
  for (const auto& [number, name] : names) {
    const at::Tensor& tensor = model_.parameters[static_cast<size_t>(number)].second;
    if (plan_->table[number].frozen && buckets_->num_with_frozen() == buckets_->size())
      tensor.detach().copy_(read(name, 0, tensor.numel()).view(tensor.sizes()));
    writes_.accept(model_, number);
  }
}

}  // namespace weft::engine
