#include "weft/memory/loose_storage.h"

#include <ATen/ops/from_blob.h>

#include "weft/base/check.h"

namespace weft::memory {
namespace {

// Torch 2.11 can make a storage explain itself, but has no way to take the explanation back. The flag behind it has one name in 2.11 to
// 2.13; an explicit instantiation may name a private member, which makes this the one place that knows it.
bool& refuses_pointers(c10::StorageImpl& storage);
template <bool c10::StorageImpl::* Flag>
struct Opened {
  friend bool& refuses_pointers(c10::StorageImpl& storage) { return storage.*Flag; }
};
template struct Opened<&c10::StorageImpl::throw_on_immutable_data_ptr_>;

// The flag counts from the next set_data_ptr_noswap() on.
template <typename Storage>
void explain_no_more(Storage& storage) {
  if constexpr (requires { storage.clear_data_ptr_access_error_msg_(); }) {
    storage.clear_data_ptr_access_error_msg_();
  } else {
    refuses_pointers(storage) = false;
    storage.get_extra_meta().custom_data_ptr_error_msg_.reset();
  }
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
  storage.release_data_and_set_meta_custom_data_ptr_error_msg_(why);
}

at::Tensor bytes_of(c10::StorageImpl& storage, int64_t first, int64_t count) {
  return at::from_blob(static_cast<std::byte*>(storage.mutable_data()) + first, {count},
                       at::TensorOptions().dtype(at::kByte).device(storage.device()));
}

}  // namespace weft::memory
