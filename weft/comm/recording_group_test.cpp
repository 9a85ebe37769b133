#include "weft/comm/recording_group.h"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "tests/support/ranks.h"
#include "weft/base/clock.h"
#include "weft/base/error.h"
#include "weft/comm/fake_group.h"
#include "weft/comm/faulty_group.h"
#include "weft/comm/test_groups_impl.h"
#include "weft/monitor/comms_log.h"
#include "weft/monitor/flight_dump.h"

namespace weft::comm {
namespace {

// Ranks as threads, each in a group that `wrap` makes a recording one.
void with_recording(int world, const Wrap& wrap, const std::function<void(Group&)>& body) {
  test::run_ranks_as_threads(world, in_group(wrap, body));
}

std::shared_ptr<FlightLog> log_of(int rank, int world, const std::string& folder = "") {
  return std::make_shared<FlightLog>(FlightOwner{.rank = rank, .world = world, .run_id = "run"}, folder);
}

// Works that end when the test says so.
class SlowGroup final : public Group {
 public:
  struct State final : WorkState {
    std::atomic<bool> over = false, bad = false;
    std::atomic<int64_t> end_ns = 1;
    bool done() override { return over; }
    void wait(Deadline) override {
      if (bad) throw Error(ErrorKind::kEnvironment, {.title = "the wire is cut", .what = "", .where = "", .fix = ""});
      if (!over)
        throw Error(ErrorKind::kEnvironment, {.title = "too short a wait", .what = "", .where = "", .fix = ""});
    }
    int64_t finished_ns() override { return over ? end_ns.load() : 0; }
    void end(bool well) {
      bad = !well;
      over = true;
    }
  };

  SlowGroup() : Group("slow", 0, 2, 1) {}
  std::string_view transport() const override { return "slow"; }
  at::Tensor allocate(int64_t, at::ScalarType) override { throw IoError("get memory", "", ENOMEM); }
  std::shared_ptr<Group> split(const std::vector<int>&, const std::string&) override { return nullptr; }
  State& work(size_t i) { return *states_.at(i); }

 private:
  Work launch(const Collective&, Launch) override {
    states_.push_back(std::make_shared<State>());
    return Work(states_.back());
  }
  std::vector<std::shared_ptr<State>> states_;
};

std::vector<FlightState> states(FlightLog& log) {
  std::vector<FlightState> out;
  for (const FlightEntry& entry : log.recorder().entries()) out.push_back(entry.state);
  return out;
}

constexpr FlightState kQueued = FlightState::kQueued, kStarted = FlightState::kStarted,
                      kFinished = FlightState::kFinished, kFailed = FlightState::kFailed;
using States = std::vector<FlightState>;

TEST(RecordingGroup, TakesDownWhatWasCalled) {
  const auto log = log_of(3, 8);
  const auto group = make_recording_group(std::make_shared<FakeGroup>(FakeGroupSpec{.rank = 3, .world = 8}), log);
  group->all_reduce(at::zeros({256}), ReduceOp::kMean);
  group->send(at::zeros({2}, at::kBFloat16), 5);
  group->broadcast(at::zeros({4}), 7);
  group->barrier();
  group->allocate(16, at::kInt);
  const auto entries = log->recorder().entries();
  ASSERT_EQ(entries.size(), 5);
  const auto expect = [&](size_t i, FlightEntry wanted) {
    wanted.group = "world";
    wanted.transport = "fake";
    wanted.state = FlightState::kFinished;
    wanted.start_ns = entries[i].start_ns;
    wanted.end_ns = entries[i].end_ns;
    EXPECT_EQ(entries[i], wanted) << i << ": " << entries[i].operation;
    EXPECT_GE(entries[i].end_ns, entries[i].start_ns);
  };
  expect(0,
         {.group = "", .operation = "all_reduce", .sequence = 1, .bytes = 1024, .dtype = "Float", .reduce_op = "mean"});
  expect(1, {.group = "", .operation = "send", .sequence = 1, .bytes = 4, .dtype = "BFloat16", .peer = 5});
  expect(2, {.group = "", .operation = "broadcast", .sequence = 2, .bytes = 16, .dtype = "Float", .peer = 7});
  expect(3, {.group = "", .operation = "barrier", .sequence = 3});
  expect(4, {.group = "", .operation = "allocate", .sequence = 4, .bytes = 64, .dtype = "Int"});
}

TEST(RecordingGroup, PartsShareTheRecordUnderTheirRanksInTheWorld) {
  const auto log = log_of(4, 8);
  const auto world = make_recording_group(std::make_shared<FakeGroup>(FakeGroupSpec{.rank = 4, .world = 8}), log);
  const auto even = world->split({0, 2, 4, 6}, "even");
  const auto pair = even->split({3, 2}, "pair");
  pair->barrier();
  const FlightDump dump = log->recorder().dump("");
  EXPECT_EQ(dump.groups.at("world"), (std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(dump.groups.at("even"), (std::vector<int64_t>{0, 2, 4, 6}));
  EXPECT_EQ(dump.groups.at("pair"), (std::vector<int64_t>{6, 4}));
  ASSERT_EQ(dump.entries.size(), 1);
  EXPECT_EQ(dump.entries[0].group, "pair");
}

TEST(RecordingGroup, AsynchronousCallsEndWhenTheyEnd) {
  const auto log = log_of(0, 2);
  const auto slow = std::make_shared<SlowGroup>();
  const auto group = make_recording_group(slow, log);
  const Work first = group->start(barrier()), second = group->start(barrier());
  (void)group->start(barrier());  // nobody will ask for it
  EXPECT_EQ(states(*log), (States{kStarted, kQueued, kQueued}));
  EXPECT_FALSE(first.done());
  EXPECT_THROW(first.wait(), Error) << "too short a wait";
  EXPECT_EQ(states(*log)[0], kStarted) << "and the work goes on";
  slow->work(0).end(true);
  EXPECT_TRUE(first.done());
  EXPECT_GT(first.finished_ns(), 0);
  EXPECT_EQ(states(*log)[0], kFinished);
  slow->work(1).end(true);
  second.wait();
  slow->work(2).end(true);
  const Work last = group->start(barrier());  // which looks after the dropped one
  EXPECT_EQ(states(*log), (States{kFinished, kFinished, kFinished, kStarted}));
}

TEST(RecordingGroup, TheFirstFailureIsDumpedAndNoOther) {
  const test::TempDir dir;
  const std::string folder = dir / "flight";
  const auto log = log_of(0, 2, folder);
  const auto slow = std::make_shared<SlowGroup>();
  const auto group = make_recording_group(slow, log);
  const Work first = group->start(barrier()), second = group->start(barrier()), third = group->start(barrier());
  slow->work(0).end(false);
  slow->work(1).end(false);
  EXPECT_THROW(first.wait(), Error);
  const FlightDump dump = read_flight_dump(Env::posix(), flight_dump_path(folder, 0));
  EXPECT_EQ(dump.reason, "the wire is cut");
  ASSERT_EQ(dump.entries.size(), 3);
  EXPECT_EQ(dump.entries[0].state, kFailed);
  EXPECT_EQ(dump.entries[1].state, kFailed) << "it has failed, though nobody has waited for it";
  EXPECT_EQ(dump.entries[2].state, kStarted);
  slow->work(2).end(false);
  EXPECT_THROW(third.wait(), Error);
  EXPECT_THROW(third.wait(), Error) << "every time";
  EXPECT_EQ(read_flight_dump(Env::posix(), flight_dump_path(folder, 0)).entries[2].state, kStarted) << "written once";
}

TEST(RecordingGroup, RefusedMemoryFailsAndIsNoReasonForADump) {
  const test::TempDir dir;
  const auto log = log_of(0, 2, dir.path());
  const auto group = make_recording_group(std::make_shared<SlowGroup>(), log);
  EXPECT_THROW(group->allocate(10, at::kFloat), IoError);
  EXPECT_EQ(states(*log), States{kFailed});
  EXPECT_TRUE(Env::posix().list(dir.path()).empty());
}

TEST(RecordingGroup, ADumpThatCannotBeWrittenDoesNotHideTheFailure) {
  const auto log = log_of(0, 2, "/proc/no/such/folder");
  const auto inner = std::make_shared<FakeGroup>(FakeGroupSpec{.rank = 0, .world = 2});
  const auto group = make_recording_group(make_faulty_group(inner, parse_faults("do=throw")), log);
  try {
    group->barrier();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.text().title, "a fault, as the script of faults has it");
  }
}

TEST(RecordingGroup, EveryRankOfALostGroupLeavesItsRecord) {
  const test::TempDir dir;
  const auto wrap = [&](std::shared_ptr<Group> inner) {
    const auto log = log_of(inner->rank(), inner->world(), dir.path());
    auto faulty = make_faulty_group(std::move(inner), parse_faults("rank=1 at=3 do=throw"));
    return make_recording_group(std::move(faulty), log);
  };
  with_recording(3, wrap, [](Group& group) {
    const at::Tensor data = at::full({1000}, 1.0F);
    std::vector<Work> works;
    const auto go = [&] {
      for (int i = 0; i < 4; ++i) works.push_back(group.start(all_reduce(data)));
      for (const Work& work : works) work.wait();
    };
    EXPECT_THROW(go(), Error);
    // Its first two are made all the same, before it leaves.
    for (const Work& work : works) {
      if (group.rank() == 1) work.wait();
    }
  });
  const auto dumps = read_flight_dumps(Env::posix(), dir.path());
  ASSERT_EQ(dumps.size(), 3);
  EXPECT_EQ(dumps[1].reason, "a fault, as the script of faults has it: rank 1 was told to throw");
  EXPECT_EQ(dumps[1].entries.size(), 3);
  EXPECT_EQ(dumps[1].entries[2].state, kFailed);
  for (const size_t rank : {0U, 2U}) {
    EXPECT_NE(dumps[rank].reason.find("rank 1 left"), std::string::npos) << dumps[rank].reason;
    ASSERT_EQ(dumps[rank].entries.size(), 4);
    EXPECT_EQ(dumps[rank].entries[1].state, kFinished);
    EXPECT_EQ(dumps[rank].entries[2].state, kFailed);
    EXPECT_EQ(dumps[rank].entries[2].operation, "all_reduce");
  }
}

// Switches comms_logger off again, also where a test fails: the log is the process's.
class CommsLogged : public testing::Test {
 protected:
  void SetUp() override { comms_log().start({}); }
  void TearDown() override { comms_log().stop(); }
};

TEST_F(CommsLogged, EveryCallOfEveryRankIsCounted) {
  const Wrap record = [](std::shared_ptr<Group> group) {
    const auto log = log_of(group->rank(), group->world());
    return make_recording_group(std::move(group), log);
  };
  const Stopwatch watch;
  with_recording(2, record, [](Group& group) {
    for (int i = 0; i < 3; ++i) group.all_reduce(at::zeros({256}));
    const at::Tensor part = at::zeros({4}), whole = at::zeros({8});
    const Work first = group.start(all_gather(part, whole));
    const Work second = group.start(all_gather(part, at::zeros({8})));
    second.wait();
    first.wait();
    group.barrier();
  });
  int64_t sum_ns = 0;
  std::vector<std::tuple<std::string, uint64_t, uint64_t>> found;
  for (const CommsRow& row : comms_log().rows()) {
    found.emplace_back(row.operation, row.bytes, row.count);
    EXPECT_GT(row.total_ns, 0) << row.operation;
    EXPECT_EQ(row.ranks, 2);
    sum_ns += row.total_ns;
  }
  EXPECT_EQ(found, (std::vector<std::tuple<std::string, uint64_t, uint64_t>>{
                       {"all_gather", 32, 4}, {"all_reduce", 1024, 6}, {"barrier", 0, 2}}));
  EXPECT_LE(sum_ns, 2 * watch.elapsed_ns()) << "calls of a group do not count the time of one another";
}

TEST_F(CommsLogged, ACallIsTimedFromItsTurn) {
  const auto inner = std::make_shared<SlowGroup>();
  const auto log = log_of(0, 2);
  const auto group = make_recording_group(inner, log);
  const int64_t start_ns = now_ns();
  const Work first = group->start(all_reduce(at::zeros({1})));
  const Work second = group->start(broadcast(at::zeros({1}), 0));
  constexpr int64_t kSecond_ns = 1'000'000'000;
  inner->work(0).end_ns = start_ns + 100 * kSecond_ns;
  inner->work(1).end_ns = start_ns + 101 * kSecond_ns;
  inner->work(0).end(true);
  inner->work(1).end(true);
  second.wait();
  const auto rows = comms_log().rows();
  ASSERT_EQ(rows.size(), 2);
  EXPECT_LE(rows[0].total_ns, 100 * kSecond_ns);
  EXPECT_GT(rows[0].total_ns, 99 * kSecond_ns) << "from when it was called";
  EXPECT_EQ(rows[1].total_ns, kSecond_ns) << "from when the one before it had ended";
}

TEST_F(CommsLogged, FailuresAreNotTimed) {
  const auto inner = std::make_shared<SlowGroup>();
  const auto log = log_of(0, 2);
  const auto group = make_recording_group(inner, log);
  const Work work = group->start(all_reduce(at::zeros({1})));
  inner->work(0).end(false);
  EXPECT_THROW(work.wait(), Error);
  log->settle();
  EXPECT_TRUE(comms_log().rows().empty());
}

TEST(CommsLogOff, NothingIsKept) {
  const auto group =
      make_recording_group(std::make_shared<FakeGroup>(FakeGroupSpec{.rank = 0, .world = 2}), log_of(0, 2));
  comms_log().start({});
  comms_log().stop();
  group->all_reduce(at::zeros({4}));
  EXPECT_TRUE(comms_log().rows().empty());
}

}  // namespace
}  // namespace weft::comm
