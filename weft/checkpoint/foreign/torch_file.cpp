#include "weft/checkpoint/foreign/torch_file.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "weft/base/check.h"
#include "weft/base/text.h"
#include "weft/checkpoint/foreign/refuse_impl.h"
#include "weft/checkpoint/foreign/torch_globals.h"
#include "weft/checkpoint/foreign/zip_entries.h"

namespace weft::checkpoint::foreign {
namespace {

using Kind = Value::Kind;

constexpr std::string_view kPickleName = "data.pkl", kStorages = "data/";
constexpr size_t kMaxDimensions = 64;
// A tensor with strides jumps about in its storage. It is held in memory up to this size; beyond, a page at a time.
constexpr uint64_t kMaxHeldBytes = 512 << 20, kPageBytes = 4096;

constexpr std::string_view kRebuild = "torch._utils._rebuild_tensor", kRebuildV2 = "torch._utils._rebuild_tensor_v2",
                           kRebuildV3 = "torch._utils._rebuild_tensor_v3",
                           kParameter = "torch._utils._rebuild_parameter",
                           kParameterWithState = "torch._utils._rebuild_parameter_with_state",
                           kFromType = "torch._tensor._rebuild_from_type_v2";

const Value* item(const Value* tuple, size_t number) {
  return tuple != nullptr && tuple->is(Kind::kTuple) && number < tuple->items.size() ? tuple->items[number] : nullptr;
}

bool is_rebuild(std::string_view global) { return global == kRebuild || global == kRebuildV2 || global == kRebuildV3; }

// So that bytes are still counted in 63 bits.
constexpr uint64_t kMaxElements = static_cast<uint64_t>(INT64_MAX) / 16;

}  // namespace

std::optional<std::vector<int64_t>> shape_in(const Value& value) {
  const Value* sizes = value.is_call("torch.Size") ? item(value.args, 0) : &value;
  if (sizes == nullptr || (!sizes->is(Kind::kTuple) && !sizes->is(Kind::kList))) return std::nullopt;
  if (sizes->items.size() > kMaxDimensions) return std::nullopt;
  std::vector<int64_t> out;
  for (const Value* size : sizes->items) {
    const auto number = integer_in(size);
    if (!number || *number < 0) return std::nullopt;
    out.push_back(*number);
  }
  return out;
}

std::optional<uint64_t> num_elements_of(const std::vector<int64_t>& shape) {
  uint64_t out = 1;
  if (std::ranges::find(shape, 0) != shape.end()) return 0;
  for (const int64_t extent : shape) {
    if (__builtin_mul_overflow(out, static_cast<uint64_t>(extent), &out) || out > kMaxElements) return std::nullopt;
  }
  return out;
}

uint64_t TorchTensor::num_elements() const { return num_elements_of(shape).value_or(0); }

bool TorchTensor::is_contiguous() const {
  int64_t expected = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    if (shape[i] != 1 && strides[i] != expected) return false;
    expected *= shape[i];
  }
  return true;
}

// --- Opening ---------------------------------------------------------------------------------------------------------

TorchFile::TorchFile(Env& env, const std::string& path) : file_(env.open(path, OpenMode::kRead)) { open_container(); }

void TorchFile::open_container() {
  std::string first(4, '\0');
  first.resize(file_->read_at(0, std::as_writable_bytes(std::span(first))));
  if (first.starts_with("\x80\x02"))
    refuse("it is in the format of torch before 1.6", path(), "load it in Python and save it again with torch.save");
  const std::vector<ZipEntry> entries = read_zip(*file_);
  std::string root;
  const ZipEntry* pickle = nullptr;
  for (const ZipEntry& entry : entries) {
    const size_t slash = entry.name.find('/');
    if (slash == std::string::npos || entry.name.substr(slash + 1) != kPickleName) continue;
    if (pickle != nullptr) refuse("it has two of data.pkl", path());
    pickle = &entry;
    root = entry.name.substr(0, slash + 1);
  }
  if (pickle == nullptr) refuse("it is a zip file without data.pkl", path());
  for (const ZipEntry& entry : entries) {
    if (!entry.name.starts_with(root)) continue;
    const std::string_view name = std::string_view(entry.name).substr(root.size());
    if (name == "constants.pkl")
      refuse("it is a TorchScript program", path(),
             "save the weights of the model: torch.save(model.state_dict(), ...)");
    if (name == "byteorder" && entry.bytes != std::string_view("little").size())
      refuse("its tensors are big-endian", path(), "load it in Python and save it again on a little-endian machine");
    if (name.starts_with(kStorages))
      storages_.emplace(name.substr(kStorages.size()), Stored{.offset = entry.offset, .bytes = entry.bytes});
  }
  const PickleLimits limits;
  if (pickle->bytes > limits.bytes)
    refuse(cat("data.pkl has ", pickle->bytes, " bytes, the limit is ", limits.bytes), path());
  std::string text(pickle->bytes, '\0');
  read_bytes(pickle->offset, std::as_writable_bytes(std::span(text)));
  pickle_ = std::make_unique<Pickle>(text, cat(path(), ", ", kPickleName), is_known_global, limits);
}

// --- Tensors ---------------------------------------------------------------------------------------------------------

namespace {

// What a tensor says of itself.
struct Words {
  std::string type, key;  // of its storage
  uint64_t count = 0;     // elements of that
  uint64_t first = 0;
  std::vector<int64_t> shape, strides;
};

// (storage, first element, sizes, strides, ...), and a storage is ("storage", type, key, where it was, elements).
std::optional<Words> words_in(const Value& args) {
  const Value* const storage = item(&args, 0);
  const Value* const id = storage != nullptr && storage->is(Kind::kPersistent) ? storage->args : nullptr;
  const Value *const word = item(id, 0), *const type = item(id, 1), *const key = item(id, 2);
  const auto count = integer_in(item(id, 4)), first = integer_in(item(&args, 1));
  const Value *const sizes = item(&args, 2), *const strides = item(&args, 3);
  if (word == nullptr || word->text != "storage" || type == nullptr || !type->is(Kind::kGlobal) || key == nullptr ||
      !key->is(Kind::kText))
    return std::nullopt;
  if (!count || *count < 0 || !first || *first < 0 || sizes == nullptr || strides == nullptr) return std::nullopt;
  auto shape = shape_in(*sizes), steps = shape_in(*strides);
  if (!shape || !steps || shape->size() != steps->size() || !num_elements_of(*shape)) return std::nullopt;
  return Words{.type = type->text,
               .key = key->text,
               .count = static_cast<uint64_t>(*count),
               .first = static_cast<uint64_t>(*first),
               .shape = std::move(*shape),
               .strides = std::move(*steps)};
}

// One past the last element of the storage that it has.
std::optional<uint64_t> end_of(const Words& words) {
  if (num_elements_of(words.shape) == 0U) return words.first;
  uint64_t out = words.first + 1;
  for (size_t i = 0; i < words.shape.size(); ++i) {
    uint64_t far = 0;
    const auto steps = static_cast<uint64_t>(words.shape[i] - 1), stride = static_cast<uint64_t>(words.strides[i]);
    if (__builtin_mul_overflow(steps, stride, &far) || __builtin_add_overflow(out, far, &out)) return std::nullopt;
  }
  return out;
}

}  // namespace

std::optional<TorchTensor> TorchFile::tensor(const Value& value, const std::string& name) const {
  const Value* at = &value;
  // A parameter holds a tensor, which may be one with attributes: no deeper than that.
  for (int depth = 0; depth < 3; ++depth) {
    if (!at->is(Kind::kObject)) return std::nullopt;
    const std::string& of = at->of->text;
    if (is_rebuild(of)) return tensor_of(*at->args, of == kRebuildV3 ? item(at->args, 6) : nullptr, name);
    if (of == kFromType) {
      const Value *const function = item(at->args, 0), *const args = item(at->args, 2);
      if (function == nullptr || args == nullptr || !is_rebuild(function->text)) return std::nullopt;
      return tensor_of(*args, function->text == kRebuildV3 ? item(args, 6) : nullptr, name);
    }
    if (of != kParameter && of != kParameterWithState) return std::nullopt;
    at = item(at->args, 0);
    if (at == nullptr) return std::nullopt;
  }
  return std::nullopt;
}

TorchTensor TorchFile::tensor_of(const Value& args, const Value* dtype, const std::string& name) const {
  const std::string where = cat(path(), ", ", kPickleName), who = cat("tensor '", name, "' ");
  const auto words = words_in(args);
  if (!words) refuse(cat(who, "is not as torch.save writes one"), where);
  const auto found = storages_.find(words->key);
  if (found == storages_.end()) refuse(cat(who, "lies in storage '", words->key, "', which is not in the file"), where);
  const uint64_t bytes = found->second.bytes;
  TorchTensor out{
      .shape = words->shape, .strides = words->strides, .storage_offset = found->second.offset, .first = words->first};
  const auto stored_as = element_type(words->type), element = dtype == nullptr ? stored_as : element_type(dtype->text);
  if (!stored_as || !element) return out;  // an error only for those who want to read it
  if (words->count > bytes || words->count * stored_as->bytes != bytes)
    refuse(cat(who, "lies in a storage of ", words->count, " elements, the file has ", bytes, " bytes of it"), where);
  const auto end = end_of(*words);
  if (!end || *end > bytes / element->bytes) refuse(cat(who, "reaches past the end of its storage"), where);
  out.dtype = element->dtype;
  out.width = element->bytes;
  return out;
}

// --- Elements --------------------------------------------------------------------------------------------------------

void TorchFile::read_bytes(uint64_t offset, std::span<std::byte> into) const {
  if (file_->read_at(offset, into) != into.size()) refuse("the file has become shorter", path(), "use another copy");
}

void TorchFile::read(const TorchTensor& tensor, uint64_t first, std::span<std::byte> into) {
  WEFT_CHECK(tensor.width > 0 && into.size() % tensor.width == 0);
  const uint64_t count = into.size() / tensor.width;
  WEFT_CHECK(first <= tensor.num_elements() && count <= tensor.num_elements() - first);
  if (count == 0) return;
  if (tensor.is_contiguous()) return read_bytes(tensor.storage_offset + (tensor.first + first) * tensor.width, into);
  gather(tensor, first, into);
}

std::vector<std::byte> TorchFile::first_element(const TorchTensor& tensor) const {
  WEFT_CHECK(tensor.width > 0 && tensor.num_elements() > 0);
  std::vector<std::byte> out(tensor.width);
  read_bytes(tensor.storage_offset + tensor.first * tensor.width, out);
  return out;
}

// Element by element, in row-major order.
void TorchFile::gather(const TorchTensor& tensor, uint64_t first, std::span<std::byte> into) {
  const size_t dimensions = tensor.shape.size();
  std::vector<uint64_t> index(dimensions);
  uint64_t rest = first, at = tensor.first, span_end = tensor.first + 1;
  for (size_t i = dimensions; i-- > 0;) {
    const auto extent = static_cast<uint64_t>(tensor.shape[i]), stride = static_cast<uint64_t>(tensor.strides[i]);
    index[i] = rest % extent;
    rest /= extent;
    at += index[i] * stride;
    span_end += (extent - 1) * stride;
  }
  const uint64_t begin = tensor.storage_offset + tensor.first * tensor.width;
  const uint64_t end = tensor.storage_offset + span_end * tensor.width;
  const bool is_held = end - begin <= kMaxHeldBytes;
  for (uint64_t done = 0; done < into.size(); done += tensor.width) {
    const uint64_t offset = tensor.storage_offset + at * tensor.width;
    if (offset < window_begin_ || offset + tensor.width > window_begin_ + window_.size())
      is_held ? load_window(begin, end - begin) : load_window(offset, std::min(kPageBytes, end - offset));
    std::memcpy(into.data() + done, window_.data() + (offset - window_begin_), tensor.width);
    for (size_t i = dimensions; i-- > 0;) {
      const auto stride = static_cast<uint64_t>(tensor.strides[i]);
      at += stride;
      if (++index[i] < static_cast<uint64_t>(tensor.shape[i])) break;
      at -= index[i] * stride;
      index[i] = 0;
    }
  }
}

void TorchFile::load_window(uint64_t begin, uint64_t bytes) {
  window_.resize(bytes);
  window_begin_ = begin;
  read_bytes(begin, window_);
}

}  // namespace weft::checkpoint::foreign
