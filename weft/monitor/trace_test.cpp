#include <gtest/gtest.h>

#include <algorithm>
#include <climits>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/support/temp_dir.h"
#include "weft/base/crash_env.h"
#include "weft/base/error.h"
#include "weft/base/text.h"
#include "weft/monitor/trace_merge.h"
#include "weft/monitor/trace_writer.h"

namespace weft {
namespace {

using Json = nlohmann::json;
using test::TempDir;

constexpr uint64_t kLimit = 1 << 28;

SpanEvent span(const char* name, SpanCategory category, int64_t start_ns, int64_t end_ns) {
  return {.name = name, .category = category, .start_ns = start_ns, .end_ns = end_ns};
}

std::string written(Env& env, const std::string& path, std::span<const SpanEvent> events, const TraceOwner& owner = {},
                    int64_t origin_ns = 0) {
  TraceWriter trace(env, path, owner, {.origin_ns = origin_ns});
  trace.add(events);
  trace.close();
  return read_file(env, path, kLimit);
}

std::vector<Json> of_kind(const Json& trace, std::string_view kind) {
  std::vector<Json> out;
  for (const Json& event : trace) {
    if (event.at("ph") == kind) out.push_back(event);
  }
  return out;
}

int64_t ns(const Json& us) { return std::llround(us.get<double>() * 1000); }

// Of each row: any two spans are apart, or one lies in the other.
void expect_nested(const Json& trace) {
  std::map<std::pair<int64_t, int64_t>, std::vector<std::pair<int64_t, int64_t>>> rows;
  for (const Json& event : of_kind(trace, "X")) {
    const int64_t start = ns(event["ts"]);
    rows[{event["pid"].get<int64_t>(), event["tid"].get<int64_t>()}].emplace_back(start, -(start + ns(event["dur"])));
  }
  for (auto& [row, spans] : rows) {
    std::ranges::sort(spans);
    std::vector<int64_t> open_ends;
    for (const auto& [start, minus_end] : spans) {
      while (!open_ends.empty() && open_ends.back() <= start) open_ends.pop_back();
      if (!open_ends.empty()) {
        EXPECT_LE(-minus_end, open_ends.back()) << "row " << row.second << " at " << start;
      }
      open_ends.push_back(-minus_end);
    }
  }
}

TEST(TraceWriter, WritesWhatTheSpansSay) {
  CrashEnv env;
  const SpanEvent event{.name = "reduce",
                        .category = SpanCategory::kReduce,
                        .bucket = 3,
                        .bytes = 4096,
                        .key = "peer",
                        .value = -7,
                        .start_ns = 1'002'003,
                        .end_ns = 1'002'010};
  const Json trace = Json::parse(written(env, "t", {&event, 1}, {.rank = 5, .host = "node1"}, 1'000'000));
  const auto spans = of_kind(trace, "X");
  ASSERT_EQ(spans.size(), 1U);
  EXPECT_EQ(spans[0]["name"], "reduce");
  EXPECT_EQ(spans[0]["cat"], "reduce");
  EXPECT_EQ(spans[0]["pid"], 5);
  EXPECT_EQ(spans[0]["ts"], 2.003);
  EXPECT_EQ(spans[0]["dur"], 0.007);
  EXPECT_EQ(spans[0]["args"], (Json{{"bucket", 3}, {"bytes", 4096}, {"peer", -7}}));
  std::map<std::string, Json> names;
  for (const Json& event_of_row : of_kind(trace, "M")) names[event_of_row["name"].get<std::string>()] = event_of_row;
  EXPECT_EQ(names["process_name"]["args"]["name"], "rank 5 on node1");
  EXPECT_EQ(names["thread_name"]["args"]["name"], "reduce");
  EXPECT_EQ(names["thread_name"]["tid"], spans[0]["tid"]);
}

TEST(TraceWriter, AnEmptyTraceIsATrace) {
  CrashEnv env;
  EXPECT_TRUE(of_kind(Json::parse(written(env, "t", {})), "X").empty());
}

TEST(TraceWriter, SpansOfAStepAddUpToTheStep) {
  CrashEnv env;
  std::vector<SpanEvent> events;
  for (int64_t step = 0; step < 50; ++step) {
    const int64_t at = 100'003 * step;
    events.push_back(span("forward", SpanCategory::kForward, at, at + 33'337));
    events.push_back(span("backward", SpanCategory::kBackward, at + 33'337, at + 80'001));
    events.push_back(span("optimizer", SpanCategory::kOptimizer, at + 80'001, at + 100'003));
    events.push_back(span("step", SpanCategory::kStep, at, at + 100'003));
  }
  const Json trace = Json::parse(written(env, "t", events));
  expect_nested(trace);
  int64_t parts_ns = 0;
  for (const Json& event : of_kind(trace, "X")) {
    if (event["cat"] != "step") {
      parts_ns += ns(event["dur"]);
      continue;
    }
    EXPECT_EQ(parts_ns, ns(event["dur"]));
    parts_ns = 0;
  }
}

TEST(TraceWriter, OverlappingReducesGetRowsOfTheirOwn) {
  CrashEnv env;
  const std::vector<SpanEvent> events = {
      span("a", SpanCategory::kReduce, 0, 10),  span("b", SpanCategory::kReduce, 5, 15),
      span("c", SpanCategory::kReduce, 10, 20), span("inside d", SpanCategory::kReduce, 22, 24),
      span("d", SpanCategory::kReduce, 20, 30), span("late, in d", SpanCategory::kReduce, 21, 23)};
  const Json trace = Json::parse(written(env, "t", events));
  expect_nested(trace);
  std::map<std::string, int64_t> row;
  for (const Json& event : of_kind(trace, "X")) row[event["name"].get<std::string>()] = event["tid"].get<int64_t>();
  EXPECT_NE(row["a"], row["b"]);
  EXPECT_EQ(row["a"], row["c"]);
  EXPECT_EQ(row["d"], row["inside d"]);
  EXPECT_NE(row["d"], row["late, in d"]);
  EXPECT_EQ(row["late, in d"], row["b"]) << "no more rows than are needed";
}

// A deterministic heap of random spans, in the order of their ends as a drain gives them.
TEST(TraceWriter, AnyHeapOfSpansNests) {
  CrashEnv env;
  std::vector<SpanEvent> events;
  uint64_t state = 1;
  const auto draw = [&] { return (state = state * 6364136223846793005U + 1) >> 33U; };
  for (int i = 0; i < 2000; ++i) {
    const auto start = static_cast<int64_t>(draw() % 100'000);
    events.push_back(span("x", SpanCategory::kReduce, start, start + static_cast<int64_t>(draw() % 2000)));
  }
  std::ranges::sort(events, [](const SpanEvent& a, const SpanEvent& b) {
    return a.end_ns != b.end_ns ? a.end_ns < b.end_ns : a.start_ns > b.start_ns;
  });
  const Json trace = Json::parse(written(env, "t", events));
  EXPECT_EQ(of_kind(trace, "X").size(), events.size());
  expect_nested(trace);
}

struct Arrow {
  int64_t from_tid, from_ns, to_tid, to_ns;
  bool operator==(const Arrow&) const = default;
};

std::vector<Arrow> arrows_of(const Json& trace) {
  std::map<int64_t, Arrow> by_id;
  for (const Json& end : of_kind(trace, "s")) by_id[end["id"]] = {end["tid"], ns(end["ts"]), 0, 0};
  for (const Json& end : of_kind(trace, "f")) {
    by_id[end["id"]].to_tid = end["tid"];
    by_id[end["id"]].to_ns = ns(end["ts"]);
  }
  std::vector<Arrow> out;
  for (const auto& [id, arrow] : by_id) out.push_back(arrow);
  return out;
}

// Bucket 0 is full before bucket 1; then one update of both, as with clipping, and another where each has its own.
TEST(TraceWriter, ArrowsFollowABucketFromItsGradientToItsUpdate) {
  for (const bool has_own_updates : {false, true}) {
    CrashEnv env;
    std::vector<SpanEvent> events = {
        span("ready", SpanCategory::kBucket, 20, 25), span("ready", SpanCategory::kBucket, 30, 36),
        span("reduce", SpanCategory::kReduce, 25, 60), span("backward", SpanCategory::kBackward, 10, 70),
        span("reduce", SpanCategory::kReduce, 36, 80)};
    events[0].bucket = events[2].bucket = 0;
    events[1].bucket = events[4].bucket = 1;
    for (const int64_t at : {90, 95}) {
      events.push_back(span("optimizer", SpanCategory::kOptimizer, at, at + 5));
      if (has_own_updates) events.back().bucket = at == 90 ? 0 : 1;
    }
    const int64_t compute = 1, bucket = 65, reduce = 129, second_reduce = 130;
    EXPECT_EQ(arrows_of(Json::parse(written(env, "t", events))),
              (std::vector<Arrow>{{compute, 20, bucket, 20},
                                  {compute, 30, bucket, 30},
                                  {bucket, 24, reduce, 25},
                                  {bucket, 35, second_reduce, 36},
                                  {reduce, 59, compute, 90},
                                  {second_reduce, 79, compute, has_own_updates ? 95 : 90}}));
  }
}

TEST(TraceWriter, NamesMayHoldAnything) {
  CrashEnv env;
  const char* names[] = {"say \"hi\"",     "back\\slash",     "line\nend\ttab\x01\x7f",
                         "Zürich 重み 🚀", "broken \xff\xc3", ""};
  const char* expected[] = {
      "say \"hi\"", "back\\slash", "line\nend\ttab\x01\x7f", "Zürich 重み 🚀", "broken \xEF\xBF\xBD\xEF\xBF\xBD", ""};
  std::vector<SpanEvent> events;
  for (const char* name : names)
    events.push_back({.name = name, .track = track_named(name), .key = name, .value = 1, .end_ns = 1});
  const Json trace = Json::parse(written(env, "t", events, {.host = "h\"\n\xff", .run_id = "\\"}));
  const auto spans = of_kind(trace, "X");
  ASSERT_EQ(spans.size(), std::size(expected));
  for (size_t i = 0; i < spans.size(); ++i) {
    EXPECT_EQ(spans[i]["name"], expected[i]);
    EXPECT_EQ(spans[i]["args"][expected[i]], 1);
  }
}

TEST(TraceWriter, TimesThatCannotBeStayHarmless) {
  CrashEnv env;
  const std::vector<SpanEvent> events = {
      span("backwards", SpanCategory::kOther, 500, 400),
      span("before", SpanCategory::kOther, 10, 20),
      span("from before", SpanCategory::kOther, 50, 150),
      span("for ever", SpanCategory::kOther, INT64_MIN, INT64_MAX),
      {.name = "odd", .category = static_cast<SpanCategory>(77), .start_ns = 200, .end_ns = 201}};
  const Json trace = Json::parse(written(env, "t", events, {}, 100));
  for (const Json& event : of_kind(trace, "X")) {
    EXPECT_GE(event["ts"], 0) << event;
    EXPECT_GE(event["dur"], 0) << event;
    EXPECT_NE(event["name"], "before");
    if (event["name"] == "from before") {
      EXPECT_EQ(ns(event["dur"]), 50);
    } else if (event["name"] == "backwards") {
      EXPECT_EQ(ns(event["dur"]), 0);
    }
  }
}

TEST(TraceWriter, CountersAreValuesOverTime) {
  CrashEnv env;
  {
    TraceWriter trace(env, "t", {}, {.origin_ns = 0});
    trace.add_counters(2500, std::vector<CounterValue>{{.name = "bytes \"sent\"", .value = 7}});
  }
  const auto values = of_kind(Json::parse(read_file(env, "t", kLimit)), "C");
  ASSERT_EQ(values.size(), 1U);
  EXPECT_EQ(values[0]["name"], "bytes \"sent\"");
  EXPECT_EQ(values[0]["ts"], 2.5);
  EXPECT_EQ(values[0]["args"]["value"], 7);
}

TEST(TraceWriter, AFullDiskEndsTheTraceAndNothingElse) {
  TraceWriter trace(Env::posix(), "/dev/full", {});
  EXPECT_FALSE(trace.is_open());
  trace.add(std::vector<SpanEvent>(10));
  trace.add_counters(1, std::vector<CounterValue>{{.name = "x"}});
  trace.flush();
  trace.close();
}

TEST(TraceWriter, StopsAtItsLimit) {
  CrashEnv env;
  TraceWriter trace(env, "t", {}, {.origin_ns = 0, .limit_bytes = 10'000});
  for (int i = 0; i < 100; ++i) {
    trace.add(std::vector<SpanEvent>(100, span("x", SpanCategory::kOther, i, i)));
    trace.flush();
  }
  EXPECT_FALSE(trace.is_open());
  EXPECT_LT(env.stat("t")->bytes, 30'000U);
}

TEST(TraceWriter, MissingFoldersAreKnownAtOnce) {
  EXPECT_THROW(TraceWriter(Env::posix(), "/nowhere/at/all/trace.json", {}), IoError);
}

// More than a lane remembers, through a real file, with nothing in memory but a piece.
TEST(TraceWriter, TakesMoreThanItRemembers) {
  const TempDir folder;
  TraceWriter trace(Env::posix(), folder / "t", {}, {.origin_ns = 0});
  std::vector<SpanEvent> batch(10'000);
  for (int64_t round = 0; round < 30; ++round) {
    for (size_t i = 0; i < batch.size(); ++i) {
      const int64_t at = (round * 10'000 + static_cast<int64_t>(i)) * 100;
      batch[i] = span("op", SpanCategory::kForward, at, at + 100);
    }
    trace.add(batch);
  }
  trace.close();
  const std::string text = read_file(Env::posix(), folder / "t", kLimit);
  EXPECT_EQ(std::ranges::count(text, '\n'), 300'000 + 7);
  EXPECT_TRUE(text.ends_with("}\n]\n"));
}

class TraceMerge : public testing::Test {
 protected:
  void write(const std::string& path, int64_t rank, int64_t origin_ns, const std::string& host = "a",
             const std::string& boot = "") {
    const std::vector<SpanEvent> events = {span("work", SpanCategory::kForward, origin_ns + 10, origin_ns + 30)};
    written(env_, path, events, {.rank = rank, .host = host, .clock = host + boot}, origin_ns);
  }
  Json merged(std::vector<TraceSource> sources) {
    result_ = merge_traces(env_, sources, "all");
    return Json::parse(read_file(env_, "all", kLimit));
  }
  std::string refusal(std::vector<TraceSource> sources) {
    try {
      merge_traces(env_, sources, "all");
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInput);
      EXPECT_FALSE(env_.stat("all")) << "nothing half made";
      return error.what();
    }
    return "";
  }

  CrashEnv env_;
  MergedTrace result_;
};

TEST_F(TraceMerge, RanksOfOneHostShareAClock) {
  write("0", 0, 5000);
  write("1", 1, 4000);
  const Json trace = merged({{"0"}, {"1"}});
  std::map<int64_t, int64_t> start_ns;
  for (const Json& event : of_kind(trace, "X")) start_ns[event["pid"].get<int64_t>()] = ns(event["ts"]);
  EXPECT_EQ(start_ns[1], 10) << "the earliest origin is zero";
  EXPECT_EQ(start_ns[0], 1010);
  EXPECT_EQ(result_.num_events, 2U);
  EXPECT_TRUE(result_.cut_short.empty());
  expect_nested(trace);
}

TEST_F(TraceMerge, AnotherHostNeedsAnOffset) {
  write("0", 0, 5000);
  write("1", 1, 900'000, "b");
  EXPECT_NE(refusal({{"0"}, {"1"}}).find("rank 1 ran on b, the first file's on a"), std::string::npos);
  const Json trace = merged({{"0"}, {"1", -894'000}});
  EXPECT_EQ(ns(of_kind(trace, "X").back()["ts"]), 1010);
}

// Images are often all called "localhost".
TEST_F(TraceMerge, HostsOfOneNameHaveClocksOfTheirOwn) {
  write("0", 0, 5000, "localhost", " boot 1");
  write("1", 1, 900'000, "localhost", " boot 2");
  write("2", 2, 6000, "localhost", " boot 1");
  EXPECT_NE(refusal({{"0"}, {"1"}}).find("rank 1 ran on localhost, the first file's on another localhost"),
            std::string::npos);
  EXPECT_EQ(ns(of_kind(merged({{"0"}, {"1", -894'000}}), "X").back()["ts"]), 1010);
  EXPECT_EQ(ns(of_kind(merged({{"0"}, {"2"}}), "X").back()["ts"]), 1010);
}

TEST(TraceOwner, NamesTheClockByMoreThanTheHost) {
  const std::string boot_id = read_file(Env::posix(), "/proc/sys/kernel/random/boot_id", 4096);
  const TraceOwner owner;
  EXPECT_TRUE(owner.clock.starts_with(this_host_name() + " ")) << owner.clock;
  EXPECT_NE(owner.clock.find(boot_id.substr(0, boot_id.find('\n'))), std::string::npos) << owner.clock;
  EXPECT_EQ(owner.clock, this_clock_name()) << "the same at every call";
}

// Two hosts whose clocks are hours apart and drift by 1 in 1,000.
TEST_F(TraceMerge, FilesSayHowTheirClocksRun) {
  env_.make_folders("f");
  constexpr int64_t kHoursNs = 9 * 3'600'000'000'000;
  const auto theirs_ns = [](int64_t ns) { return kHoursNs + ns + ns / 1000; };
  for (const int64_t rank : {0, 1}) {
    const auto clock_ns = [&](int64_t ns) { return rank == 0 ? ns : theirs_ns(ns); };
    const std::string host = rank == 0 ? "a" : "b";
    TraceWriter trace(env_, trace_path("f", rank), {.rank = rank, .host = host, .clock = host},
                      {.origin_ns = clock_ns(0)});
    for (const int64_t at_ns : {0, 10'000'000}) {
      trace.add(
          std::vector{span("work", SpanCategory::kForward, clock_ns(at_ns + 5'000'000), clock_ns(at_ns + 5'001'000))});
      trace.add_clock({.at_ns = clock_ns(at_ns), .offset_ns = at_ns - clock_ns(at_ns), .round_trip_ns = 61});
    }
    trace.add_clock({.at_ns = clock_ns(20'000'000), .offset_ns = 20'000'000 - clock_ns(20'000'000)});
  }
  const auto sources = traces_in(env_, "f");
  ASSERT_EQ(sources.size(), 2U);
  std::map<int64_t, std::vector<int64_t>> starts_ns;
  std::set<int64_t> errors_ns;
  const Json trace = merged(sources);
  for (const Json& event : of_kind(trace, "X")) starts_ns[event["pid"]].push_back(ns(event["ts"]));
  for (const Json& event : of_kind(trace, "M")) {
    if (event["name"] == "weft_clock") errors_ns.insert(event["args"]["error_ns"].get<int64_t>());
  }
  EXPECT_EQ(errors_ns, (std::set<int64_t>{0, 31})) << "half the round trip; the last reading had none";
  ASSERT_EQ(starts_ns[1].size(), 2U);
  for (size_t i = 0; i < 2; ++i) EXPECT_NEAR(starts_ns[1][i], starts_ns[0][i], 10) << "drift is 5,000 ns and more";
  write_file(env_, trace_path("f", 1),
             bytes_of("[\n{\"name\":\"weft_trace\",\"args\":{\"rank\":1,\"origin_ns\":0,\"host\":\"b\"}}\n"
                      ",{\"name\":\"weft_clock\",\"args\":{\"at_ns\":1e300}}\n]\n"));
  env_.remove_file("all");
  EXPECT_NE(refusal(sources).find("a clock that cannot be"), std::string::npos);
}

TEST(TracesIn, AreThoseOfRanksInTheirOrder) {
  CrashEnv env;
  env.make_folders("f");
  for (const char* name :
       {"trace.rank_10.json", "trace.rank_2.json", "trace.rank_x.json", "trace.rank_02.json", "trace.json"})
    write_file(env, cat("f/", name), {});
  const auto sources = traces_in(env, "f");
  ASSERT_EQ(sources.size(), 2U);
  EXPECT_EQ(sources[0].path, "f/trace.rank_2.json");
  EXPECT_EQ(sources[1].path, "f/trace.rank_10.json");
  EXPECT_TRUE(traces_in(env, "nowhere").empty());
}

TEST_F(TraceMerge, OneRankComesOnce) {
  write("0", 0, 0);
  write("1", 0, 0);
  EXPECT_NE(refusal({{"0"}, {"1"}}).find("two traces of rank 0"), std::string::npos);
}

TEST_F(TraceMerge, AFileMayStopAnywhere) {
  write("0", 0, 0);
  const std::string whole = read_file(env_, "0", kLimit);
  const size_t header_end = whole.find('\n', 2) + 1;
  for (size_t size = header_end; size < whole.size(); ++size) {
    write_file(env_, "0", bytes_of(whole.substr(0, size)));
    const Json trace = merged({{"0"}});
    EXPECT_LE(of_kind(trace, "X").size(), 1U);
    EXPECT_EQ(result_.cut_short.size(), 1U) << size;
  }
}

TEST_F(TraceMerge, RefusesWhatIsNoTrace) {
  const std::string header = R"({"ph":"M","name":"weft_trace","args":{"rank":0,"origin_ns":0,"host":"a"}})";
  const std::string endless(3 << 20, 'x');
  const std::string texts[] = {
      "",
      "{}\n",
      "[\n",
      "[\n{}\n]\n",
      "[\n[1]\n]\n",
      "[\n" + header + "\n,nonsense\n]\n",
      "[\n" + header + "\n,{\"ts\":\"soon\"}\n]\n",
      "[\n" + header + "\n,{\"ts\":1e300}\n]\n",
      "[\n{\"name\":\"weft_trace\",\"args\":{\"rank\":\"0\",\"origin_ns\":0,\"host\":\"a\"}}\n]\n",
      "[\n{\"name\":\"weft_trace\",\"args\":{\"rank\":0,\"origin_ns\":9223372036854775807,"
      "\"host\":\"a\"}}\n]\n",
      "[\n" + endless};
  for (const std::string& text : texts) {
    write_file(env_, "0", bytes_of(text));
    EXPECT_NE(refusal({{"0"}}), "") << text.substr(0, 100);
  }
}

TEST_F(TraceMerge, OfNothingIsAnEmptyTrace) { EXPECT_EQ(merged({}).size(), 0U); }

}  // namespace
}  // namespace weft
