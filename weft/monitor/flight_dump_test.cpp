#include "weft/monitor/flight_dump.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <nlohmann/json.hpp>

#include "tests/support/temp_dir.h"
#include "weft/base/crash_env.h"
#include "weft/base/error.h"
#include "weft/base/text.h"

namespace weft {
namespace {

using Json = nlohmann::json;

FlightDump sample(int64_t rank = 3) {
  FlightDump dump{.owner = {.rank = rank, .world = 4, .run_id = "run-1"},
                  .host = "node0",
                  .pid = 4711,
                  .reason = "PeerLost: rank 2 \"died\"",
                  .time = "2026-11-15T01:45:00Z",
                  .groups = {{"world", {0, 1, 2, 3}}},
                  .recorded = 2002,
                  .entries = {}};
  dump.entries.push_back({.group = "world",
                          .operation = "all_reduce",
                          .sequence = 17,
                          .bytes = 4194304,
                          .dtype = "float",
                          .reduce_op = "sum",
                          .transport = "shm",
                          .start_ns = 1'800'000'000'000'000'001,
                          .end_ns = 1'800'000'000'000'000'002,
                          .state = FlightState::kFinished});
  dump.entries.push_back({.group = "world", .operation = "broadcast", .sequence = 18, .peer = 0, .start_ns = 5});
  return dump;
}

// The message of what reading `text` as rank 3's dump says; "" when it is read.
std::string refusal(const std::string& text) {
  CrashEnv env;
  write_file(env, "flight.rank_3.json", bytes_of(text));
  try {
    read_flight_dump(env, "flight.rank_3.json");
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), 2) << error.what();
    EXPECT_EQ(error.text().where, "flight.rank_3.json") << error.what();
    return error.what();
  }
  return "";
}

std::string with(const std::string& pointer, const Json& value) {
  Json json = Json::parse(to_json(sample()));
  json[Json::json_pointer(pointer)] = value;
  return json.dump();
}

TEST(FlightDump, ComesBackAsItWas) {
  const test::TempDir folder;
  write_flight_dump(Env::posix(), folder / "some/where", sample());
  const FlightDump back = read_flight_dump(Env::posix(), folder / "some/where/flight.rank_3.json");
  const FlightDump was = sample();
  EXPECT_EQ(back.owner.rank, 3);
  EXPECT_EQ(back.owner.world, 4);
  EXPECT_EQ(back.owner.run_id, "run-1");
  EXPECT_EQ(back.host, was.host);
  EXPECT_EQ(back.pid, was.pid);
  EXPECT_EQ(back.reason, was.reason);
  EXPECT_EQ(back.time, was.time);
  EXPECT_EQ(back.groups, was.groups);
  EXPECT_EQ(back.recorded, was.recorded);
  EXPECT_EQ(back.entries, was.entries);
}

TEST(FlightDump, NoEntriesAndDamagedTextAreWritten) {
  FlightDump dump = sample();
  dump.entries.clear();
  dump.reason = "bad byte \xff";
  EXPECT_EQ(refusal(to_json(dump)), "");
}

TEST(FlightDump, ADiskThatFailsLeavesNoHalfFile) {
  CrashEnv count;
  write_flight_dump(count, "dumps", sample());
  for (int call = 1; call <= count.calls(); ++call) {
    CrashEnv env;
    env.fail_call(call, ENOSPC);
    try {
      write_flight_dump(env, "dumps", sample());
    } catch (const IoError&) {
    }
    env.clear_faults();
    const bool is_there = env.stat("dumps/flight.rank_3.json").has_value();
    EXPECT_TRUE(!is_there || read_flight_dump(env, "dumps/flight.rank_3.json").entries == sample().entries);
  }
}

TEST(FlightDump, EveryTruncationIsRefused) {
  const std::string whole = to_json(sample());
  for (size_t bytes = 0; bytes + 2 < whole.size(); ++bytes) {
    const std::string message = refusal(whole.substr(0, bytes));
    EXPECT_NE(message.find("line "), std::string::npos) << bytes << ": " << message;
  }
}

TEST(FlightDump, WhatIsWrongIsNamedWithItsPlace) {
  const std::tuple<std::string, Json, std::string> cases[] = {
      {"/schema", 2, "schema is 2, not a whole number from 1 to 1"},
      {"/schema", "1", "schema is \"1\""},
      {"/rank", -1, "rank is -1"},
      {"/rank", 4, "rank is 4, not a whole number from 0 to 3"},
      {"/rank", 1.5, "rank is 1.5"},
      {"/world", 0, "world is 0"},
      {"/world", 1e30, "world is 1e+30"},
      {"/pid", -7, "pid is -7"},
      {"/host", nullptr, "host is null, not a string"},
      {"/reason", Json::array(), "reason is an array"},
      {"/recorded", "many", "recorded is \"many\""},
      {"/groups", Json::array(), "groups is an array"},
      {"/groups/world", 3, "groups.world is 3"},
      {"/groups/world", Json::array({9}), "groups.world[0] is 9"},
      {"/entries", Json::object(), "entries is an object"},
      {"/entries/1", 7, "entries[1] is 7, not an object"},
      {"/entries/1/sequence", 0, "entries[1].sequence is 0"},
      {"/entries/1/sequence", 18446744073709551615U, "entries[1].sequence is 18446744073709551615"},
      {"/entries/0/bytes", -1, "entries[0].bytes is -1"},
      {"/entries/0/bytes", 1e300, "entries[0].bytes is 1e+300"},
      {"/entries/0/peer", -2, "entries[0].peer is -2"},
      {"/entries/0/start_ns", -5, "entries[0].start_ns is -5"},
      {"/entries/0/state", "dreaming", "entries[0].state is \"dreaming\", not one of queued"}};
  for (const auto& [pointer, value, words] : cases) {
    const std::string message = refusal(with(pointer, value));
    EXPECT_NE(message.find(words), std::string::npos) << pointer << ": " << message;
  }
}

TEST(FlightDump, AMissingFieldIsNamed) {
  for (const char* key :
       {"schema", "rank", "world", "host", "pid", "run_id", "reason", "time", "recorded", "groups", "entries"}) {
    Json json = Json::parse(to_json(sample()));
    json.erase(key);
    EXPECT_NE(refusal(json.dump()).find(cat("there is no ", key)), std::string::npos) << key;
  }
  Json json = Json::parse(to_json(sample()));
  json["entries"][0].erase("bytes");
  EXPECT_NE(refusal(json.dump()).find("there is no entries[0].bytes"), std::string::npos);
}

TEST(FlightDump, HostileNestingIsRefused) {
  const std::string deep(200'000, '[');
  EXPECT_NE(refusal(deep), "");
  EXPECT_NE(refusal(cat("{\"schema\": ", deep, std::string(200'000, ']'), "}")).find("schema is an array"),
            std::string::npos);
  EXPECT_NE(refusal("\xff\xfe"), "");
  EXPECT_NE(refusal("null"), "");
}

std::string folder_refusal(Env& env) {
  try {
    read_flight_dumps(env, ".");
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), 2);
    return error.what();
  }
  return "";
}

TEST(FlightDumps, AreReadByRank) {
  CrashEnv env;
  for (const int64_t rank : {2, 0, 3}) write_flight_dump(env, ".", sample(rank));
  write_file(env, "flight.rank_x.json", bytes_of("not ours"));
  write_file(env, "flight.rank_3.json.tmp", bytes_of("left by a crash"));
  const auto dumps = read_flight_dumps(env, ".");
  ASSERT_EQ(dumps.size(), 3U);
  EXPECT_EQ(dumps[0].owner.rank, 0);
  EXPECT_EQ(dumps[2].owner.rank, 3);
}

TEST(FlightDumps, WhatDoesNotBelongTogetherIsRefused) {
  const auto expect_refused = [](const std::string& name, const FlightDump& dump, std::string_view words) {
    CrashEnv env;
    write_flight_dump(env, ".", sample(1));
    write_file(env, name, bytes_of(to_json(dump)));
    const std::string message = folder_refusal(env);
    EXPECT_NE(message.find(words), std::string::npos) << message;
  };
  FlightDump other_run = sample(2), other_world = sample(2);
  other_run.owner.run_id = "run-2";
  other_world.owner.world = 5;
  expect_refused("flight.rank_01.json", sample(1), "two dumps of rank 1");
  expect_refused("flight.rank_2.json", sample(1), "not of the rank its name says");
  expect_refused("flight.rank_2.json", other_run, "rank 1 has the run id 'run-1', rank 2 has 'run-2'");
  expect_refused("flight.rank_2.json", other_world, "rank 1 has the world 4, rank 2 has 5");
}

TEST(FlightDumps, AnEmptyFolderIsRefused) {
  CrashEnv env;
  EXPECT_NE(folder_refusal(env).find("no flight recorder dumps"), std::string::npos);
}

}  // namespace
}  // namespace weft
