#include "weft/checkpoint/import_step.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "weft/base/error.h"
#include "weft/base/text.h"
#include "weft/base/units.h"
#include "weft/checkpoint/foreign/deepspeed.h"
#include "weft/checkpoint/manifest_impl.h"
#include "weft/checkpoint/state_names.h"
#include "weft/checkpoint/store.h"
#include "weft/checkpoint/store_lock.h"
#include "weft/checkpoint/store_names.h"
#include "weft/checkpoint/store_writer.h"
#include "weft/checkpoint/weight_files.h"

namespace weft::checkpoint {
namespace {

constexpr uint64_t kPieceBytes = 4 << 20;
constexpr uint64_t kOverheadBytes = 1 << 20;  // headers, the manifest

uint64_t bytes_of_tensor(const StoredTensor& tensor) { return numel_of(tensor) * width_of(tensor); }

// As the engine writes them (engine/saved_numbers.h). Without rates: those of the config count.
std::string numbers_text(int64_t global_steps, int64_t micro_steps, int64_t skipped_steps) {
  return cat("global_steps ", global_steps, "\nmicro_steps ", micro_steps, "\nskipped_steps ", skipped_steps, "\n");
}

ImportPlan plan_weights(Env& env, const std::string& source) {
  const auto files = std::make_shared<WeightFiles>(env, source);
  ImportPlan out{.from = files->has_pickles() ? "weights of torch.save" : "weights in safetensors"};
  out.sections[std::string(kNumbersSection)] = numbers_text(0, 0, 0);
  for (const std::string& name : files->names()) {
    const auto tied = files->tied().find(name);
    if (tied != files->tied().end()) {
      out.left_out.push_back(cat("'", name, "', which is '", tied->second, "' under another name"));
      continue;
    }
    out.tensors.push_back(
        {.name = cat(kParamPrefix, name),
         .tensor = *files->find(name),
         .read = [files, name](uint64_t first, std::span<std::byte> into) { files->read(name, first, into); }});
  }
  out.left_out.insert(out.left_out.end(), files->others().begin(), files->others().end());
  return out;
}

// --- DeepSpeed -------------------------------------------------------------------------------------------------------

std::string name_of(const foreign::DeepSpeedTensor& tensor) {
  using Role = foreign::DeepSpeedTensor::Role;
  if (tensor.role == Role::kParameter) return cat(kParamPrefix, tensor.name);
  return tensor.role == Role::kBuffer ? cat(kBufferPrefix, tensor.name)
                                      : cat(kOptimPrefix, tensor.kind, "/", tensor.name);
}

template <typename T>
TensorToImport counter(std::string_view name, std::string_view dtype, const std::vector<int64_t>& shape,
                       const std::vector<T>& values) {
  return {.name = cat(kCounterPrefix, name),
          .tensor = {.dtype = std::string(dtype), .shape = shape},
          .read = [values](uint64_t first, std::span<std::byte> into) {
            std::memcpy(into.data(), values.data() + first, into.size());
          }};
}

ImportPlan plan_deepspeed(const foreign::DeepSpeedFiles& files) {
  foreign::DeepSpeedCheckpoint found = read_deepspeed(files);
  ImportPlan out{.from = cat("DeepSpeed", found.version.empty() ? "" : " ", found.version, ", ZeRO stage ", found.stage,
                             ", ", found.world, found.world == 1 ? " rank" : " ranks"),
                 .step = found.global_steps,
                 .left_out = std::move(found.left_out)};
  for (foreign::DeepSpeedTensor& tensor : found.tensors) {
    out.tensors.push_back({.name = name_of(tensor),
                           .tensor = {.dtype = tensor.dtype, .shape = tensor.shape},
                           .read = [elements = std::move(tensor.elements)](uint64_t first, std::span<std::byte> into) {
                             elements.read(first, into);
                           }});
  }
  out.tensors.push_back(counter<float>("step", "F32", {}, {static_cast<float>(found.optimizer_step)}));
  if (found.scale) {
    const auto& scale = *found.scale;
    out.tensors.push_back(
        counter<double>("loss_scale", "F64", {4},
                        {scale.scale, static_cast<double>(scale.num_updates), static_cast<double>(scale.last_overflow),
                         static_cast<double>(scale.hysteresis_left)}));
  }
  out.sections[std::string(kNumbersSection)] = numbers_text(found.global_steps, found.micro_steps, found.skipped_steps);
  out.sections[std::string(kTagSection)] = files.tag;
  for (const auto& [key, value] : found.client) {
    // A manifest would refuse it, when everything has been written.
    if (is_plain_name(cat(kClientPrefix, key))) {
      out.sections[cat(kClientPrefix, key)] = value;
    } else {
      out.left_out.emplace_back("a value of the program's whose name is not plain text");
    }
  }
  return out;
}

// --- The step --------------------------------------------------------------------------------------------------------

void check_new(Env& env, const std::string& store, int64_t step) {
  for (const StepPlace& place : list_steps(env, store)) {
    if (place.step != step) continue;
    throw Error(ErrorKind::kInput, {.title = cat("the store has a step ", step, " already"),
                                    .what = "",
                                    .where = place.folder,
                                    .fix = "give it another number with --step, or import into another store"});
  }
}

void check_room(Env& env, const std::string& store, uint64_t bytes) {
  const uint64_t free = env.free_bytes(store), needed = bytes + kOverheadBytes;
  if (free >= needed) return;
  throw Error(ErrorKind::kEnvironment,
              {.title = "there is no room on the disk for the step",
               .what = cat("it takes ", format_bytes(needed), ", ", format_bytes(free), " are free"),
               .where = store,
               .fix = "remove what is not needed, or import to another disk"});
}

std::vector<SliceToSave> slices_of(const ImportPlan& plan) {
  std::vector<SliceToSave> out;
  for (const TensorToImport& one : plan.tensors)
    out.push_back({.tensor = one.name,
                   .dtype = one.tensor.dtype,
                   .shape = one.tensor.shape,
                   .begin = 0,
                   .end = numel_of(one.tensor)});
  return out;
}

}  // namespace

ImportPlan plan_import(Env& env, const std::string& source, const ImportOptions& options) {
  const auto deepspeed = foreign::open_deepspeed(env, source, options.tag);
  ImportPlan out = deepspeed ? plan_deepspeed(*deepspeed) : plan_weights(env, source);
  out.step = options.step.value_or(out.step);
  out.sections[cat(kClientPrefix, kImportedFrom)] = out.from;
  return out;
}

Imported import_step(Env& env, const std::string& store, const ImportPlan& plan,
                     const std::function<void(uint64_t done_bytes, uint64_t total_bytes)>& progress) {
  Imported out{.step = plan.step, .num_tensors = plan.tensors.size()};
  for (const TensorToImport& one : plan.tensors) out.bytes += bytes_of_tensor(one.tensor);
  const StoreLock lock(env, store);
  check_new(env, store, plan.step);
  sweep_store(env, store, std::nullopt);
  check_room(env, store, out.bytes);
  RankFileWriter writer(env, store, plan.step, 0, slices_of(plan));
  std::vector<std::byte> piece;
  uint64_t done = 0;
  for (const TensorToImport& one : plan.tensors) {
    const uint64_t width = width_of(one.tensor), count = numel_of(one.tensor), step = kPieceBytes / width;
    for (uint64_t first = 0; first < count; first += step) {
      piece.resize(std::min(step, count - first) * width);
      one.read(first, piece);
      writer.append(piece);
      done += piece.size();
      if (progress) progress(done, out.bytes);
    }
  }
  const Part part = writer.finish();
  commit_step(env, store, {.step = plan.step, .world = 1, .sections = plan.sections}, std::span(&part, 1));
  return out;
}

}  // namespace weft::checkpoint
