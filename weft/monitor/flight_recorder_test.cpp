#include "weft/monitor/flight_recorder.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <thread>

namespace weft {
namespace {

FlightEntry call(uint64_t sequence, FlightState state = FlightState::kStarted) {
  return {.group = "world", .operation = "all_reduce", .sequence = sequence, .bytes = 4096, .state = state};
}

std::vector<uint64_t> sequences(const FlightRecorder& recorder) {
  std::vector<uint64_t> out;
  for (const FlightEntry& entry : recorder.entries()) out.push_back(entry.sequence);
  return out;
}

TEST(FlightRecorder, KeepsTheLastOnesOldestFirst) {
  FlightRecorder recorder({}, 3);
  EXPECT_TRUE(recorder.entries().empty());
  for (uint64_t sequence = 1; sequence <= 5; ++sequence) recorder.begin(call(sequence));
  EXPECT_EQ(sequences(recorder), (std::vector<uint64_t>{3, 4, 5}));
  EXPECT_EQ(recorder.dump("").recorded, 5U);
}

TEST(FlightRecorder, FollowsACallThroughItsStates) {
  FlightRecorder recorder({});
  const uint64_t id = recorder.begin(call(1, FlightState::kQueued));
  const FlightEntry queued = recorder.entries().front();
  EXPECT_EQ(queued.state, FlightState::kQueued);
  EXPECT_GT(queued.start_ns, 0);
  EXPECT_EQ(queued.end_ns, 0);
  recorder.start(id);
  EXPECT_EQ(recorder.entries().front().state, FlightState::kStarted);
  EXPECT_EQ(recorder.entries().front().start_ns, queued.start_ns) << "it was called when it was queued";
  recorder.finish(id);
  EXPECT_EQ(recorder.entries().front().state, FlightState::kFinished);
  EXPECT_GE(recorder.entries().front().end_ns, queued.start_ns);
}

TEST(FlightRecorder, AFailureIsAnEnd) {
  FlightRecorder recorder({});
  recorder.fail(recorder.begin(call(1)));
  EXPECT_EQ(recorder.entries().front().state, FlightState::kFailed);
  EXPECT_GT(recorder.entries().front().end_ns, 0);
}

TEST(FlightRecorder, AStartedCallStaysStarted) {
  FlightRecorder recorder({});
  const uint64_t id = recorder.begin(call(1));
  recorder.finish(id);
  recorder.start(id);
  EXPECT_EQ(recorder.entries().front().state, FlightState::kFinished);
}

TEST(FlightRecorder, AnOverwrittenCallIsLeftAlone) {
  FlightRecorder recorder({}, 2);
  const uint64_t old = recorder.begin(call(1));
  recorder.begin(call(2));
  recorder.begin(call(3));  // takes the slot of 1
  recorder.finish(old);
  recorder.fail(99);  // never begun
  for (const FlightEntry& entry : recorder.entries()) EXPECT_EQ(entry.state, FlightState::kStarted);
}

TEST(FlightRecorder, ADumpSaysWhoseItIs) {
  FlightRecorder recorder({.rank = 3, .world = 8, .run_id = "some run"});
  recorder.add_group("world", {0, 1, 2, 3});
  recorder.begin(call(1));
  const FlightDump dump = recorder.dump("PeerLost: rank 2");
  EXPECT_EQ(dump.owner.rank, 3);
  EXPECT_EQ(dump.owner.world, 8);
  EXPECT_EQ(dump.owner.run_id, "some run");
  EXPECT_EQ(dump.reason, "PeerLost: rank 2");
  EXPECT_EQ(dump.pid, ::getpid());
  EXPECT_FALSE(dump.host.empty());
  EXPECT_EQ(dump.time.size(), std::string("2026-11-15T01:45:00Z").size());
  EXPECT_EQ(dump.groups.at("world").size(), 4U);
  EXPECT_EQ(dump.entries.size(), 1U);
}

// Callers begin, a communication thread ends, somebody dumps: all at once, for the sanitizers to look at.
TEST(FlightRecorder, TakesCallsFromSeveralThreads) {
  constexpr int kThreads = 4;
  constexpr uint64_t kCalls = 2000;
  FlightRecorder recorder({}, 64);
  std::atomic<bool> stop = false;
  std::thread reader([&] {
    while (!stop.load()) EXPECT_LE(recorder.dump("look").entries.size(), 64U);
  });
  std::vector<std::thread> callers;
  for (int i = 0; i < kThreads; ++i) {
    callers.emplace_back([&] {
      for (uint64_t sequence = 1; sequence <= kCalls; ++sequence) {
        const uint64_t id = recorder.begin(call(sequence, FlightState::kQueued));
        recorder.start(id);
        sequence % 2 == 0 ? recorder.finish(id) : recorder.fail(id);
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  stop.store(true);
  reader.join();
  EXPECT_EQ(recorder.dump("").recorded, kThreads * kCalls);
  for (const FlightEntry& entry : recorder.entries()) {
    EXPECT_EQ(entry.state, entry.sequence % 2 == 0 ? FlightState::kFinished : FlightState::kFailed);
  }
}

}  // namespace
}  // namespace weft
