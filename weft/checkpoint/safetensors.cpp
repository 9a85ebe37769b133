#include "weft/checkpoint/safetensors.h"

#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <span>

#include "weft/base/check.h"
#include "weft/base/error.h"
#include "weft/base/hash.h"
#include "weft/base/text.h"
#include "weft/checkpoint/safetensors_header.h"

namespace weft::checkpoint {
namespace {

constexpr const char* kHashKey = "weft.xxh3_128";

// On-disk: the names are the format's own, never change them.
constexpr std::pair<const char*, at::ScalarType> kDtypes[] = {
    {"F64", at::kDouble}, {"F32", at::kFloat}, {"F16", at::kHalf}, {"BF16", at::kBFloat16}, {"I64", at::kLong},
    {"I32", at::kInt},    {"I16", at::kShort}, {"I8", at::kChar},  {"U8", at::kByte},       {"BOOL", at::kBool}};

const char* name_of(at::ScalarType type, const std::string& tensor) {
  for (const auto& [name, dtype] : kDtypes) {
    if (dtype == type) return name;
  }
  throw Error(ErrorKind::kInput, {.title = "a tensor has a dtype that safetensors cannot hold",
                                  .what = cat("tensor '", tensor, "' is ", c10::toString(type)),
                                  .where = "",
                                  .fix = "convert it first"});
}

at::ScalarType type_of(const std::string& dtype) {
  const auto* found = std::ranges::find_if(kDtypes, [&](const auto& pair) { return dtype == pair.first; });
  WEFT_CHECK(found != std::end(kDtypes));  // the header parser knows the same names
  return found->second;
}

at::Tensor on_cpu(const at::Tensor& tensor) { return tensor.detach().cpu().contiguous(); }

std::span<const std::byte> data_of(const at::Tensor& tensor) {
  return {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()};
}

SafetensorsHeader plan_header(const NamedTensors& tensors, const std::map<std::string, std::string>& metadata) {
  SafetensorsHeader header{.tensors = {}, .metadata = metadata, .data_begin = 0, .data_bytes = 0};
  Hasher hasher;
  for (const auto& [name, tensor] : tensors) {
    const auto value = on_cpu(tensor);
    const uint64_t begin = header.data_bytes;
    header.data_bytes += value.nbytes();
    header.tensors.push_back({.name = name,
                              .dtype = name_of(value.scalar_type(), name),
                              .shape = value.sizes().vec(),
                              .begin = begin,
                              .end = header.data_bytes});
    hasher.update(data_of(value));
  }
  header.metadata[kHashKey] = to_hex(hasher.finish());
  return header;
}

void check_hash(const TensorFile& file, const SafetensorsHeader& header, const std::string& path) {
  const auto recorded = header.metadata.find(kHashKey);
  if (recorded == header.metadata.end()) return;
  Hasher hasher;
  for (const auto& entry : header.tensors) hasher.update(data_of(file.tensors.at(entry.name)));
  const std::string found = to_hex(hasher.finish());
  if (found == recorded->second) return;
  throw Error(ErrorKind::kInput, {.title = "the file's bytes are not the bytes that were written",
                                  .what = cat("XXH3-128 is ", found, ", the header says ", recorded->second),
                                  .where = path,
                                  .fix = "the file is damaged: use another copy, and check the disk"});
}

}  // namespace

void write_safetensors(Env& env, const std::string& path, const NamedTensors& tensors,
                       const std::map<std::string, std::string>& metadata) {
  const std::string head = render_header(plan_header(tensors, metadata));
  publish_file(env, path, [&](File& file) {
    file.write_at(0, bytes_of(head));
    uint64_t at = head.size();
    for (const auto& [name, tensor] : tensors) {
      const auto value = on_cpu(tensor);
      file.write_at(at, data_of(value));
      at += value.nbytes();
    }
  });
}

TensorFile read_safetensors(Env& env, const std::string& path) {
  const auto file = env.open(path, OpenMode::kRead);
  const uint64_t file_bytes = file->size();
  std::string head(8, '\0');
  head.resize(file->read_at(0, std::as_writable_bytes(std::span(head))));
  std::string text(parse_header_length(head, file_bytes, path), '\0');
  file->read_at(8, std::as_writable_bytes(std::span(text)));
  const auto header = parse_header(text, file_bytes, path);
  TensorFile out{.tensors = {}, .metadata = header.metadata};
  for (const auto& entry : header.tensors) {
    auto tensor = at::empty(entry.shape, at::TensorOptions().dtype(type_of(entry.dtype)));
    file->read_at(header.data_begin + entry.begin,
                  {static_cast<std::byte*>(tensor.mutable_data_ptr()), tensor.nbytes()});
    out.tensors.emplace(entry.name, std::move(tensor));
  }
  check_hash(out, header, path);
  return out;
}

void load_into(const TensorFile& file, const NamedTensors& targets, const std::string& path) {
  std::vector<std::string> problems;
  for (const auto& [name, target] : targets) {
    const auto found = file.tensors.find(name);
    if (found == file.tensors.end()) {
      problems.push_back(cat("'", name, "' is missing"));
    } else if (found->second.sizes() != target.sizes()) {
      problems.push_back(cat("'", name, "' has another shape"));
    } else if (found->second.scalar_type() != target.scalar_type()) {
      problems.push_back(cat("'", name, "' is ", c10::toString(found->second.scalar_type()), ", the model wants ",
                             c10::toString(target.scalar_type())));
    }
  }
  for (const auto& [name, tensor] : file.tensors) {
    const auto known = std::ranges::find(targets, name, &NamedTensors::value_type::first);
    if (known == targets.end()) problems.push_back(cat("'", name, "' is not a tensor of this model"));
  }
  if (!problems.empty()) {
    throw Error(ErrorKind::kInput, {.title = "the file does not fit the model",
                                    .what = join(problems, "\n"),
                                    .where = path,
                                    .fix = "give the flags the file was written with (--dim, --layers, --vocab, ...)"});
  }
  const at::NoGradGuard no_grad;
  for (const auto& [name, target] : targets) {
    auto into = target;
    into.copy_(file.tensors.at(name));
  }
}

}  // namespace weft::checkpoint
