// What every wrapper of a Group shares: all but the calls themselves goes to the group inside, and a part of a wrapped
// group is wrapped alike.
//
// Ownership, threads, failure: as Group.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "weft/comm/group.h"

namespace weft::comm {

class WrappedGroup : public Group {
 public:
  std::string_view transport() const override { return inner_->transport(); }
  at::Tensor allocate(int64_t count, at::ScalarType type) override { return inner_->allocate(count, type); }
  int num_sharing() const override { return inner_->num_sharing(); }
  at::Tensor allocate_common(int64_t count, at::ScalarType type) override {
    return inner_->allocate_common(count, type);
  }
  bool one_sided() const override { return inner_->one_sided(); }
  void read(int peer, const at::Tensor& mine, const at::Tensor& into) override { inner_->read(peer, mine, into); }
  std::shared_ptr<Group> split(const std::vector<int>& ranks, const std::string& name) override {
    return wrap(inner_->split(ranks, name), ranks);
  }
  std::shared_ptr<Group> split_on_host(const std::vector<int>& ranks, const std::string& name) override {
    return wrap(inner_->split_on_host(ranks, name), ranks);
  }

 protected:
  explicit WrappedGroup(std::shared_ptr<Group> inner)
      : Group(inner->name(), inner->rank(), inner->world(), inner->deadline_s()), inner_(std::move(inner)) {}

  // `part` came from the inner group's split(); `ranks` are its members, as numbered here.
  virtual std::shared_ptr<Group> wrap(std::shared_ptr<Group> part, const std::vector<int>& ranks) = 0;

  Work pass_on(const Collective& call, Launch how) { return launch_on(*inner_, call, how); }

 private:
  const std::shared_ptr<Group> inner_;
};

}  // namespace weft::comm
