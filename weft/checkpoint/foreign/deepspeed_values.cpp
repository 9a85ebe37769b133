// Small readings of the values in DeepSpeed's files.
#include <cmath>
#include <cstring>

#include "weft/base/error.h"
#include "weft/base/text.h"
#include "weft/checkpoint/foreign/deepspeed_impl.h"

namespace weft::checkpoint::foreign {

namespace {
using Kind = Value::Kind;
}  // namespace

void refuse_layout(std::string what, const std::string& path) {
  throw Error(ErrorKind::kInput,
              {.title = "not a DeepSpeed checkpoint that can be imported",
               .what = std::move(what),
               .where = path,
               .fix = "files of different checkpoints lie in one folder, or another version of DeepSpeed wrote them"});
}

std::vector<Entry> entries_of(const Value* dict) {
  std::vector<Entry> out;
  if (dict == nullptr || !dict->is(Kind::kDict)) return out;
  for (size_t i = 0; i + 1 < dict->items.size(); i += 2) {
    if (dict->items[i]->is(Kind::kText)) out.emplace_back(dict->items[i]->text, dict->items[i + 1]);
  }
  return out;
}

std::map<std::string_view, const Value*> by_name(const Value* dict) {
  std::map<std::string_view, const Value*> out;
  for (const auto& [name, value] : entries_of(dict)) out[name] = value;
  return out;
}

std::vector<const Value*> items_of(const Value* list) {
  if (list == nullptr || (!list->is(Kind::kList) && !list->is(Kind::kTuple))) return {};
  return list->items;
}

std::vector<int64_t> checked_shape(const Value& value, std::string_view name, const TorchFile& file) {
  const auto shape = shape_in(value);
  if (!shape || !num_elements_of(*shape)) refuse_layout(cat("'", name, "' has a shape that is none"), file.path());
  return *shape;
}

uint64_t checked_size(const std::vector<int64_t>& shape) { return num_elements_of(shape).value_or(0); }

FilePart part_of(const std::shared_ptr<TorchFile>& file, const Value& value, std::string_view name) {
  auto tensor = file->tensor(value, std::string(name));
  if (!tensor || tensor->dtype.empty())
    refuse_layout(cat("'", name, "' is ", tensor ? "of a type that weft cannot hold" : described(value)), file->path());
  return {.file = file, .tensor = std::move(*tensor)};
}

DeepSpeedTensor whole_tensor(DeepSpeedTensor::Role role, std::string name, const FilePart& part) {
  DeepSpeedTensor out{.role = role, .name = std::move(name), .shape = part.tensor.shape, .dtype = part.tensor.dtype};
  out.elements.add(part, 0, part.tensor.num_elements());
  return out;
}

std::map<int64_t, const Value*> states_in(const Value* optimizer_state) {
  std::map<int64_t, const Value*> out;
  if (optimizer_state == nullptr) return out;
  const std::vector<const Value*> list = items_of(optimizer_state);
  for (size_t i = 0; i < list.size(); ++i) out.emplace(static_cast<int64_t>(i), list[i]);
  const Value* const state = optimizer_state->find("state");
  if (state == nullptr || !state->is(Kind::kDict)) return out;
  for (size_t i = 0; i + 1 < state->items.size(); i += 2) {
    if (const auto number = integer_in(state->items[i])) out[*number] = state->items[i + 1];
  }
  return out;
}

namespace {

// A number, or a tensor that is one.
std::optional<double> scalar_in(const TorchFile& file, const Value* value) {
  if (value == nullptr) return std::nullopt;
  if (const auto number = number_in(value)) return number;
  const auto tensor = file.tensor(*value, "step");
  if (!tensor || tensor->num_elements() != 1) return std::nullopt;
  const std::vector<std::byte> bytes = file.first_element(*tensor);
  if (tensor->dtype == "F32") {
    float number = 0;
    std::memcpy(&number, bytes.data(), sizeof number);
    return number;
  }
  if (tensor->dtype != "I64") return std::nullopt;
  int64_t number = 0;
  std::memcpy(&number, bytes.data(), sizeof number);
  return static_cast<double>(number);
}

std::optional<int64_t> whole_number(std::optional<double> number) {
  constexpr double kMost = 1e15;
  if (!number || !(*number >= 0) || *number > kMost) return std::nullopt;
  return std::llround(*number);
}

}  // namespace

std::optional<int64_t> steps_in(const TorchFile& file, const Value* optimizer_state) {
  for (const auto& [number, state] : states_in(optimizer_state)) {
    if (const auto steps = whole_number(scalar_in(file, state->find("step")))) return steps;
  }
  if (optimizer_state == nullptr) return std::nullopt;
  for (const Value* group : items_of(optimizer_state->find("param_groups"))) {
    if (const auto steps = whole_number(scalar_in(file, group->find("step")))) return steps;
  }
  return std::nullopt;
}

}  // namespace weft::checkpoint::foreign
