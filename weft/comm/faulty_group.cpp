#include "weft/comm/faulty_group.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <mutex>
#include <thread>

#include "weft/base/error.h"
#include "weft/base/log.h"
#include "weft/comm/wrapped_group.h"

namespace weft::comm {
namespace {

// One for a group and all its parts: the script counts the calls of the rank, wherever it makes them.
class FaultScript {
 public:
  FaultScript(const std::vector<Fault>& faults, int rank) : rank_(rank) {
    for (const Fault& fault : faults) {
      if (fault.rank.value_or(rank) == rank) counted_.push_back({fault, 0});
    }
  }

  int rank() const { return rank_; }

  // Counts the call; the faults whose turn it is, in the order of the script.
  std::vector<Fault> due(Operation operation) {
    const std::scoped_lock lock(mutex_);
    std::vector<Fault> out;
    for (auto& [fault, num_seen] : counted_) {
      if (fault.operation.value_or(operation) == operation && ++num_seen == fault.at) out.push_back(fault);
    }
    return out;
  }

 private:
  struct Counted {
    Fault fault;
    uint64_t num_seen;
  };
  const int rank_;
  std::mutex mutex_;
  std::vector<Counted> counted_;
};

void corrupt(const Collective& call, const Fault& fault) {
  const at::Tensor& wanted = fault.after ? call.output : call.input;
  const at::Tensor& data = wanted.defined() ? wanted : (fault.after ? call.input : call.output);
  const int64_t bytes = data.defined() ? static_cast<int64_t>(data.nbytes()) : 0;
  if (fault.byte >= bytes) {
    throw Error(ErrorKind::kInput, {.title = cat("there is no byte ", fault.byte, " to corrupt"),
                                    .what = cat("the data of this rank has ", bytes, " bytes"),
                                    .where = describe(call),
                                    .fix = "choose a smaller byte in the script of faults, or another call"});
  }
  data.view({-1}).view(at::kByte).select(0, fault.byte).bitwise_xor_(0xFF);
}

[[noreturn]] void throw_as_told(const Collective& call, const FaultScript& script) {
  throw Error(ErrorKind::kEnvironment, {.title = "a fault, as the script of faults has it",
                                        .what = cat("rank ", script.rank(), " was told to throw"),
                                        .where = describe(call),
                                        .fix = "unset WEFT_FAULTS to run without faults"});
}

class FaultyGroup final : public WrappedGroup {
 public:
  FaultyGroup(std::shared_ptr<Group> inner, std::shared_ptr<FaultScript> script)
      : WrappedGroup(std::move(inner)), script_(std::move(script)) {}

 private:
  Work launch(const Collective& call, Launch how) override {
    const std::vector<Fault> faults = script_->due(call.operation);
    if (faults.empty()) return pass_on(call, how);
    const auto is_after = [](const Fault& fault) { return fault.after; };
    const bool something_after = std::any_of(faults.begin(), faults.end(), is_after);
    bool is_dropped = false;
    for (const Fault& fault : faults) {
      if (!fault.after) is_dropped = act(fault, call) || is_dropped;
    }
    Work work;
    if (!is_dropped) work = pass_on(call, something_after ? Launch::kBlocking : how);
    for (const Fault& fault : faults) {
      if (fault.after) act(fault, call);
    }
    return work;
  }

  // True when the call is not to be made.
  bool act(const Fault& fault, const Collective& call) {
    log_info("fault in rank ", script_->rank(), fault.after ? " after " : " before ", describe(call));
    switch (fault.action) {
      case FaultAction::kKill: ::kill(::getpid(), SIGKILL); break;
      case FaultAction::kStop: ::kill(::getpid(), SIGSTOP); break;
      case FaultAction::kDelay: std::this_thread::sleep_for(std::chrono::duration<double>(fault.delay_s)); break;
      case FaultAction::kCorrupt: corrupt(call, fault); break;
      case FaultAction::kDrop: return true;
      case FaultAction::kThrow: throw_as_told(call, *script_);
    }
    return false;
  }

  std::shared_ptr<Group> wrap(std::shared_ptr<Group> part, const std::vector<int>&) override {
    return std::make_shared<FaultyGroup>(std::move(part), script_);
  }

  const std::shared_ptr<FaultScript> script_;
};

}  // namespace

std::shared_ptr<Group> make_faulty_group(std::shared_ptr<Group> inner, const std::vector<Fault>& faults) {
  for (const Fault& fault : faults) {
    if (fault.rank.value_or(0) < inner->world()) continue;
    throw Error(ErrorKind::kInput, {.title = cat("the script of faults names rank ", *fault.rank),
                                    .what = cat("there are ", inner->world(), " ranks, from 0"),
                                    .where = cat("group ", inner->name()),
                                    .fix = "correct rank= in the script, or start more ranks"});
  }
  const int rank = inner->rank();
  return std::make_shared<FaultyGroup>(std::move(inner), std::make_shared<FaultScript>(faults, rank));
}

}  // namespace weft::comm
