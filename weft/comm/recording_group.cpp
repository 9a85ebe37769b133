#include "weft/comm/recording_group.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <numeric>
#include <optional>
#include <set>
#include <thread>

#include "weft/base/clock.h"
#include "weft/base/error.h"
#include "weft/base/log.h"
#include "weft/comm/call_traits.h"
#include "weft/comm/wrapped_group.h"
#include "weft/monitor/comms_log.h"
#include "weft/monitor/flight_dump.h"

namespace weft::comm {
namespace {

// An error in one line.
std::string reason_of(const std::exception& error) {
  if (const auto* ours = dynamic_cast<const Error*>(&error)) {
    const ErrorText& text = ours->text();
    return text.what.empty() ? text.title : cat(text.title, ": ", text.what.substr(0, text.what.find('\n')));
  }
  const std::string text = error.what();
  return text.substr(0, text.find('\n'));
}

}  // namespace

// A call on its way, for comms_logger. Its turn comes when the call before it in its group has ended.
struct TimedCall {
  CommsCall call = {};
  int64_t began_ns = 0;
  std::shared_ptr<std::atomic<int64_t>> turn_ns = {};  // of the next call; shared with the group, which may go first

  void ended(int64_t now) const {
    const int64_t turn = std::max(began_ns, turn_ns->load());
    turn_ns->store(std::max(turn, now));
    CommsCall done = call;
    done.ns = std::max<int64_t>(0, now - turn);
    comms_log().add(done);
  }
};

namespace {

// On a device a wait only orders what follows; the time asked for is that of the end. A call that fails says so to its waiter.
void stand_until_done(const Work& work, double limit_s) {
  const Deadline deadline = Deadline::after(limit_s);
  while (!work.done() && !deadline.expired()) std::this_thread::sleep_for(std::chrono::microseconds(20));
}

}  // namespace

// An asynchronous call on its way. Knows its entry, not its group: it may outlive that.
class RecordedWork final : public WorkState {
 public:
  RecordedWork(Work work, std::weak_ptr<FlightLog> log, uint64_t id, const Group& group, std::optional<TimedCall> timed)
      : work_(std::move(work)),
        log_(std::move(log)),
        id_(id),
        group_(&group),
        limit_s_(group.deadline_s()),
        timed_(std::move(timed)) {}

  uint64_t id() const { return id_; }
  const void* group() const { return group_; }

  bool done() override {
    const auto log = log_.lock();
    return log ? settle(log->recorder()) : work_.done();
  }

  void wait(Deadline deadline) override {
    try {
      work_.wait(deadline);
    } catch (const std::exception& error) {
      // A wait that was too short leaves the work as it is.
      if (work_.done()) failed(error);
      throw;
    }
    const auto log = log_.lock();
    if (!log) return;
    if (timed_) {
      stand_until_done(work_, limit_s_);
      log->settle();  // those before it first: their end is its beginning
    }
    end(log->recorder(), FlightState::kFinished);
  }

  int64_t finished_ns() override { return work_.finished_ns(); }

  // True once it has ended, in the record too. Only a wait tells whether it ended well.
  bool settle(FlightRecorder& recorder) {
    if (!work_.done()) return false;
    if (ended_) return true;
    try {
      work_.wait();
      end(recorder, FlightState::kFinished);
    } catch (const std::exception&) {
      end(recorder, FlightState::kFailed);
    }
    return true;
  }

 private:
  void failed(const std::exception& error) {
    const auto log = log_.lock();
    if (!log) return;
    end(log->recorder(), FlightState::kFailed);
    log->dump_once(reason_of(error));
  }

  // The first to see the end takes it down, so that the time is the nearest to it.
  void end(FlightRecorder& recorder, FlightState state) {
    if (ended_.exchange(true)) return;
    if (state == FlightState::kFailed) {
      recorder.fail(id_);
    } else {
      recorder.finish(id_);
      if (timed_) timed_->ended(work_.finished_ns());
    }
  }

  const Work work_;
  const std::weak_ptr<FlightLog> log_;
  const uint64_t id_;
  const void* const group_;  // told apart only, never followed
  const double limit_s_;
  const std::optional<TimedCall> timed_;
  std::atomic<bool> ended_ = false;
};

FlightLog::FlightLog(FlightOwner owner, std::string folder, Env& env)
    : recorder_(std::move(owner)), folder_(std::move(folder)), env_(env) {}

FlightLog::~FlightLog() = default;

void FlightLog::watch(std::shared_ptr<RecordedWork> work) {
  {
    const std::scoped_lock lock(mutex_);
    pending_.push_back(std::move(work));
  }
  settle();
}

void FlightLog::settle() {
  const std::scoped_lock lock(mutex_);
  std::erase_if(pending_, [&](const auto& work) { return work->settle(recorder_); });
  std::set<const void*> busy;
  for (const auto& work : pending_) {
    if (busy.insert(work->group()).second) recorder_.start(work->id());
  }
}

void FlightLog::dump_once(const std::string& reason) noexcept {
  try {
    settle();
    const std::scoped_lock lock(mutex_);
    if (dumped_ || folder_.empty()) return;
    dumped_ = true;
    write_flight_dump(env_, folder_, recorder_.dump(reason));
  } catch (const std::exception& error) {
    log_warn("the flight recorder could not be written to ", folder_, ": ", reason_of(error));
  }
}

namespace {

class RecordingGroup final : public WrappedGroup {
 public:
  RecordingGroup(std::shared_ptr<Group> inner, std::shared_ptr<FlightLog> log, std::vector<int64_t> world_ranks)
      : WrappedGroup(std::move(inner)), log_(std::move(log)), world_ranks_(std::move(world_ranks)) {
    entry_.group = name();
    entry_.transport = transport();
    log_->recorder().add_group(name(), world_ranks_);
  }

  at::Tensor allocate(int64_t count, at::ScalarType type) override {
    return recorded(count, type, [&] { return WrappedGroup::allocate(count, type); });
  }
  at::Tensor allocate_common(int64_t count, at::ScalarType type) override {
    return recorded(count, type, [&] { return WrappedGroup::allocate_common(count, type); });
  }

 private:
  template <typename Allocate>
  at::Tensor recorded(int64_t count, at::ScalarType type, Allocate allocate) {
    entry_.bytes = static_cast<uint64_t>(count) * c10::elementSize(type);
    entry_.reduce_op.clear();
    entry_.peer = -1;
    const uint64_t id = begin(Operation::kAllocate, type, FlightState::kStarted);
    try {
      at::Tensor tensor = allocate();
      log_->recorder().finish(id);
      return tensor;
    } catch (const IoError&) {
      // Memory was refused, to all ranks alike, and the group goes on: nothing to look into after the end.
      log_->recorder().fail(id);
      throw;
    } catch (const std::exception& error) {
      failed(id, error);
      throw;
    }
  }

  Work launch(const Collective& call, Launch how) override {
    entry_.bytes = static_cast<uint64_t>(call.bytes());
    entry_.reduce_op = uses_reduce_op(call.operation) ? reduce_op_name(call.reduce_op) : "";
    entry_.peer = call.peer;
    const uint64_t id =
        begin(call.operation, call.dtype(), how == Launch::kAsync ? FlightState::kQueued : FlightState::kStarted);
    const auto timed = comms_log().is_on() ? std::optional(timed_from_now(call)) : std::nullopt;
    try {
      const Work work = pass_on(call, how);
      return how == Launch::kAsync ? follow(work, id, timed) : finished(work, id, timed);
    } catch (const std::exception& error) {
      failed(id, error);
      throw;
    }
  }

  uint64_t begin(Operation operation, at::ScalarType type, FlightState state) {
    entry_.operation = fabric::name_of(operation);
    entry_.dtype = operation == Operation::kBarrier ? "" : c10::toString(type);
    entry_.sequence = is_point_to_point(operation) ? ++num_messages_ : ++num_collectives_;
    entry_.state = state;
    return log_->recorder().begin(entry_);
  }

  TimedCall timed_from_now(const Collective& call) const {
    return {.call = {.operation = fabric::name_of(call.operation),
                     .bytes = static_cast<uint64_t>(call.bytes()),
                     .ranks = world()},
            .began_ns = now_ns(),
            .turn_ns = turn_ns_};
  }

  Work finished(const Work& work, uint64_t id, const std::optional<TimedCall>& timed) {
    work.wait();
    log_->recorder().finish(id);
    if (timed) {
      stand_until_done(work, deadline_s());
      const int64_t end_ns = now_ns();
      log_->settle();
      timed->ended(end_ns);
    }
    return work;
  }

  Work follow(const Work& work, uint64_t id, std::optional<TimedCall> timed) {
    const auto recorded = std::make_shared<RecordedWork>(work, log_, id, *this, std::move(timed));
    log_->watch(recorded);
    return Work(recorded);
  }

  void failed(uint64_t id, const std::exception& error) {
    log_->recorder().fail(id);
    log_->dump_once(reason_of(error));
  }

  std::shared_ptr<Group> wrap(std::shared_ptr<Group> part, const std::vector<int>& ranks) override {
    std::vector<int64_t> in_world;
    for (const int rank : ranks) in_world.push_back(world_ranks_[static_cast<size_t>(rank)]);
    return std::make_shared<RecordingGroup>(std::move(part), log_, std::move(in_world));
  }

  const std::shared_ptr<FlightLog> log_;
  const std::vector<int64_t> world_ranks_;
  FlightEntry entry_;  // filled in anew for each call; its texts keep their memory
  uint64_t num_collectives_ = 0, num_messages_ = 0;
  const std::shared_ptr<std::atomic<int64_t>> turn_ns_ = std::make_shared<std::atomic<int64_t>>(0);
};

}  // namespace

std::shared_ptr<Group> make_recording_group(std::shared_ptr<Group> inner, std::shared_ptr<FlightLog> log) {
  std::vector<int64_t> ranks(static_cast<size_t>(inner->world()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return std::make_shared<RecordingGroup>(std::move(inner), std::move(log), std::move(ranks));
}

}  // namespace weft::comm
