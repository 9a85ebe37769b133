#include "weft/memory/loose_storage.h"

#include <ATen/ops/from_blob.h>

#include "weft/base/check.h"

namespace weft::memory {
namespace {

// A storage can be made to explain itself since torch 2.12 or so; before that nobody could take the explanation back.
template <typename Storage>
constexpr bool kExplains = requires(Storage storage) { storage.clear_data_ptr_access_error_msg_(); };

template <typename Storage>
void explain(Storage& storage, const std::string& why) {
  if constexpr (kExplains<Storage>) storage.release_data_and_set_meta_custom_data_ptr_error_msg_(why);
}

template <typename Storage>
void explain_no_more(Storage& storage) {
  if constexpr (kExplains<Storage>) storage.clear_data_ptr_access_error_msg_();
}

}  // namespace

at::Tensor without_memory(int64_t count, at::ScalarType type, at::Device device) {
  const auto options = at::TensorOptions().dtype(type).device(device);
  return at::for_blob(nullptr, {count}).options(options).target_device(device).make_tensor();
}

void give_memory(c10::StorageImpl& storage, at::Tensor memory) {
  WEFT_CHECK_GE(memory.nbytes(), storage.nbytes());
  explain_no_more(storage);
  auto* const owner = new at::Tensor(std::move(memory));
  storage.set_data_ptr_noswap(at::DataPtr(
      owner->mutable_data_ptr(), owner, [](void* it) { delete static_cast<at::Tensor*>(it); }, storage.device()));
}

void take_memory(c10::StorageImpl& storage, const std::string& why) {
  storage.set_data_ptr_noswap(at::DataPtr(nullptr, storage.device()));
  explain(storage, why);
}

at::Tensor bytes_of(c10::StorageImpl& storage, int64_t first, int64_t count) {
  return at::from_blob(static_cast<std::byte*>(storage.mutable_data()) + first, {count},
                       at::TensorOptions().dtype(at::kByte).device(storage.device()));
}

}  // namespace weft::memory
