#include "weft/checkpoint/safetensors.h"

#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>
#include <c10/util/accumulate.h>

#include <algorithm>
#include <span>

#include "weft/base/check.h"
#include "weft/base/error.h"
#include "weft/base/hash.h"
#include "weft/base/text.h"
#include "weft/checkpoint/dtypes.h"
#include "weft/checkpoint/tensor_bytes_impl.h"

namespace weft::checkpoint {
namespace {

constexpr const char* kHashKey = "weft.xxh3_128";

at::Tensor on_cpu(const at::Tensor& tensor) { return tensor.detach().cpu().contiguous(); }

uint64_t bytes_of_spec(const TensorSpec& spec) {
  return static_cast<uint64_t>(c10::multiply_integers(spec.shape)) * c10::elementSize(spec.type);
}

// With a hash of the right length, which is known only when all bytes were seen.
SafetensorsHeader plan_header(const std::vector<TensorSpec>& specs,
                              const std::map<std::string, std::string>& metadata) {
  SafetensorsHeader header{.tensors = {}, .metadata = metadata, .data_begin = 0, .data_bytes = 0};
  for (const TensorSpec& spec : specs) {
    const uint64_t begin = header.data_bytes;
    header.data_bytes += bytes_of_spec(spec);
    header.tensors.push_back({.name = spec.name,
                              .dtype = dtype_name(spec.type, spec.name),
                              .shape = spec.shape,
                              .begin = begin,
                              .end = header.data_bytes});
  }
  header.metadata[kHashKey] = to_hex({});
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

void stream_safetensors(File& file, const std::vector<TensorSpec>& specs,
                        const std::function<at::Tensor(size_t number)>& tensor,
                        const std::map<std::string, std::string>& metadata) {
  SafetensorsHeader header = plan_header(specs, metadata);
  const uint64_t head_bytes = render_header(header).size();
  Hasher hasher;
  for (size_t i = 0; i < specs.size(); ++i) {
    const at::Tensor value = on_cpu(tensor(i));
    WEFT_CHECK_EQ(value.nbytes(), bytes_of_spec(specs[i]));
    WEFT_CHECK(value.scalar_type() == specs[i].type);
    file.write_at(head_bytes + header.tensors[i].begin, data_of(value));
    hasher.update(data_of(value));
  }
  header.metadata[kHashKey] = to_hex(hasher.finish());
  file.write_at(0, bytes_of(render_header(header)));
}

void write_safetensors(Env& env, const std::string& path, const NamedTensors& tensors,
                       const std::map<std::string, std::string>& metadata) {
  std::vector<TensorSpec> specs;
  for (const auto& [name, tensor] : tensors)
    specs.push_back({.name = name, .type = tensor.scalar_type(), .shape = tensor.sizes().vec()});
  publish_file(env, path, [&](File& file) {
    stream_safetensors(file, specs, [&](size_t number) { return tensors[number].second; }, metadata);
  });
}

TensorFile read_safetensors(Env& env, const std::string& path) {
  const auto file = env.open(path, OpenMode::kRead);
  const auto header = read_header(*file);
  TensorFile out{.tensors = {}, .metadata = header.metadata};
  for (const auto& entry : header.tensors) {
    auto tensor = at::empty(entry.shape, at::TensorOptions().dtype(dtype_of(entry.dtype)));
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
