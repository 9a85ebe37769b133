#include "weft/comm/c10d/gloo_group.h"

#include <ATen/ops/zeros.h>

#include <atomic>

#include "weft/base/check.h"
#include "weft/base/hash.h"
#include "weft/base/text.h"
#include "weft/comm/c10d/gloo_wire.h"
#include "weft/comm/c10d/wire_collectives.h"
#include "weft/comm/call_traits.h"
#include "weft/comm/fingerprint.h"
#include "weft/comm/host_group.h"

namespace weft::comm {
namespace {

// Gloo's tags have 31 bits. Messages have the highest set, and the lowest is the wire's lane; collectives share the
// rest between their number, so that a fast rank's next call is not taken for a slow one's last, and what they are, so
// that calls that differ never meet.
constexpr uint32_t kMessageTag = 1U << 30;
constexpr uint32_t kNumberMask = (1U << 12) - 1, kPrintMask = (1U << 16) - 1;
constexpr int kNumberShift = 18, kPrintShift = 2;
static_assert(WireCollectives::kNumTags == 1U << kPrintShift);

uint64_t print_of(const Collective& call, uint64_t sequence) {
  FingerprintWords words = to_words(fingerprint_of(call, static_cast<int64_t>(sequence)));
  words[kFingerprintWords - 2] = words[kFingerprintWords - 1] = 0;  // this rank's own
  return hash128(std::as_bytes(std::span(words))).low | 1;
}

uint32_t tag_of(uint64_t sequence, uint64_t print) {
  const auto number = static_cast<uint32_t>(sequence & kNumberMask);
  return number << kNumberShift | static_cast<uint32_t>(print >> 32 & kPrintMask) << kPrintShift;
}

class GlooGroup final : public HostGroup {
 public:
  GlooGroup(const GroupIdentity& self, Store store, Deadline deadline)
      : HostGroup(self.name, self.rank, self.world, self.deadline_s), self_(self), store_(std::move(store)) {
    roll_call_ = std::make_unique<RollCall>(self_, store_, deadline);
    wire_ = make_gloo_wire(self_, store_, *roll_call_, deadline);
    collectives_ = std::make_unique<WireCollectives>(*wire_);
  }
  // The others learn that we leave before they find a connection closed.
  ~GlooGroup() override {
    stop();
    roll_call_.reset();
  }

  GlooGroup(const GlooGroup&) = delete;
  GlooGroup& operator=(const GlooGroup&) = delete;

  std::string_view transport() const override { return "gloo"; }

  at::Tensor allocate(int64_t count, at::ScalarType type) override { return at::zeros({count}, type); }

  std::shared_ptr<Group> split(const std::vector<int>& ranks, const std::string& name) override {
    return make_gloo_group(part_of(*this, ranks, name), store_, Deadline::after(deadline_s()));
  }

 private:
  void execute(const Collective& call, uint64_t sequence, Deadline deadline) override {
    const bool is_message = is_point_to_point(call.operation);
    Doing doing = {.operation = call.operation, .sequence = sequence, .peer = is_message ? call.peer : -1};
    if (!is_message) {
      doing.fingerprint = print_of(call, sequence);
      doing.call = describe(call);
    }
    roll_call_->begin(doing);
    if (is_message) {
      pass(call, deadline);
    } else {
      collectives_->run(call, tag_of(sequence, doing.fingerprint), deadline);
    }
    roll_call_->done(doing);
  }

  void pass(const Collective& call, Deadline deadline) {
    const std::span<std::byte> bytes(static_cast<std::byte*>(call.input.mutable_data_ptr()), call.input.nbytes());
    const uint32_t tag = kMessageTag | (static_cast<uint32_t>(call.tag) << 1 & (kMessageTag - 1));
    Transfers transfers(*wire_);
    if (call.operation == Operation::kSend) transfers.send(bytes, call.peer, tag);
    if (call.operation == Operation::kRecv) transfers.receive(bytes, call.peer, tag);
    transfers.wait(deadline);
  }

  const GroupIdentity self_;
  const Store store_;
  std::unique_ptr<Wire> wire_;
  std::unique_ptr<RollCall> roll_call_;  // ends before the wire, which it wakes
  std::unique_ptr<WireCollectives> collectives_;
};

}  // namespace

std::shared_ptr<Group> make_gloo_group(const GroupIdentity& self, const Store& store, Deadline join_deadline) {
  return std::make_shared<GlooGroup>(self, store, join_deadline);
}

}  // namespace weft::comm
