// Stage 0: the optimizer as one file has it, by number, and whose numbers those are.
#include <algorithm>
#include <ranges>
#include <set>

#include "weft/base/text.h"
#include "weft/checkpoint/foreign/deepspeed_impl.h"

namespace weft::checkpoint::foreign {
namespace {

using Kind = Value::Kind;
using Role = DeepSpeedTensor::Role;
using Names = std::vector<std::pair<std::string, FilePart>>;

class WholeOptimizer {
 public:
  WholeOptimizer(std::shared_ptr<TorchFile> file, const Names& names, DeepSpeedCheckpoint& out)
      : file_(std::move(file)), names_(names), out_(out), outer_(file_->root().find("optimizer")) {
    if (outer_ == nullptr) return;
    inner_ = outer_->find("optimizer_state_dict") != nullptr ? outer_->find("optimizer_state_dict") : outer_;
    states_ = states_in(inner_);
    for (const Value* group : items_of(inner_->find("param_groups"))) groups_.push_back(group);
  }

  void read() {
    out_.optimizer_step = steps_in(*file_, inner_).value_or(out_.global_steps - out_.skipped_steps);
    const bool known = inner_ != nullptr && (is_flat() ? place_flat() : place_each());
    if (!known) {
      for (const auto& [name, part] : names_) out_.tensors.push_back(whole_tensor(Role::kParameter, name, part));
      out_.left_out.emplace_back(inner_ == nullptr ? "the optimizer: none was saved"
                                                   : "the optimizer, and fp32 weights where it has them: stage 0 does "
                                                     "not say whose they are, and neither the order nor "
                                                     "the shapes tell");
    }
  }

 private:
  // Where the fused optimizers of 16-bit training keep fp32 weights: a tensor a group, its parameters one after the other.
  bool is_flat() const { return outer_->find("fp32_groups_flat") != nullptr; }

  bool place_flat() {
    const std::vector<const Value*> flats = items_of(outer_->find("fp32_groups_flat"));
    if (flats.size() != 1 || groups_.size() != 1 || states_.size() > 1) return false;
    const FilePart masters = part_of(file_, *flats[0], "fp32_groups_flat");
    uint64_t size = 0;
    for (const auto& [name, part] : names_) size += part.tensor.num_elements();
    if (masters.tensor.num_elements() != size) return false;
    place_slices(masters, Role::kParameter, "");
    for (const auto& [number, state] : states_) {
      for (const auto& [kind, value] : entries_of(state)) {
        if (kind == "step") continue;
        const auto tensor = file_->tensor(*value, std::string(kind));
        const bool fits = is_known(kind) && tensor && !tensor->dtype.empty() && tensor->num_elements() == size;
        fits ? place_slices({.file = file_, .tensor = *tensor}, Role::kOptimizer, kind) : leave_out(kind);
      }
    }
    return true;
  }

  void place_slices(const FilePart& flat, Role role, std::string_view kind) {
    uint64_t at = 0;
    for (const auto& [name, part] : names_) {
      const uint64_t size = part.tensor.num_elements();
      DeepSpeedTensor tensor{.role = role,
                             .kind = std::string(kind),
                             .name = name,
                             .shape = part.tensor.shape,
                             .dtype = flat.tensor.dtype};
      tensor.elements.add(flat, at, size);
      out_.tensors.push_back(std::move(tensor));
      at += size;
    }
  }

  bool place_each() {
    const std::vector<const Value*> masters = masters_by_number();
    const std::vector<std::vector<int64_t>> shapes = shapes_by_number(masters);
    const auto owners = owners_of(shapes);
    if (!owners) return false;
    std::set<size_t> placed;
    for (size_t i = 0; i < owners->size(); ++i) {
      const auto& [name, part] = names_[(*owners)[i]];
      placed.insert((*owners)[i]);
      out_.tensors.push_back(
          whole_tensor(Role::kParameter, name, masters.empty() ? part : part_of(file_, *masters[i], name)));
      if (const auto state = states_.find(static_cast<int64_t>(i)); state != states_.end())
        place_state(*state->second, name, part);
    }
    for (size_t i = 0; i < names_.size(); ++i) {  // frozen, and no business of the optimizer's
      if (!placed.contains(i))
        out_.tensors.push_back(whole_tensor(Role::kParameter, names_[i].first, names_[i].second));
    }
    return true;
  }

  std::vector<const Value*> masters_by_number() const {
    std::vector<const Value*> out;
    for (const Value* group : items_of(outer_->find("fp32_groups"))) {
      for (const Value* one : items_of(group)) out.push_back(one);
    }
    return out;
  }

  // Of each parameter of the optimizer: as its fp32 copy or its state has it. Empty: nobody knows.
  std::vector<std::vector<int64_t>> shapes_by_number(const std::vector<const Value*>& masters) const {
    std::vector<std::vector<int64_t>> out;
    for (const Value* one : masters) out.push_back(part_of(file_, *one, "fp32_groups").tensor.shape);
    if (!out.empty()) return out;
    size_t count = 0;
    for (const Value* group : groups_) count += items_of(group->find("params")).size();
    for (size_t i = 0; i < count; ++i) {
      const auto state = states_.find(static_cast<int64_t>(i));
      if (state == states_.end()) return {};
      std::optional<TorchTensor> found;
      for (const auto& [kind, value] : entries_of(state->second)) {
        if (!found && is_known(kind)) found = file_->tensor(*value, std::string(kind));
      }
      if (!found) return {};
      out.push_back(found->shape);
    }
    return out;
  }

  // Whose each number is: as the groups say, in the model's order where all is one group, or by shapes where those tell.
  std::optional<std::vector<size_t>> owners_of(const std::vector<std::vector<int64_t>>& shapes) const {
    if (shapes.empty()) return std::nullopt;
    std::vector<size_t> out = owners_by_name();
    if (out.empty()) out = groups_.size() == 1 ? owners_in_order(shapes) : owners_by_shape(shapes);
    if (out.size() != shapes.size()) return std::nullopt;
    for (size_t i = 0; i < out.size(); ++i) {
      if (names_[out[i]].second.tensor.shape != shapes[i]) return std::nullopt;
    }
    return out;
  }

  std::vector<size_t> owners_by_name() const {
    std::map<std::string_view, size_t> numbers;
    for (size_t i = 0; i < names_.size(); ++i) numbers.emplace(names_[i].first, i);
    std::vector<size_t> out;
    for (const Value* group : groups_) {
      const std::vector<const Value*> names = items_of(group->find("param_names"));
      if (names.size() != items_of(group->find("params")).size()) return {};
      for (const Value* name : names) {
        const auto found = numbers.find(name->text);
        if (found == numbers.end()) return {};
        out.push_back(found->second);
      }
    }
    return out;
  }

  // All of the model's or some, frozen ones being left out. Taken from the front and from the back: where that gives the same, there is
  // no other way.
  std::vector<size_t> owners_in_order(const std::vector<std::vector<int64_t>>& shapes) const {
    std::vector<size_t> out, back;
    for (size_t i = 0; i < names_.size(); ++i) {
      if (out.size() < shapes.size() && names_[i].second.tensor.shape == shapes[out.size()]) out.push_back(i);
      const size_t last = names_.size() - 1 - i;
      if (back.size() < shapes.size() && names_[last].second.tensor.shape == shapes[shapes.size() - 1 - back.size()])
        back.push_back(last);
    }
    return out.size() == shapes.size() && std::ranges::equal(out, std::views::reverse(back)) ? out
                                                                                             : std::vector<size_t>();
  }

  std::vector<size_t> owners_by_shape(const std::vector<std::vector<int64_t>>& shapes) const {
    std::map<std::vector<int64_t>, std::vector<size_t>> with_shape;
    for (size_t i = 0; i < names_.size(); ++i) with_shape[names_[i].second.tensor.shape].push_back(i);
    std::set<size_t> taken;
    std::vector<size_t> out;
    for (const auto& shape : shapes) {
      const auto found = with_shape.find(shape);
      if (found == with_shape.end() || found->second.size() != 1 || !taken.insert(found->second[0]).second) return {};
      out.push_back(found->second[0]);
    }
    return out;
  }

  void place_state(const Value& state, const std::string& name, const FilePart& part) {
    for (const auto& [kind, value] : entries_of(&state)) {
      if (kind == "step") continue;
      const auto tensor = file_->tensor(*value, name);
      if (!is_known(kind) || !tensor || tensor->dtype.empty() || tensor->shape != part.tensor.shape) {
        leave_out(kind);
        continue;
      }
      out_.tensors.push_back(whole_tensor(Role::kOptimizer, name, {.file = file_, .tensor = *tensor}));
      out_.tensors.back().kind = kind;
    }
  }

  static bool is_known(std::string_view kind) { return std::ranges::find(kStateKinds, kind) != std::end(kStateKinds); }
  void leave_out(std::string_view kind) {
    const std::string line = cat("the optimizer's '", kind, "'");
    if (std::ranges::find(out_.left_out, line) == out_.left_out.end()) out_.left_out.push_back(line);
  }

  const std::shared_ptr<TorchFile> file_;
  const Names& names_;
  DeepSpeedCheckpoint& out_;
  const Value* const outer_;
  const Value* inner_ = nullptr;
  std::map<int64_t, const Value*> states_;
  std::vector<const Value*> groups_;
};

}  // namespace

void read_whole_optimizer(const std::shared_ptr<TorchFile>& file, const Names& names, DeepSpeedCheckpoint& out) {
  WholeOptimizer(file, names, out).read();
}

}  // namespace weft::checkpoint::foreign
