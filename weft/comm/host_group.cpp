#include "weft/comm/host_group.h"

#include "weft/comm/call_traits.h"
#include "weft/comm/runner.h"
#include "weft/comm/staging.h"

namespace weft::comm {
namespace {

// Beyond a call's own deadline: finding out who is missing, and handing the result over.
constexpr double kPatience = 2;
constexpr double kSlackS = 5;

bool on_host(const at::Tensor& tensor) { return !tensor.defined() || tensor.is_cpu(); }

}  // namespace

HostGroup::HostGroup(std::string name, int rank, int world, double deadline_s)
    : Group(std::move(name), rank, world, deadline_s),
      job_limit_s_(kPatience * deadline_s + kSlackS),
      collectives_(std::make_unique<Runner>(job_limit_s_)) {}

HostGroup::~HostGroup() = default;

void HostGroup::stop() {
  collectives_->stop();
  for (const auto& [who, runner] : messages_) runner->stop();
}

Runner& HostGroup::runner_of(const Collective& call) {
  if (!is_point_to_point(call.operation)) return *collectives_;
  auto& runner = messages_[{call.operation, call.peer}];
  if (!runner) runner = std::make_unique<Runner>(job_limit_s_);
  return *runner;
}

void HostGroup::in_turn(const std::function<void()>& what) {
  std::exception_ptr failure;
  collectives_->run_now([&] {
    try {
      what();
    } catch (...) {
      failure = std::current_exception();
    }
  });
  if (failure) std::rethrow_exception(failure);
}

Work HostGroup::launch(const Collective& call, Launch how) {
  if (!on_host(call.input) || !on_host(call.output)) return launch_staged(call, how);
  const uint64_t number = sequence();
  if (how == Launch::kBlocking) {
    runner_of(call).run_now([&] { execute(call, number, Deadline::after(deadline_s())); });
    return {};
  }
  return runner_of(call).submit([this, call, number] { execute(call, number, Deadline::after(deadline_s())); }, [] {});
}

Work HostGroup::launch_staged(const Collective& call, Launch how) {
  const auto staged = std::make_shared<StagedCall>(call);
  const Job job = [this, staged, number = sequence()] {
    staged->wait_copied_out();
    execute(staged->host(), number, Deadline::after(deadline_s()));
    staged->copy_back();
  };
  const Job ordered = [staged] { staged->order_current_stream(); };
  if (how == Launch::kAsync) return runner_of(call).submit(job, ordered, [staged] { return staged->landed(); });
  runner_of(call).run_now(job);
  ordered();
  return {};
}

}  // namespace weft::comm
