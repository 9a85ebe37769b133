#include "weft/engine/weight_owners.h"

namespace weft::engine {
namespace {

const void* storage_or_null(const at::Tensor& tensor) {
  return tensor.defined() && tensor.has_storage() ? tensor.storage().unsafeGetStorageImpl() : nullptr;
}

int64_t first_byte(const at::Tensor& tensor) { return tensor.storage_offset() * tensor.element_size(); }

}  // namespace

WeightOwners::WeightOwners(const ModelTensors& model, const ModuleTree& tree) {
  for (const auto& [name, tensor] : model.parameters) add(tensor, tree.owner_of(name));
  for (const auto& [name, tensor] : model.buffers) add(tensor, tree.owner_of(name));
}

// Of tied ones the first is the owner.
void WeightOwners::add(const at::Tensor& tensor, int module) {
  const void* const storage = storage_or_null(tensor);
  if (storage == nullptr || tensor.numel() == 0) return;
  const int64_t first = first_byte(tensor);
  ranges_[storage].try_emplace(first, Range{first + static_cast<int64_t>(tensor.nbytes()), module});
}

int WeightOwners::of(const at::Tensor& tensor) const {
  const void* const storage = storage_or_null(tensor);
  if (storage == nullptr) return -1;
  if (const auto copy = copies_.find(storage); copy != copies_.end()) return copy->second.module;
  const auto found = ranges_.find(storage);
  if (found == ranges_.end()) return -1;
  const int64_t first = first_byte(tensor);
  auto range = found->second.upper_bound(first);
  if (range == found->second.begin()) return -1;
  --range;
  // A whole bucket begins where its first parameter does.
  const bool is_inside = first + static_cast<int64_t>(tensor.nbytes()) <= range->second.end;
  return is_inside ? range->second.module : -1;
}

void WeightOwners::add_copy(const at::Tensor& copy, int module) {
  const void* const storage = storage_or_null(copy);
  if (storage == nullptr || ranges_.contains(storage)) return;
  copies_.insert_or_assign(storage, Copy{copy.storage().getWeakStorageImpl(), module});
}

}  // namespace weft::engine
