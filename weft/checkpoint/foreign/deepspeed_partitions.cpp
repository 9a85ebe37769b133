// Stages 1 to 3: parameters out of the ranks' flat groups.
#include <algorithm>
#include <set>

#include "weft/base/text.h"
#include "weft/checkpoint/foreign/deepspeed_impl.h"

namespace weft::checkpoint::foreign {
namespace {

using Kind = Value::Kind;
using Role = DeepSpeedTensor::Role;

// Of stages 1 and 2, by group: the ranks' partitions. Of stage 3, by rank: its groups. In both, one row is laid end to end.
using Parts = std::vector<std::vector<FilePart>>;

struct Slot {
  std::string name;
  std::vector<int64_t> shape;
  uint64_t size = 0;   // elements
  size_t group = 0;    // stages 1 and 2
  uint64_t first = 0;  // where it begins: in its group, or in each rank's part of all groups
};

class Partitions {
 public:
  Partitions(const DeepSpeedFiles& files, DeepSpeedCheckpoint& out) : files_(files), out_(out) {
    for (const auto& file : files.optims) {
      const Value* const state = file->root().find("optimizer_state_dict");
      if (state == nullptr) refuse_layout("it has no 'optimizer_state_dict'", file->path());
      states_.push_back(state);
    }
    out_.stage = stage();
    out_.world = static_cast<int>(states_.size());
    check_world();
  }

  void read() {
    const Parts masters = parts_of(
        [&](size_t rank) {
          return items_of(states_[rank]->find(is_3() ? "fp32_flat_groups" : "single_partition_of_fp32_groups"));
        },
        "the fp32 weights");
    const std::vector<Slot> slots = is_3() ? slots_by_parameter(masters) : slots_by_group(masters);
    add(slots, masters, Role::kParameter, "");
    read_states(slots, masters);
    const Value* const inner = optimizer_of(0);
    const auto steps = steps_in(*files_.optims[0], inner);
    const auto saved = integer_in(states_[0]->find("base_optimizer_state_step"));
    out_.optimizer_step = steps ? *steps : saved.value_or(out_.global_steps - out_.skipped_steps);
  }

 private:
  bool is_3() const { return out_.stage == 3; }
  const std::string& path() const { return files_.optims[0]->path(); }
  uint64_t world() const { return states_.size(); }
  const Value* optimizer_of(size_t rank) const {
    return states_[rank]->find(is_3() ? "optimizer_state_dict" : "base_optimizer_state");
  }

  int stage() const {
    const Value* const said = states_[0]->find("zero_stage");
    // An enum: its class called with its number.
    const bool is_enum = said != nullptr && said->is(Kind::kObject) && said->args->items.size() == 1;
    const auto number = integer_in(is_enum ? said->args->items[0] : said);
    if (number && *number >= 1 && *number <= 3) return static_cast<int>(*number);
    // bf16's own optimizer lays things out as stage 1 does, and does not say so.
    if (said == nullptr && states_[0]->find("single_partition_of_fp32_groups") != nullptr) return 1;
    refuse_layout("its 'zero_stage' is none of 1, 2 and 3", path());
  }

  void check_world() const {
    const Value* const said = states_[0]->find("partition_count");
    int64_t count = integer_in(said).value_or(0);
    for (const Value* one : items_of(said)) count = std::max(count, integer_in(one).value_or(0));
    if (count != static_cast<int64_t>(world()))
      refuse_layout(cat("it is of ", count, " ranks, files of ", world(), " are there"), path());
    if (is_3() && files_.models.size() != world())
      refuse_layout(cat(world(), " ranks saved their optimizer, and ", files_.models.size(), " their model"),
                    files_.folder);
  }

  // The tensors that every rank has of every group.
  template <typename ListOfRank>
  Parts parts_of(const ListOfRank& list_of, std::string_view what) const {
    Parts out;
    const size_t groups = list_of(0).size();
    out.resize(is_3() ? world() : groups);
    for (size_t rank = 0; rank < world(); ++rank) {
      const std::vector<const Value*> list = list_of(rank);
      if (list.size() != groups || groups == 0)
        refuse_layout(cat(what, " lie in ", list.size(), " groups, those of rank 0 in ", groups),
                      files_.optims[rank]->path());
      for (size_t group = 0; group < groups; ++group)
        out[is_3() ? rank : group].push_back(part_of(files_.optims[rank], *list[group], what));
    }
    return out;
  }

  // --- Where parameters begin ----------------------------------------------------------------------------------------

  std::vector<std::vector<Entry>> shapes() const {
    std::vector<std::vector<Entry>> out;
    for (const Value* group : items_of(files_.models[0]->root().find("param_shapes"))) out.push_back(entries_of(group));
    if (out.empty()) refuse_layout("it has no 'param_shapes'", files_.models[0]->path());
    return out;
  }

  Slot slot(const Entry& entry, size_t group, uint64_t first) const {
    Slot out{.name = std::string(entry.first),
             .shape = checked_shape(*entry.second, entry.first, *files_.models[0]),
             .group = group,
             .first = first};
    out.size = checked_size(out.shape);
    return out;
  }

  // Between parameters, where there is some.
  uint64_t padding(size_t group, size_t number) const {
    const std::vector<const Value*> groups = items_of(states_[0]->find("param_alignment_paddings"));
    if (groups.empty()) return 0;
    const std::vector<const Value*> sizes =
        group < groups.size() ? items_of(groups[group]) : std::vector<const Value*>();
    const auto size = number < sizes.size() ? integer_in(sizes[number]) : std::nullopt;
    if (!size || *size < 0 || *size > INT32_MAX)
      refuse_layout("its 'param_alignment_paddings' are not those of its groups", path());
    return static_cast<uint64_t>(*size);
  }

  std::vector<Slot> slots_by_group(const Parts& masters) const {
    const auto groups = shapes();
    if (groups.size() != masters.size())
      refuse_layout(cat("the model has ", groups.size(), " groups of parameters, the optimizer ", masters.size()),
                    path());
    std::vector<Slot> out;
    for (size_t group = 0; group < groups.size(); ++group) {
      uint64_t at = 0;
      for (size_t i = 0; i < groups[group].size(); ++i) {
        out.push_back(slot(groups[group][i], group, at));
        at += out.back().size + padding(group, i);
      }
      // The last partition is padded, or the padding was left out: within one alignment both are right.
      const uint64_t has = num_elements_in(masters[group]), align = 2 * world();
      if (at > has + align || (at + align - 1) / align != (has + align - 1) / align)
        refuse_layout(cat("group ", group, " has ", has, " elements, its parameters have ", at), path());
    }
    return out;
  }

  std::vector<Slot> slots_by_parameter(const Parts& masters) const {
    std::vector<Slot> out;
    uint64_t at = 0;
    for (const auto& group : shapes()) {
      for (const Entry& entry : group) {
        out.push_back(slot(entry, 0, at));
        at += (out.back().size + world() - 1) / world();
      }
    }
    for (size_t rank = 0; rank < world(); ++rank) {
      if (num_elements_in(masters[rank]) != at)
        refuse_layout(
            cat("it has ", num_elements_in(masters[rank]), " elements, its parts of the parameters have ", at),
            files_.optims[rank]->path());
    }
    return out;
  }

  // --- Tensors -------------------------------------------------------------------------------------------------------

  ElementRuns elements_of(const Slot& slot, const Parts& parts) const {
    ElementRuns out;
    if (!is_3()) {
      add_range(out, parts[slot.group], slot.first, slot.size, slot.name);
      return out;
    }
    const uint64_t share = (slot.size + world() - 1) / world();
    for (size_t rank = 0; rank < world(); ++rank) {
      const uint64_t begin = std::min(slot.size, rank * share), end = std::min(slot.size, begin + share);
      add_range(out, parts[rank], slot.first, end - begin, slot.name);
    }
    return out;
  }

  void add(const std::vector<Slot>& slots, const Parts& parts, Role role, const std::string& kind) {
    for (const Slot& slot : slots) {
      DeepSpeedTensor tensor{
          .role = role, .kind = kind, .name = slot.name, .shape = slot.shape, .elements = elements_of(slot, parts)};
      tensor.dtype = tensor.elements.empty() ? "F32" : tensor.elements.dtype();
      out_.tensors.push_back(std::move(tensor));
    }
  }

  void read_states(const std::vector<Slot>& slots, const Parts& masters) {
    std::vector<std::map<int64_t, const Value*>> states;
    for (size_t rank = 0; rank < world(); ++rank) states.push_back(states_in(optimizer_of(rank)));
    std::set<std::string_view> kinds;
    for (const auto& [number, state] : states[0]) {
      for (const auto& [kind, value] : entries_of(state)) kinds.insert(kind);
    }
    kinds.erase("step");
    for (const std::string_view kind : kinds) {
      const bool known = std::ranges::find(kStateKinds, kind) != std::end(kStateKinds);
      if (!known || !read_kind(kind, states, slots, masters))
        out_.left_out.push_back(cat("the optimizer's '", kind, "'"));
    }
    if (kinds.empty()) out_.left_out.emplace_back("the optimizer's state: it has none");
  }

  // Whether all ranks have it for all of their groups, at the size of the weights.
  bool read_kind(std::string_view kind, const std::vector<std::map<int64_t, const Value*>>& states,
                 const std::vector<Slot>& slots, const Parts& masters) {
    const size_t groups = is_3() ? masters[0].size() : masters.size();
    for (const auto& of_rank : states) {
      if (of_rank.size() != groups) return false;
      for (const auto& [number, state] : of_rank) {
        const Value* const value = state->find(kind);
        if (value == nullptr || value->is(Kind::kNone)) return false;
      }
    }
    const Parts parts = parts_of(
        [&](size_t rank) {
          std::vector<const Value*> out;
          for (const auto& [number, state] : states[rank]) out.push_back(state->find(kind));
          return out;
        },
        kind);
    if (!fit(parts, masters)) return false;
    add(slots, parts, Role::kOptimizer, std::string(kind));
    return true;
  }

  // The padding at the end may be there in one and not in the other; everything else begins at the same place.
  bool fit(const Parts& parts, const Parts& masters) const {
    for (size_t row = 0; row < parts.size(); ++row) {
      for (size_t i = 0; i < parts[row].size(); ++i) {
        const bool may_be_padded = !is_3() && i + 1 == parts[row].size();
        const uint64_t here = parts[row][i].tensor.num_elements(), there = masters[row][i].tensor.num_elements();
        if (may_be_padded ? here < there : here != there) return false;
      }
    }
    return true;
  }

  const DeepSpeedFiles& files_;
  DeepSpeedCheckpoint& out_;
  std::vector<const Value*> states_;  // by rank
};

}  // namespace

void read_partitions(const DeepSpeedFiles& files, DeepSpeedCheckpoint& out) { Partitions(files, out).read(); }

}  // namespace weft::checkpoint::foreign
