#include "weft/monitor/blame.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "weft/base/text.h"
#include "weft/monitor/test_spans_impl.h"

namespace weft {
namespace {

constexpr int64_t kStart_ns = 1'800'000'000'000'000'000;

// Four ranks of one host that did all_reduce #1 to #last_finished of "world", 10 ms apart.
struct SampleRun {
  std::vector<FlightDump> dumps;

  explicit SampleRun(int64_t world = 4, uint64_t last_finished = 5) {
    for (int64_t rank = 0; rank < world; ++rank) {
      FlightDump dump{.owner = {.rank = rank, .world = world, .run_id = "r"}, .host = "node0", .pid = 100 + rank};
      for (int64_t member = 0; member < world; ++member) dump.groups["world"].push_back(member);
      dumps.push_back(std::move(dump));
      for (uint64_t sequence = 1; sequence <= last_finished; ++sequence) finish(rank, sequence);
    }
  }

  FlightEntry& add(int64_t rank, uint64_t sequence, FlightState state, const std::string& group = "world") {
    FlightEntry entry{.group = group,
                      .operation = "all_reduce",
                      .sequence = sequence,
                      .bytes = 4 << 20,
                      .dtype = "float",
                      .reduce_op = "sum",
                      .transport = "shm",
                      .start_ns = kStart_ns + static_cast<int64_t>(sequence) * 10 * kMs,
                      .state = state};
    if (state == FlightState::kFinished) entry.end_ns = entry.start_ns + 5 * kMs;
    return of(rank).entries.emplace_back(std::move(entry));
  }
  FlightEntry& finish(int64_t rank, uint64_t sequence) { return add(rank, sequence, FlightState::kFinished); }
  FlightEntry& wait(int64_t rank, uint64_t sequence, const std::string& group = "world") {
    return add(rank, sequence, FlightState::kStarted, group);
  }
  FlightDump& of(int64_t rank) {
    return *std::ranges::find(dumps, rank, [](const auto& d) { return d.owner.rank; });
  }
  void lose(int64_t rank) {
    std::erase_if(dumps, [&](const FlightDump& dump) { return dump.owner.rank == rank; });
  }
};

using Ranks = std::vector<int64_t>;

void expect_verdict(const SampleRun& run, BlameKind kind, const Ranks& ranks, uint64_t sequence,
                    std::string_view words) {
  const Blame blame = find_blame(run.dumps);
  EXPECT_EQ(blame.verdict.kind, kind) << blame.verdict.text;
  EXPECT_EQ(blame.verdict.ranks, ranks) << blame.verdict.text;
  EXPECT_EQ(blame.verdict.sequence, sequence) << blame.verdict.text;
  const std::string all = cat(blame.verdict.text, "; ", join(blame.verdict.details, "; "));
  EXPECT_NE(all.find(words), std::string::npos) << all;
}

TEST(Blame, NothingToBlame) { expect_verdict(SampleRun(), BlameKind::kNone, {}, 0, "nothing differs"); }

TEST(Blame, ARankThatNeverCame) {
  SampleRun run;
  for (const int64_t rank : {0, 1, 3}) run.wait(rank, 6);
  run.of(2).reason = "stuck in the data loader";
  expect_verdict(run, BlameKind::kNeverReached, {2}, 6, "rank 2 never reached all_reduce #6 of group world");
  expect_verdict(run, BlameKind::kNeverReached, {2}, 6, "ranks 0, 1, 3 wait there");
  expect_verdict(run, BlameKind::kNeverReached, {2}, 6,
                 "rank 2 last finished all_reduce #5 there: all_reduce of 4.0 MiB");
  expect_verdict(run, BlameKind::kNeverReached, {2}, 6, "rank 2 says: stuck in the data loader");
}

TEST(Blame, AFailedCallIsAWaitToo) {
  SampleRun run;
  for (const int64_t rank : {0, 1, 3}) run.add(rank, 6, FlightState::kFailed);
  expect_verdict(run, BlameKind::kNeverReached, {2}, 6, "rank 2 never reached");
}

TEST(Blame, ARankWithoutACallIsMissedThroughTheGroupsList) {
  SampleRun run(4, 0);
  for (const int64_t rank : {0, 1, 2}) run.wait(rank, 1);
  expect_verdict(run, BlameKind::kNeverReached, {3}, 1, "rank 3 called nothing in group world");
}

TEST(Blame, TheQueueBehindTheFirstWaitIsNotTheCause) {
  SampleRun run;
  for (const int64_t rank : {0, 1, 3}) {
    run.wait(rank, 6);
    run.add(rank, 7, FlightState::kQueued);
    run.add(rank, 8, FlightState::kQueued);
  }
  expect_verdict(run, BlameKind::kNeverReached, {2}, 6, "#6");
}

TEST(Blame, ARankThatDied) {
  SampleRun run;
  for (const int64_t rank : {0, 1, 3}) {
    run.wait(rank, 6);
    run.of(rank).reason = "PeerLost: rank 2 of 4 died";
  }
  run.lose(2);
  expect_verdict(run, BlameKind::kNoDump, {2}, 6, "no dump from rank 2");
  expect_verdict(run, BlameKind::kNoDump, {2}, 6, "ranks 0, 1, 3 wait in all_reduce #6 of group world");
  expect_verdict(run, BlameKind::kNoDump, {2}, 6, "ranks 0, 1, 3 say: PeerLost: rank 2 of 4 died");
}

TEST(Blame, TheMinorityIsNamed) {
  struct Case {
    void (*change)(FlightEntry&);
    std::string_view words;
  };
  const Case cases[] = {
      {[](FlightEntry& e) { e.operation = "all_gather"; }, "rank 1 called all_gather of 4.0 MiB"},
      {[](FlightEntry& e) { e.bytes -= 4; }, "4,194,300 bytes"},
      {[](FlightEntry& e) { e.dtype = "bfloat16"; }, "(bfloat16, sum)"},
      {[](FlightEntry& e) { e.reduce_op = "mean"; }, "(float, mean)"},
      {[](FlightEntry& e) { e.peer = 3; }, "root 3"},
  };
  for (const Case& one : cases) {
    SampleRun run;
    for (const int64_t rank : {0, 1, 2, 3}) run.wait(rank, 6);
    one.change(run.of(1).entries.back());
    expect_verdict(run, BlameKind::kMismatch, {1}, 6, one.words);
  }
}

TEST(Blame, BytesMayDifferWhereTheyDependOnTheRank) {
  for (const char* operation : {"all_to_all", "gather", "scatter"}) {
    SampleRun run;
    for (const int64_t rank : {0, 1, 2, 3}) {
      FlightEntry& entry = run.finish(rank, 6);
      entry.operation = operation;
      entry.bytes = static_cast<uint64_t>(rank);
    }
    expect_verdict(run, BlameKind::kNone, {}, 0, "nothing differs");
  }
}

TEST(Blame, ASkippedCallIsRecognised) {
  SampleRun run(4, 0);
  const char* order[] = {"broadcast", "all_gather", "reduce_scatter", "all_reduce"};
  for (int64_t rank = 0; rank < 4; ++rank) {
    for (uint64_t sequence = 1; sequence <= 3; ++sequence)
      run.finish(rank, sequence).operation = order[sequence - (rank == 2 ? 0 : 1)];
  }
  expect_verdict(run, BlameKind::kMismatch, {2}, 1, "it looks as if rank 2 left out broadcast");
}

TEST(Blame, AnExtraCallIsRecognised) {
  SampleRun run(4, 0);
  const char* order[] = {"broadcast", "all_gather", "reduce_scatter", "all_reduce"};
  for (int64_t rank = 0; rank < 4; ++rank) {
    for (uint64_t sequence = 1; sequence <= 3; ++sequence)
      run.finish(rank, sequence).operation = order[sequence - (rank == 2 ? 1 : 0)];
  }
  expect_verdict(run, BlameKind::kMismatch, {2}, 1, "once too often");
}

TEST(Blame, TwoRanksThatDisagreeHaveNoMajority) {
  SampleRun run(2);
  run.wait(0, 6);
  run.wait(1, 6).operation = "barrier";
  expect_verdict(run, BlameKind::kMismatch, {0, 1}, 6, "no side is the larger one");
  expect_verdict(run, BlameKind::kMismatch, {0, 1}, 6, "rank 1 called barrier");
}

TEST(Blame, AMismatchExplainsADeath) {
  SampleRun run;
  for (const int64_t rank : {0, 1, 2}) run.wait(rank, 6);
  run.of(1).entries.back().bytes = 1;
  run.lose(3);
  expect_verdict(run, BlameKind::kMismatch, {1}, 6, "rank 1 called");
  EXPECT_EQ(find_blame(run.dumps).findings.size(), 2U);
}

TEST(Blame, TheRootOfAChainOfWaitsIsNamed) {
  SampleRun run;
  for (const int64_t rank : {0, 3}) run.wait(rank, 6);  // for rank 1
  for (const int64_t rank : {0, 1, 2, 3}) run.of(rank).groups["pair"] = {1, 2};
  run.wait(1, 1, "pair");  // which waits for rank 2
  const Blame blame = find_blame(run.dumps);
  EXPECT_EQ(blame.verdict.kind, BlameKind::kNeverReached);
  EXPECT_EQ(blame.verdict.ranks, Ranks{2});
}

TEST(Blame, RanksThatWaitForEachOther) {
  SampleRun run(2);
  for (const int64_t rank : {0, 1}) run.of(rank).groups["other"] = {0, 1};
  run.wait(0, 6);
  run.wait(1, 1, "other");
  expect_verdict(run, BlameKind::kOrder, {0, 1}, 6, "rank 0 in all_reduce #6 of group world for rank 1");
  expect_verdict(run, BlameKind::kOrder, {0, 1}, 6, "rank 1 in all_reduce #1 of group other for rank 0");
}

TEST(Blame, AllCameAndItDidNotFinish) {
  SampleRun run;
  for (const int64_t rank : {0, 1, 2, 3}) run.wait(rank, 6);
  expect_verdict(run, BlameKind::kUnfinished, {}, 6, "none has finished it");
  run.of(1).entries.back().state = FlightState::kFinished;
  run.of(3).entries.back().state = FlightState::kFinished;
  expect_verdict(run, BlameKind::kUnfinished, {0, 2}, 6, "ranks 0, 2 did not finish it");
}

TEST(Blame, SendsAreNotAligned) {
  SampleRun run;
  run.finish(0, 6).operation = "send";
  run.wait(1, 1).operation = "recv";
  expect_verdict(run, BlameKind::kNone, {}, 0, "nothing differs");
}

TEST(Blame, RingsThatBeginAtDifferentNumbersAreCompared) {
  SampleRun run;
  auto& entries = run.of(2).entries;
  entries.erase(entries.begin(), entries.begin() + 3);
  expect_verdict(run, BlameKind::kNone, {}, 0, "nothing differs");
}

TEST(Blame, LatenessIsMeasuredPerHost) {
  SampleRun run(4, 40);
  for (FlightEntry& entry : run.of(3).entries) entry.start_ns += 3 * kMs;
  const Blame blame = find_blame(run.dumps);
  ASSERT_EQ(blame.lateness.size(), 4U);
  EXPECT_DOUBLE_EQ(blame.lateness[0].median_ms, 0);
  EXPECT_DOUBLE_EQ(blame.lateness[3].median_ms, 3);
  EXPECT_DOUBLE_EQ(blame.lateness[3].p90_ms, 3);
  EXPECT_DOUBLE_EQ(blame.lateness[3].last_share, 1);
  ASSERT_EQ(blame.advice.size(), 1U);
  EXPECT_EQ(blame.advice[0].find("rank 3 comes last in 100 % of 40 collectives"), 0U) << blame.advice[0];
  EXPECT_EQ(blame.verdict.kind, BlameKind::kNone) << "only advice";

  run.of(3).host = "node1";
  EXPECT_EQ(find_blame(run.dumps).lateness.size(), 3U) << "alone on its host, nothing to compare its clock with";
  EXPECT_TRUE(find_blame(run.dumps).advice.empty());
}

TEST(Blame, TheTextHasTheVerdictFirstAndNoColourInAPipe) {
  SampleRun run;
  for (const int64_t rank : {0, 1, 3}) run.wait(rank, 6);
  run.of(0).reason = "esc \x1b[31m here";
  const Blame blame = find_blame(run.dumps);
  const std::string plain = blame_text(blame, {.columns = 80});
  EXPECT_EQ(plain.find("verdict: rank 2 never reached all_reduce #6"), 0U) << plain;
  EXPECT_EQ(plain.find('\x1b'), std::string::npos);
  EXPECT_NE(plain.find("! rank 2"), std::string::npos) << plain;
  EXPECT_NE(blame_text(blame, {.is_tty = true, .columns = 80, .colour = true}).find('\x1b'), std::string::npos);
}

TEST(Blame, ManyRanksMakeAShortTable) {
  SampleRun run(200);
  for (int64_t rank = 0; rank < 200; ++rank) {
    if (rank != 150) run.wait(rank, 6);
  }
  const std::string text = blame_text(find_blame(run.dumps), {.columns = 100});
  EXPECT_NE(text.find("! rank 150"), std::string::npos) << text;
  EXPECT_NE(text.find("167 more ranks"), std::string::npos) << text;
  EXPECT_NE(text.find("ranks 0-149, 151-199 wait there"), std::string::npos) << text;
}

TEST(Blame, TheJson) {
  SampleRun run;
  for (const int64_t rank : {0, 1, 3}) run.wait(rank, 6);
  const auto json = nlohmann::json::parse(blame_json(find_blame(run.dumps)));
  EXPECT_EQ(json["schema"], 1);
  EXPECT_EQ(json["verdict"]["kind"], "never_reached");
  EXPECT_EQ(json["verdict"]["rank"], 2);
  EXPECT_EQ(json["verdict"]["group"], "world");
  EXPECT_EQ(json["verdict"]["sequence"], 6);
  EXPECT_EQ(json["verdict"]["operation"], "all_reduce");
  EXPECT_EQ(json["ranks"][0]["waits_in"]["sequence"], 6);
  EXPECT_EQ(json["ranks"][2]["waits_in"], nullptr);
  EXPECT_EQ(json["ranks"][2]["last_finished"]["sequence"], 5);
  EXPECT_EQ(json["lateness"].size(), 4U);
  const auto clean = nlohmann::json::parse(blame_json(find_blame(SampleRun().dumps)));
  EXPECT_EQ(clean["verdict"]["kind"], "none");
  EXPECT_EQ(clean["verdict"]["rank"], nullptr);
  EXPECT_EQ(clean["verdict"]["sequence"], nullptr);
}

TEST(Blame, ThePictureHasALaneForEachRankAndMarksTheCulprit) {
  SampleRun run;
  for (const int64_t rank : {0, 1, 3}) run.wait(rank, 6);
  run.of(0).entries.front().operation = "<script>";
  const std::string svg = blame_svg(find_blame(run.dumps), run.dumps);
  for (int rank = 0; rank < 4; ++rank) EXPECT_NE(svg.find(cat(">rank ", rank, "<")), std::string::npos);
  EXPECT_EQ(svg.find("<script>"), std::string::npos);
  SampleRun long_run(2, 500);
  EXPECT_LT(blame_svg(find_blame(long_run.dumps), long_run.dumps).size(), 50'000U) << "only the last ones are drawn";
  SampleRun empty(1, 0);
  EXPECT_NE(blame_svg(find_blame(empty.dumps), empty.dumps).find("</svg>"), std::string::npos);
}

}  // namespace
}  // namespace weft
