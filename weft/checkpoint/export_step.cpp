#include "weft/checkpoint/export_step.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "weft/base/check.h"
#include "weft/base/error.h"
#include "weft/base/half.h"
#include "weft/base/text.h"
#include "weft/checkpoint/model_files.h"
#include "weft/checkpoint/safetensors_header.h"
#include "weft/checkpoint/state_names.h"
#include "weft/checkpoint/step_reader.h"

namespace weft::checkpoint {
namespace {

constexpr uint64_t kPieceElements = 1 << 20;

struct ToExport {
  std::string name;  // in the step
  std::string dtype;
  StoredTensor from;
  uint64_t bytes = 0;
};

bool is_float(std::string_view dtype) { return dtype == "F32" || dtype == "BF16" || dtype == "F16"; }

std::vector<ToExport> tensors_in(const Manifest& manifest, const ExportOptions& options, const std::string& folder) {
  std::vector<ToExport> out;
  for (const auto& [name, tensor] : manifest.tensors) {
    if (!name.starts_with(kParamPrefix)) continue;
    const std::string dtype = !options.dtype.empty() && is_float(tensor.dtype) ? options.dtype : tensor.dtype;
    out.push_back({name, dtype, tensor, numel_of(tensor) * dtype_bytes(dtype).value()});
  }
  if (!out.empty()) return out;
  throw Error(ErrorKind::kInput,
              {.title = "the step has no parameters to export",
               .what = cat(manifest.tensors.size(), " tensors, none of them named ", kParamPrefix, "..."),
               .where = folder,
               .fix = "export a step that an engine saved"});
}

// In the order of their names.
std::vector<std::vector<ToExport>> shared_out(const std::vector<ToExport>& tensors, uint64_t max_bytes) {
  std::vector<uint64_t> bytes;
  for (const ToExport& tensor : tensors) bytes.push_back(tensor.bytes);
  std::vector<std::vector<ToExport>> out;
  for (const auto& numbers : split_into_files(bytes, max_bytes)) {
    auto& file = out.emplace_back();
    for (const size_t number : numbers) file.push_back(tensors[number]);
  }
  return out;
}

float value_of(const std::byte* at, std::string_view dtype) {
  if (dtype == "F32") {
    float value = 0;
    std::memcpy(&value, at, sizeof value);
    return value;
  }
  uint16_t bits = 0;
  std::memcpy(&bits, at, sizeof bits);
  return dtype == "F16" ? float_of_half(bits) : float_of_bfloat16(bits);
}

void put(float value, std::byte* at, std::string_view dtype) {
  if (dtype == "F32") {
    std::memcpy(at, &value, sizeof value);
    return;
  }
  const uint16_t bits = dtype == "F16" ? half_of_float(value) : bfloat16_of_float(value);
  std::memcpy(at, &bits, sizeof bits);
}

std::vector<std::byte> converted(const std::vector<std::byte>& from, const ToExport& tensor) {
  if (tensor.dtype == tensor.from.dtype) return from;
  const uint64_t width = width_of(tensor.from), new_width = dtype_bytes(tensor.dtype).value();
  std::vector<std::byte> out(from.size() / width * new_width);
  for (uint64_t i = 0; i < from.size() / width; ++i)
    put(value_of(from.data() + i * width, tensor.from.dtype), out.data() + i * new_width, tensor.dtype);
  return out;
}

class Exporter {
 public:
  Exporter(Env& env, StepReader& reader, const ExportOptions& options, uint64_t total_bytes)
      : env_(env), reader_(reader), options_(options), total_bytes_(total_bytes) {}

  void write_file(const std::string& path, const std::vector<ToExport>& tensors) {
    SafetensorsHeader header{.tensors = {}, .metadata = {{"format", "pt"}}};
    for (const ToExport& tensor : tensors) {
      const uint64_t begin = header.data_bytes;
      header.data_bytes += tensor.bytes;
      header.tensors.push_back({.name = tensor.name.substr(kParamPrefix.size()),
                                .dtype = tensor.dtype,
                                .shape = tensor.from.shape,
                                .begin = begin,
                                .end = header.data_bytes});
    }
    const std::string head = render_header(header);
    publish_file(env_, path, [&](File& file) {
      file.write_at(0, bytes_of(head));
      uint64_t at = head.size();
      for (const ToExport& tensor : tensors) at = write_tensor(file, at, tensor);
    });
  }

 private:
  uint64_t write_tensor(File& file, uint64_t at, const ToExport& tensor) {
    const uint64_t numel = numel_of(tensor.from);
    for (uint64_t begin = 0; begin < numel; begin += kPieceElements) {
      const uint64_t end = std::min(numel, begin + kPieceElements);
      std::vector<std::byte> bytes((end - begin) * width_of(tensor.from));
      reader_.read(tensor.name, begin, end, bytes);
      bytes = converted(bytes, tensor);
      file.write_at(at, bytes);
      at += bytes.size();
      done_bytes_ += bytes.size();
      if (options_.progress) options_.progress(done_bytes_, total_bytes_);
    }
    return at;
  }

  Env& env_;
  StepReader& reader_;
  const ExportOptions& options_;
  const uint64_t total_bytes_;
  uint64_t done_bytes_ = 0;
};

void check_empty(Env& env, const std::string& folder) {
  for (const std::string& name : env.list(folder)) {
    if (!name.starts_with("model")) continue;
    throw Error(ErrorKind::kInput, {.title = "there is an exported model already",
                                    .what = cat("'", name, "'"),
                                    .where = folder,
                                    .fix = "export into another folder, or remove that one"});
  }
}

}  // namespace

Exported export_step(Env& env, const StepPlace& place, const std::string& out_folder, const ExportOptions& options) {
  StepReader reader(env, place.folder, open_step(env, place));
  const auto files = shared_out(tensors_in(reader.manifest(), options, place.folder), options.max_file_bytes);
  make_folders_durably(env, out_folder);
  check_empty(env, out_folder);
  Exported out;
  std::map<std::string, std::string> file_of;
  for (size_t i = 0; i < files.size(); ++i) {
    const std::string file = model_file_name(i, files.size());
    out.files.push_back(cat(out_folder, "/", file));
    for (const ToExport& tensor : files[i]) {
      ++out.num_tensors;
      out.bytes += tensor.bytes;
      file_of.emplace(tensor.name.substr(kParamPrefix.size()), file);
    }
  }
  Exporter exporter(env, reader, options, out.bytes);
  for (size_t i = 0; i < files.size(); ++i) exporter.write_file(out.files[i], files[i]);
  if (files.size() == 1) return out;
  out.files.push_back(cat(out_folder, "/", kModelIndex));
  publish_file(env, out.files.back(), bytes_of(render_index(file_of, out.bytes)));
  return out;
}

}  // namespace weft::checkpoint
