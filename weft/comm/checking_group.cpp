#include "weft/comm/checking_group.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <numeric>

#include "weft/base/text.h"
#include "weft/comm/call_traits.h"
#include "weft/comm/fingerprint.h"
#include "weft/comm/peer_lost.h"
#include "weft/comm/wrapped_group.h"

namespace weft::comm {
namespace {

std::string companion_name(const std::string& group) { return group + ".check"; }

class CheckingGroup final : public WrappedGroup {
 public:
  CheckingGroup(std::shared_ptr<Group> inner, std::shared_ptr<Group> companion)
      : WrappedGroup(std::move(inner)),
        companion_(std::move(companion)),
        mine_(at::empty({kFingerprintWords}, at::kLong)),
        all_(at::empty({kFingerprintWords * world()}, at::kLong)) {}

  at::Tensor allocate(int64_t count, at::ScalarType type) override {
    compare_allocation(count, type);
    return WrappedGroup::allocate(count, type);
  }
  at::Tensor allocate_common(int64_t count, at::ScalarType type) override {
    compare_allocation(count, type);
    return WrappedGroup::allocate_common(count, type);
  }

 private:
  void compare_allocation(int64_t count, at::ScalarType type) {
    const auto bytes = count * static_cast<int64_t>(c10::elementSize(type));
    compare({.operation = Operation::kAllocate, .dtype = type, .bytes = bytes, .number = ++num_compared_});
  }

  Work launch(const Collective& call, Launch how) override {
    if (!is_point_to_point(call.operation)) compare(fingerprint_of(call, ++num_compared_));
    return pass_on(call, how);
  }

  void compare(const Fingerprint& print) {
    const FingerprintWords words = to_words(print);
    std::copy(words.begin(), words.end(), mine_.data_ptr<int64_t>());
    exchange(print);
    std::vector<Fingerprint> prints;
    const std::span<const int64_t> gathered(all_.data_ptr<int64_t>(), static_cast<size_t>(all_.numel()));
    for (size_t at = 0; at < gathered.size(); at += kFingerprintWords) {
      prints.push_back(from_words(gathered.subspan(at, kFingerprintWords)));
    }
    require_agreement(prints, name());
  }

  // Whoever reads of a lost peer wants to know the call that was to be made, not that it was compared first.
  void exchange(const Fingerprint& print) {
    try {
      companion_->all_gather(mine_, all_);
    } catch (const PeerLost& lost) {
      Loss loss = lost.loss();
      loss.waiting_in = cat(describe(print), ", call ", print.number);
      loss.group = name();
      throw PeerLost(std::move(loss));
    }
  }

  std::shared_ptr<Group> wrap(std::shared_ptr<Group> part, const std::vector<int>& ranks) override {
    auto companion = companion_->split(ranks, companion_name(part->name()));
    return std::make_shared<CheckingGroup>(std::move(part), std::move(companion));
  }

  const std::shared_ptr<Group> companion_;
  const at::Tensor mine_, all_;
  int64_t num_compared_ = 0;
};

}  // namespace

std::shared_ptr<Group> make_checking_group(std::shared_ptr<Group> inner, std::shared_ptr<Group> companion) {
  if (!companion) {
    std::vector<int> everyone(static_cast<size_t>(inner->world()));
    std::iota(everyone.begin(), everyone.end(), 0);
    companion = inner->split(everyone, companion_name(inner->name()));
  }
  return std::make_shared<CheckingGroup>(std::move(inner), std::move(companion));
}

}  // namespace weft::comm
