// Whose FLOPs they are: gives what a step computes to the modules of a model, without hooks and for any model, from what torch tells
// of operators and of the nodes of backward.
//
//   1. A product with a weight belongs to the module whose weight it is (weight_owners.h).
//   2. One without (attention) belongs to the smallest module that has in it the weights used before and after it.
//   3. In backward a node has the sequence number that its operator had in forward: what the node computes is that module's.
//   4. A node of no operator is a function of the user's own. What it computes with gradients on is computed again (activation
//      checkpointing) and goes by rules 1 and 2; so does the rest, as backward, and what has no weight there goes to the module
//      that its forward was in.
//   5. What is left, such as products of an optimizer, is elsewhere. So the sum is always what was counted.
//
// Owned by the counter (flop_counter.h), which calls it for every operator of a step. Threads: one at a time. Failure: none.
#pragma once

#include <ATen/record_function.h>

#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "weft/engine/flop_counter.h"
#include "weft/engine/module_tree.h"
#include "weft/engine/operator_flops.h"
#include "weft/engine/weight_owners.h"

namespace weft::engine {

class ModuleFlops {
 public:
  explicit ModuleFlops(const ModelTensors& model);

  // An operator under way.
  struct Begun {
    int entry = -1;  // whose its FLOPs are; -1: it is not counted
    int64_t FlopParts::* part = &FlopParts::forward;
    int copies = -1;  // the module whose weights alone it reads, so that its outputs are weights as well
  };
  // `kind`: kNone for those that are not counted. `is_nested`: an operator under way on this thread has called it and counts for it.
  Begun begin(const at::RecordFunction& function, FlopKind kind, bool is_nested);
  void end(const Begun& begun, const at::RecordFunction& function, int64_t flops, int64_t elapsed_ns);

  // A node of backward.
  void begin_node(const at::RecordFunction& node);
  void end_node(const at::RecordFunction& node);

  // Nothing may be under way.
  void finish(FlopCount& count);

 private:
  using NodeKey = std::pair<uint64_t, int64_t>;  // thread and sequence number of its operator

  // An operator of forward, and what its node computed.
  struct Entry {
    int module = -1;         // -1: elsewhere, or not known yet
    bool is_custom = false;  // a function of the user's own: several operators, no FLOPs of forward
    FlopParts parts = {};
  };
  struct Node {
    int64_t id = 0;
    int entry = -1;  // of its operator; -1: not known
  };
  struct Thread {
    std::vector<Node> nodes = {};  // that run on it, the innermost last
    int64_t place = 0;             // where forward runs: before or after a backward, or in a node
    bool is_in_node = false;
    int outer = ModuleTree::kModel;  // the module around that; -1: not known
    int last = -1;                   // module whose weights were used last there
    std::vector<int> waiting = {};   // entries without a weight since then
    int under_way = -1;              // entry of the operator that is counted now
  };
  struct Weights {
    int last = -1;    // of an operator's arguments
    int common = -1;  // -1: not all of them are weights
  };

  Weights weights_in(c10::ArrayRef<const c10::IValue> inputs) const;
  int weight_of(FlopKind kind, c10::ArrayRef<const c10::IValue> inputs) const;
  void go_to(Thread& thread);
  void settle(Thread& thread, int next);
  void use(Thread& thread, int module);
  void remember_node(const at::RecordFunction& function, int entry);
  void remember_custom(const at::RecordFunction& function, int module);
  int new_entry(int module);
  int module_of(int entry) const { return entry < 0 ? -1 : entries_[static_cast<size_t>(entry)].module; }
  Entry& entry(int number) { return entries_[static_cast<size_t>(number)]; }

  const ModuleTree tree_;
  WeightOwners owners_;
  std::vector<Entry> entries_;
  std::map<NodeKey, int> nodes_;  // entries
  std::unordered_map<uint64_t, Thread> threads_;
  int64_t next_id_ = 0, now_ = 0;  // now_: the place of what runs in no node
};

}  // namespace weft::engine
