#include "weft/comm/shm_group.h"

#include <ATen/ops/from_blob.h>

#include <map>
#include <mutex>

#include "weft/base/check.h"
#include "weft/base/text.h"
#include "weft/comm/fabric/fabric.h"
#include "weft/comm/fabric/segment.h"
#include "weft/comm/host_group.h"
#include "weft/comm/peer_lost.h"
#include "weft/monitor/host_name.h"

namespace weft::comm {
namespace {

using fabric::Fabric;
using fabric::Region;
using fabric::RegionPlace;
using Sizes = std::vector<size_t>;

// The regions behind tensors of allocate(), by the address of this rank's share. Tensors keep their region alive, so an
// address that is found is a region that lives. Shared with the tensors' deleters, which may come after the group's end.
class Regions {
 public:
  void add(const std::shared_ptr<Region>& region) {
    const std::scoped_lock lock(mutex_);
    by_end_[region->mine() + region->bytes()] = region.get();
  }
  void remove(const Region& region) {
    const std::scoped_lock lock(mutex_);
    by_end_.erase(region.mine() + region.bytes());
  }
  // Where in a region the tensor lies; no region when it lies elsewhere.
  RegionPlace find(const at::Tensor& tensor) {
    if (tensor.numel() == 0) return {};
    const auto* const begin = static_cast<const std::byte*>(tensor.const_data_ptr());
    const std::scoped_lock lock(mutex_);
    const auto found = by_end_.upper_bound(begin);
    if (found == by_end_.end() || found->second->mine() > begin) return {};
    const RegionPlace place = found->second->at(static_cast<size_t>(begin - found->second->mine()));
    return place.offset + tensor.nbytes() <= place.region->bytes() ? place : RegionPlace{};
  }

 private:
  std::mutex mutex_;
  std::map<const std::byte*, const Region*> by_end_;
};

Sizes byte_counts(const std::vector<int64_t>& counts, size_t element) {
  Sizes bytes;
  for (const int64_t count : counts) bytes.push_back(static_cast<size_t>(count) * element);
  return bytes;
}

Sizes sizes_of(const std::vector<int64_t>& counts) { return byte_counts(counts, 1); }

void* data_of(const at::Tensor& tensor) { return tensor.defined() ? tensor.mutable_data_ptr() : nullptr; }

size_t bytes_before(const Sizes& sizes, int rank) {
  size_t sum = 0;
  for (int r = 0; r < rank; ++r) sum += sizes[static_cast<size_t>(r)];
  return sum;
}

LossKind kind_of(fabric::LossKind kind) {
  if (kind == fabric::LossKind::kDied) return LossKind::kDied;
  return kind == fabric::LossKind::kLeft ? LossKind::kLeft : LossKind::kSilent;
}

class ShmGroup final : public HostGroup {
 public:
  explicit ShmGroup(const ShmGroupSpec& spec)
      : HostGroup(spec.name, spec.rank, spec.world, spec.deadline_s), spec_(spec) {
    named([&] {
      fabric_.emplace(fabric::Membership{spec.run_id, spec.rank, spec.world}, Deadline::after(spec.join_deadline_s));
    });
  }
  ~ShmGroup() override { stop(); }
  ShmGroup(const ShmGroup&) = delete;
  ShmGroup& operator=(const ShmGroup&) = delete;

  std::string_view transport() const override { return "shm"; }
  at::Tensor allocate(int64_t count, at::ScalarType type) override;
  int num_sharing() const override { return world(); }
  at::Tensor allocate_common(int64_t count, at::ScalarType type) override;
  bool one_sided() const override { return true; }
  void read(int peer, const at::Tensor& mine, const at::Tensor& into) override;
  std::shared_ptr<Group> split(const std::vector<int>& ranks, const std::string& name) override;

 private:
  void execute(const Collective& call, uint64_t sequence, Deadline deadline) override {
    named([&] { dispatch(call, deadline); }, cat(fabric::name_of(call.operation), ", call ", sequence));
  }
  std::shared_ptr<Region> make_region(int64_t count, at::ScalarType type,
                                      Region (Fabric::*make)(size_t bytes, Deadline));
  void dispatch(const Collective& call, Deadline deadline);
  void reduce_scatter(const Collective& call, fabric::Elements elements, Deadline deadline);
  void all_gather(const Collective& call, size_t element, Deadline deadline);

  // The fabric knows ranks and processes; what reaches the user also names the host and the group.
  template <typename Do>
  void named(Do what, const std::string& during = "join") const {
    try {
      what();
    } catch (const fabric::PeerLost& lost) {
      throw PeerLost({.kind = kind_of(lost.loss_kind()),
                      .rank = lost.rank(),
                      .host = this_host_name(),
                      .pid = lost.pid(),
                      // Without its number: the fabric counts allocations and parts of calls too.
                      .last_collective = std::string(fabric::name_of(lost.operation())),
                      .waiting_in = during,
                      .group = name(),
                      .detail = ""});
    }
  }

  const ShmGroupSpec spec_;
  std::optional<Fabric> fabric_;
  const std::shared_ptr<Regions> regions_ = std::make_shared<Regions>();
};

std::shared_ptr<Region> ShmGroup::make_region(int64_t count, at::ScalarType type,
                                              Region (Fabric::*make)(size_t bytes, Deadline)) {
  WEFT_CHECK_GE(count, 0);
  std::shared_ptr<Region> region;
  in_turn([&] {
    named([&] {
      const size_t bytes = static_cast<size_t>(count) * c10::elementSize(type);
      region = std::make_shared<Region>(((*fabric_).*make)(bytes, Deadline::after(deadline_s())));
    });
  });
  return region;
}

at::Tensor ShmGroup::allocate(int64_t count, at::ScalarType type) {
  const std::shared_ptr<Region> region = make_region(count, type, &Fabric::allocate);
  regions_->add(region);
  const auto let_go = [region, regions = regions_](void*) { regions->remove(*region); };
  return at::from_blob(region->mine(), {count}, let_go, at::TensorOptions().dtype(type));
}

at::Tensor ShmGroup::allocate_common(int64_t count, at::ScalarType type) {
  const std::shared_ptr<Region> region = make_region(count, type, &Fabric::allocate_common);
  return at::from_blob(region->mine(), {count}, [region](void*) {}, at::TensorOptions().dtype(type));
}

void ShmGroup::read(int peer, const at::Tensor& mine, const at::Tensor& into) {
  WEFT_CHECK_EQ(mine.nbytes(), into.nbytes());
  if (mine.numel() == 0) return;
  const RegionPlace place = regions_->find(mine);
  if (place.region == nullptr) {
    throw Error(ErrorKind::kBug, {.title = "this tensor is not in memory that peers can read",
                                  .what = cat(mine.nbytes(), " bytes"),
                                  .where = cat("group ", name()),
                                  .fix = "use a tensor of allocate(), or a view of one"});
  }
  fabric_->read(peer, place, mine.nbytes(), data_of(into));
}

std::shared_ptr<Group> ShmGroup::split(const std::vector<int>& ranks, const std::string& name) {
  ShmGroupSpec part = spec_;
  std::vector<std::string> members;
  for (const int rank : ranks) members.push_back(cat(rank));
  part.run_id = cat(spec_.run_id, "/", name, "/", join(members, ","));
  part.name = name;
  part.rank = rank_among(ranks, *this);
  part.world = static_cast<int>(ranks.size());
  part.join_deadline_s = deadline_s();
  return std::make_shared<ShmGroup>(part);
}

void ShmGroup::reduce_scatter(const Collective& call, fabric::Elements elements, Deadline deadline) {
  const Sizes counts = sizes_of(call.input_counts);
  const RegionPlace place = regions_->find(call.input);
  if (place.region != nullptr) {
    return fabric_->reduce_scatter(place, counts, data_of(call.output), elements, deadline);
  }
  fabric_->reduce_scatter(data_of(call.input), counts, data_of(call.output), elements, deadline);
}

void ShmGroup::all_gather(const Collective& call, size_t element, Deadline deadline) {
  if (call.in_common) return fabric_->barrier(deadline);
  const Sizes bytes = byte_counts(call.output_counts, element);
  const RegionPlace whole = regions_->find(call.output), shard = regions_->find(call.input);
  // The shard lies in its place of the whole already: what the stages' parameter gathers look like.
  const bool in_place =
      whole.region != nullptr &&
      data_of(call.input) == static_cast<std::byte*>(data_of(call.output)) + bytes_before(bytes, rank());
  if (in_place && call.input.numel() > 0) return fabric_->all_gather_in_place(whole, bytes, deadline);
  if (shard.region != nullptr) return fabric_->all_gather(shard, bytes, data_of(call.output), deadline);
  fabric_->all_gather(data_of(call.input), bytes, data_of(call.output), deadline);
}

void ShmGroup::dispatch(const Collective& call, Deadline deadline) {
  const size_t element = c10::elementSize(call.dtype());
  const auto count = static_cast<size_t>(call.input.defined() ? call.input.numel() : 0);
  const fabric::Elements elements{element_type(call.dtype()), call.reduce_op};
  void* const in = data_of(call.input);
  void* const out = data_of(call.output);
  const auto place = [&] { return regions_->find(call.input); };
  switch (call.operation) {
    case Operation::kBarrier: return fabric_->barrier(deadline);
    case Operation::kAllReduce:
      if (const auto at = place(); at.region != nullptr) return fabric_->all_reduce(at, count, elements, deadline);
      return fabric_->all_reduce(in, count, elements, deadline);
    case Operation::kReduce:
      if (const auto at = place(); at.region != nullptr)
        return fabric_->reduce(at, count, elements, call.peer, deadline);
      return fabric_->reduce(in, count, elements, call.peer, deadline);
    case Operation::kBroadcast:
      if (const auto at = place(); at.region != nullptr)
        return fabric_->broadcast(at, count * element, call.peer, deadline);
      return fabric_->broadcast(in, count * element, call.peer, deadline);
    case Operation::kReduceScatter: return reduce_scatter(call, elements, deadline);
    case Operation::kAllGather: return all_gather(call, element, deadline);
    case Operation::kAllToAll:
      return fabric_->all_to_all(in, byte_counts(call.input_counts, element), out,
                                 byte_counts(call.output_counts, element), deadline);
    case Operation::kGather:
      return fabric_->gather(in, byte_counts(call.output_counts, element), out, call.peer, deadline);
    case Operation::kScatter:
      return fabric_->scatter(in, byte_counts(call.input_counts, element), out, call.peer, deadline);
    case Operation::kSend: return fabric_->send(in, count * element, call.peer, call.tag, deadline);
    case Operation::kRecv: return fabric_->receive(in, count * element, call.peer, call.tag, deadline);
    case Operation::kNone:
    case Operation::kJoin:
    case Operation::kAllocate: break;
  }
  WEFT_CHECK(false);
}

}  // namespace

int64_t shared_bytes_made() { return static_cast<int64_t>(fabric::Segment::bytes_created()); }

std::shared_ptr<Group> make_shm_group(const ShmGroupSpec& spec) { return std::make_shared<ShmGroup>(spec); }

}  // namespace weft::comm
