#include "weft/comm/fabric/fabric.h"

#include "weft/comm/fabric/channel.h"
#include "weft/comm/fabric/fabric_impl.h"

namespace weft::fabric {
namespace {

constexpr uint32_t kCommon = 1;  // the variant of an allocation that is one for all

size_t whole_pages(size_t bytes) { return std::max(kPageBytes, (bytes + kPageBytes - 1) / kPageBytes * kPageBytes); }

}  // namespace

Fabric::Fabric(const Membership& self, Deadline deadline)
    : rendezvous_(self, deadline), control_(rendezvous_.control()), rank_(self.rank), world_(self.world) {
  begin(Operation::kAllocate, 2 * kSlotBytes);
  stage_ = share(2 * kSlotBytes, "weft-fabric-stage", Backing::kNow, deadline);
  const size_t channels = Channels::bytes_for(world_);
  begin(Operation::kAllocate, channels);
  // Most runs never send a message, and the pages then never exist.
  channels_ = std::make_unique<Channels>(share(channels, "weft-fabric-channels", Backing::kLater, deadline), control_);
}

Fabric::~Fabric() = default;

void Fabric::begin(Operation operation, uint64_t bytes, uint32_t variant, RegionPlace place) {
  const uint64_t where = place.region == nullptr ? 0 : uint64_t{place.region->number()} << 40 | place.offset;
  control_.begin({operation, variant, bytes, where});
  compared_ = false;
}

void Fabric::meet(Deadline deadline) {
  control_.barrier(deadline);
  if (!std::exchange(compared_, true)) control_.check_agreement();
}

Region Fabric::share(size_t bytes, const std::string& name, Backing backing, Deadline deadline) {
  const size_t stride = whole_pages(bytes), limit = SIZE_MAX / static_cast<size_t>(world_);
  // Too much for all together is refused like too much for one: by the kernel, in rank 0, for every rank.
  const size_t total =
      bytes > SIZE_MAX - kPageBytes || stride > limit ? SIZE_MAX : stride * static_cast<size_t>(world_);
  return Region(rendezvous_.share_segment(total, name, backing, deadline), bytes, stride, rank_, ++num_regions_);
}

Region Fabric::allocate(size_t bytes, Deadline deadline) {
  begin(Operation::kAllocate, bytes);
  return share(bytes, "weft-fabric-region", Backing::kNow, deadline);
}

Region Fabric::allocate_common(size_t bytes, Deadline deadline) {
  begin(Operation::kAllocate, bytes, kCommon);
  const size_t total = bytes > SIZE_MAX - kPageBytes ? SIZE_MAX : whole_pages(bytes);
  return Region(rendezvous_.share_segment(total, "weft-fabric-common", Backing::kNow, deadline), bytes, /*stride=*/0,
                rank_, ++num_regions_);
}

void Fabric::barrier(Deadline deadline) {
  begin(Operation::kBarrier, 0);
  meet(deadline);
}

void Fabric::read(int peer, RegionPlace from, size_t bytes, void* into) const {
  check_root(peer);
  check_place(from, bytes);
  copy_bytes(bytes_at(into), from.of(peer), bytes);
}

void Fabric::send(const void* data, size_t bytes, int to, int tag, Deadline deadline) {
  check_root(to);
  control_.note(Operation::kSend);
  channels_->send(bytes_at(data), bytes, to, tag, deadline);
}

void Fabric::receive(void* data, size_t bytes, int from, int tag, Deadline deadline) {
  check_root(from);
  control_.note(Operation::kRecv);
  channels_->receive(bytes_at(data), bytes, from, tag, deadline);
}

void Fabric::check_place(RegionPlace place, size_t bytes) const {
  WEFT_CHECK(place.region != nullptr);
  WEFT_CHECK_LE(bytes, place.region->bytes() - place.offset);
}

void Fabric::check_root(int root) const { WEFT_CHECK(root >= 0 && root < world_); }

void Fabric::check_parts(std::span<const size_t> parts) const {
  WEFT_CHECK_EQ(parts.size(), static_cast<size_t>(world_));
}

}  // namespace weft::fabric
