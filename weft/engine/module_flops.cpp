#include "weft/engine/module_flops.h"

#include <ATen/SequenceNumber.h>
#include <ATen/core/Tensor.h>
#include <c10/core/GradMode.h>

#include "weft/engine/operator_tensors.h"

namespace weft::engine {
namespace {

using Inputs = c10::ArrayRef<const c10::IValue>;

}  // namespace

ModuleFlops::ModuleFlops(const ModelTensors& model) : tree_(model), owners_(model, tree_) {}

// Scalars say nothing of where a tensor comes from.
ModuleFlops::Weights ModuleFlops::weights_in(Inputs inputs) const {
  Weights out;
  bool only_weights = true;
  for (const c10::IValue& input : inputs) {
    for_each_tensor(input, [&](const at::Tensor& tensor) {
      if (!tensor.defined() || tensor.dim() == 0) return;
      const int module = owners_.of(tensor);
      if (module < 0) return void(only_weights = false);
      out.last = module;
      out.common = out.common < 0 ? module : tree_.common(out.common, module);
    });
  }
  if (!only_weights) out.common = -1;
  return out;
}

int ModuleFlops::weight_of(FlopKind kind, Inputs inputs) const {
  int out = -1;
  for (const size_t argument : weight_arguments(kind)) {
    if (argument >= inputs.size()) continue;
    for_each_tensor(inputs[argument], [&](const at::Tensor& tensor) {
      if (out < 0) out = owners_.of(tensor);
    });
    if (out >= 0) return out;
  }
  return weights_in(inputs).last;
}

int ModuleFlops::new_entry(int module) {
  entries_.push_back({.module = module});
  return static_cast<int>(entries_.size()) - 1;
}

// An operator without a node leaves its number to the next one, which then takes its place here.
void ModuleFlops::remember_node(const at::RecordFunction& function, int entry) {
  if (function.seqNr() >= 0) nodes_[{function.threadId(), function.seqNr()}] = entry;
}

// Operators without gradients make no nodes: if they run in a function of the user's own, its node is the newest of this thread. If not,
// that node has its own operator, or computes nothing that counts.
void ModuleFlops::remember_custom(const at::RecordFunction& function, int module) {
  const auto newest = static_cast<int64_t>(at::sequence_number::peek()) - 1;
  const auto [node, is_new] = nodes_.try_emplace({function.threadId(), newest}, static_cast<int>(entries_.size()));
  if (is_new) {
    entries_.push_back({.module = module, .is_custom = true});
  } else if (Entry& old = entry(node->second); old.is_custom) {
    old.module = tree_.common(old.module, module);
  }
}

// Entries that wait get what is before and after them in the place where they ran; one that is at its edge gets what is around it.
void ModuleFlops::settle(Thread& thread, int next) {
  const bool has_last = thread.last >= 0, has_next = next >= 0;
  const int module = has_last && has_next                        ? tree_.common(thread.last, next)
                     : has_last || has_next || thread.is_in_node ? thread.outer
                                                                 : -1;
  for (const int waiting : thread.waiting) entry(waiting).module = module;
  thread.waiting.clear();
}

void ModuleFlops::go_to(Thread& thread) {
  const int64_t place = thread.nodes.empty() ? now_ : thread.nodes.back().id;
  if (place == thread.place) return;
  settle(thread, -1);
  thread.place = place;
  thread.last = -1;
  thread.is_in_node = !thread.nodes.empty();
  thread.outer = thread.is_in_node ? module_of(thread.nodes.back().entry) : ModuleTree::kModel;
}

void ModuleFlops::use(Thread& thread, int module) {
  settle(thread, module);
  thread.last = module;
}

ModuleFlops::Begun ModuleFlops::begin(const at::RecordFunction& function, FlopKind kind, bool is_nested) {
  Thread& thread = threads_[function.threadId()];
  const bool is_counted = kind != FlopKind::kNone;
  if (is_counted && is_nested) return remember_node(function, thread.under_way), Begun();
  const int node = thread.nodes.empty() ? -1 : thread.nodes.back().entry;
  if (node >= 0 && !entry(node).is_custom) {
    if (!is_counted) return {};
    remember_node(function, thread.under_way = node);  // for the gradient of a gradient
    return {.entry = node, .part = &FlopParts::backward};
  }
  const bool has_gradients = c10::GradMode::is_enabled();
  const Weights weights = is_counted ? Weights() : weights_in(function.inputs());
  const int module = is_counted ? weight_of(kind, function.inputs()) : weights.last;
  // Without gradients an optimizer reads weights as well, one after the other; only products say where forward is.
  const bool says_where = module >= 0 && (is_counted || has_gradients);
  if (is_counted || says_where) go_to(thread);
  if (says_where) use(thread, module);
  if (!is_counted) return {.copies = weights.common};
  thread.under_way = new_entry(module);
  remember_node(function, thread.under_way);
  if (module < 0) thread.waiting.push_back(thread.under_way);
  if (!has_gradients && module >= 0) remember_custom(function, module);
  return {.entry = thread.under_way,
          .part = thread.nodes.empty() ? &FlopParts::forward
                  : has_gradients      ? &FlopParts::recomputed
                                       : &FlopParts::backward};
}

void ModuleFlops::end(const Begun& begun, const at::RecordFunction& function, int64_t flops, int64_t elapsed_ns) {
  if (begun.entry >= 0) {
    entry(begun.entry).parts.*begun.part += flops;
    entry(begun.entry).parts.elapsed_ns += elapsed_ns;
  }
  if (begun.copies < 0) return;
  for (const c10::IValue& output : function.outputs())
    for_each_tensor(output, [&](const at::Tensor& tensor) { owners_.add_copy(tensor, begun.copies); });
}

void ModuleFlops::begin_node(const at::RecordFunction& node) {
  Thread& thread = threads_[node.threadId()];
  const auto found = nodes_.find({node.forwardThreadId(), node.seqNr()});
  const int64_t id = ++next_id_;
  if (thread.nodes.empty()) now_ = id;
  thread.nodes.push_back({.id = id, .entry = found == nodes_.end() ? -1 : found->second});
}

void ModuleFlops::end_node(const at::RecordFunction& node) {
  Thread& thread = threads_[node.threadId()];
  if (!thread.nodes.empty()) thread.nodes.pop_back();
}

void ModuleFlops::finish(FlopCount& count) {
  for (auto& [id, thread] : threads_) settle(thread, -1);
  std::vector<FlopParts> own(tree_.modules().size());
  for (const Entry& one : entries_)
    (one.module < 0 ? count.elsewhere : own[static_cast<size_t>(one.module)]) += one.parts;
  const std::vector<int> order = tree_.in_order();
  std::vector<int> row_of(order.size());
  for (const int number : order) {
    const ModuleInTree& module = tree_.modules()[static_cast<size_t>(number)];
    row_of[static_cast<size_t>(number)] = static_cast<int>(count.modules.size());
    count.modules.push_back({.name = module.name,
                             .type = module.type,
                             .parent = module.parent < 0 ? -1 : row_of[static_cast<size_t>(module.parent)],
                             .depth = module.depth,
                             .num_parameters = module.num_parameters,
                             .flops = own[static_cast<size_t>(number)]});
  }
  for (size_t i = count.modules.size(); i-- > 1;) {
    ModuleRow& parent = count.modules[static_cast<size_t>(count.modules[i].parent)];
    parent.flops += count.modules[i].flops;
    parent.num_parameters += count.modules[i].num_parameters;
  }
}

}  // namespace weft::engine
