// Whether ranks gather the same units in the same order, where a gather is a collective: ranks that part would take each other's bytes
// for their own.
//
// On the host a tag travels ahead of every gather, on its lane, and one more when a step has gathered all it needs: a rank that parts
// is named at once. On a device nobody waits for what is under way: there each rank keeps a list, and hosts compare the lists once a
// step through a group of their own, before anything of that step is used, or when a gather has failed.
//
// Ownership: groups are borrowed. Threads: one at a time. Failure: Error(kBug) in all ranks where they part, naming a unit of each; as Group.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "weft/comm/group.h"

namespace weft::engine {

class GatherOrder {
 public:
  using NameOf = std::function<std::string(int unit)>;

  // Of one gather. Empty: it is in the list.
  struct Tag {
    at::Tensor of_ranks;
    comm::Work work;
  };

  // `on_host`: a group of the same ranks that takes host memory, and nothing else is done with it; null: tags travel on lanes.
  GatherOrder(const comm::Group& ranks, comm::Group* on_host, NameOf name_of);

  // To be called just before the gather is given to its lane.
  Tag begin(int unit, comm::Group& lane);
  // Waits until the other ranks have begun as many gathers.
  void check(const Tag& tag, int unit);
  // All ranks: nothing more is gathered before the update.
  void end_step(comm::Group& lane);
  // In a catch block, for what a group threw while `unit` was gathered: that ranks part, if they do; else the same, with the name.
  [[noreturn]] void rethrow(int unit);

 private:
  using List = std::vector<int64_t>;

  // What hosts tell each other first.
  struct State {
    int64_t count = 0, hash = 0, has_failed = 0;
    bool operator==(const State&) const = default;
  };

  void compare_lists(bool has_failed);
  void compare_with(int rank, const List& theirs, bool has_failed, bool they_failed);
  std::vector<State> exchange_states(const State& mine) const;
  std::vector<List> exchange_lists(const std::vector<State>& states) const;
  [[noreturn]] void refuse(int rank, int64_t mine, int64_t theirs);
  std::string text_of(int64_t unit) const;

  const comm::Group& ranks_;
  comm::Group* const on_host_;
  const NameOf name_of_;
  List gathered_;  // by device, since the last update
  bool has_parted_ = false;
  bool is_over_ = false;  // a gather has failed, and lists were compared for it
};

}  // namespace weft::engine
