// A rank of a world of N that is alone in its process: no network, no peers, every call done at once. For dry runs of
// a plan at any world size: what is called, how large it is, and what it would put on the wire.
//
//   auto group = std::make_shared<FakeGroup>(FakeGroupSpec{.rank = 3, .world = 128});
//   ...                                                         // train a step
//   group->traffic().of(Operation::kReduceScatter).wire_bytes;
//
// Results are those of a world in which every rank holds what this one holds: a sum is N times the data, a mean the data
// itself, a gather copies of it (repeated or cut where parts differ in size). What only another rank can know (recv, and
// scatter away from the root) is zeros. read() copies what is here.
//
// Ownership, threads: as Group; traffic() from any thread. Failure: as Group, but no peer is ever lost.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "weft/comm/group.h"

namespace weft::comm {

struct FakeGroupSpec {
  std::string name = "world";
  int rank = 0, world = 1;
};

struct FakeCount {
  int64_t calls = 0;
  int64_t bytes = 0;       // Collective::bytes(), summed
  int64_t wire_bytes = 0;  // see ring_bytes_sent()
  bool operator==(const FakeCount&) const = default;
};

struct FakeTraffic {
  std::map<Operation, FakeCount> by_operation = {};

  FakeCount of(Operation operation) const;
  FakeCount total() const;
};

// What rank `rank` sends in this call where the ranks stand in a ring: reductions and gathers pass parts around, broadcast and
// reduce pass the whole along, the others go straight to their receiver. Requires: a complete() call.
int64_t ring_bytes_sent(const Collective& call, int rank, int world);

class FakeGroup final : public Group {
 public:
  explicit FakeGroup(const FakeGroupSpec& spec);

  std::string_view transport() const override { return "fake"; }
  at::Tensor allocate(int64_t count, at::ScalarType type) override;
  bool one_sided() const override { return true; }
  void read(int peer, const at::Tensor& mine, const at::Tensor& into) override;
  std::shared_ptr<Group> split(const std::vector<int>& ranks, const std::string& name) override;

  // Of this group and all that were split from it, and of the one it was split from.
  FakeTraffic traffic() const;

 private:
  struct Ledger {
    std::mutex mutex;
    FakeTraffic traffic;
  };
  FakeGroup(const FakeGroupSpec& spec, std::shared_ptr<Ledger> ledger);
  Work launch(const Collective& call, Launch how) override;

  const std::shared_ptr<Ledger> ledger_;
};

}  // namespace weft::comm
