// Storages whose memory comes and goes while tensors keep them: sizes, views and identity stay.
//
// Without memory, torch refuses to hand out a pointer and says why; nothing reads through a null. Ownership: a storage keeps what it was given.
// Threads: whoever changes a storage makes sure that nobody reads it.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>

#include <string>

namespace weft::memory {

// A flat tensor that has no memory yet.
at::Tensor without_memory(int64_t count, at::ScalarType type, at::Device device);

// Of which the tensor is a view.
inline c10::StorageImpl& storage_of(const at::Tensor& tensor) { return *tensor.storage().unsafeGetStorageImpl(); }

// The storage begins where `memory` begins. Requires: at least as many bytes.
void give_memory(c10::StorageImpl& storage, at::Tensor memory);
// `why`: what whoever asks for a pointer is told meanwhile.
void take_memory(c10::StorageImpl& storage, const std::string& why);

// Some of a storage's bytes. Does not keep it.
at::Tensor bytes_of(c10::StorageImpl& storage, int64_t first, int64_t count);

}  // namespace weft::memory
