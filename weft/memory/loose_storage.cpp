#include "weft/memory/loose_storage.h"

#include <ATen/ops/from_blob.h>

#include "weft/base/check.h"

namespace weft::memory {

void give_memory(c10::StorageImpl& storage, at::Tensor memory) {
  WEFT_CHECK_GE(memory.nbytes(), storage.nbytes());
  auto* const owner = new at::Tensor(std::move(memory));
  storage.set_data_ptr_noswap(at::DataPtr(
      owner->mutable_data_ptr(), owner, [](void* it) { delete static_cast<at::Tensor*>(it); }, storage.device()));
}

void take_memory(c10::StorageImpl& storage) { storage.set_data_ptr_noswap(at::DataPtr(nullptr, storage.device())); }

at::Tensor bytes_of(c10::StorageImpl& storage, int64_t first, int64_t count) {
  return at::from_blob(static_cast<std::byte*>(storage.mutable_data()) + first, {count},
                       at::TensorOptions().dtype(at::kByte).device(storage.device()));
}

}  // namespace weft::memory
