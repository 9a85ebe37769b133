#include "weft/monitor/live/top_view.h"

#include <gtest/gtest.h>

#include <cmath>

#include "weft/base/text.h"

namespace weft {
namespace {

LiveState shown_state(int num_ranks = 4) {
  LiveState state{.name = "demo", .status = "running", .now_unix_s = 1000, .progress_unix_s = 998, .step = 12345};
  for (const auto& [name, value] : {std::pair{"loss", 2.345},
                                    {"step_ms", 201.0},
                                    {"tokens_per_s", 40960.0},
                                    {"forward_ms", 60.0},
                                    {"backward_ms", 110.0},
                                    {"optimizer_ms", 30.0},
                                    {"rss_bytes", 3e9},
                                    {"lr", 3e-4}})
    state.latest.set(name, value);
  state.recent_losses = {5, 4, 3, std::nan(""), 2};
  state.verdicts = {
      {.id = "utilisation", .label = "Utilisation", .share = 0.9, .target = 0.85, .wants_more = true, .note = ""},
      {.id = "communication", .label = "Communication", .share = 0.3, .target = 0.2, .note = ""}};
  state.world = num_ranks;
  for (int i = 0; i < num_ranks; ++i) {
    RankState rank{.rank = i, .host = "node-a", .why = ""};
    rank.numbers.set("step_ms", 200);
    rank.numbers.set("exposed_comm_ms", 12);
    state.ranks.push_back(rank);
  }
  state.ranks[2].health = RankHealth::kSlow;
  state.ranks[2].why = "12.5 % slower in backward (blocks.3)";
  state.log = {"2026-11-16T10:00:00Z [weft rank 0] hello", "2026-11-16T10:00:01Z [weft rank 0] [WARN] \033[31mcareful"};
  return state;
}

std::string joined(const std::vector<std::string>& lines) { return join(lines, "\n"); }

TEST(Top, ShowsWhatMatters) {
  const std::string text = joined(top_lines(shown_state(), {.columns = 100, .unicode = true}, 50));
  for (const char* word : {"demo", "running", "12,345", "2.345", "41.0K tokens/s", "ffff", "bbbb", "backward 110 ms",
                           "Communication", "30.0 %", "> 2 ", "blocks.3", "hello", "careful"})
    EXPECT_NE(text.find(word), std::string::npos) << word << "\n" << text;
}

TEST(Top, NoLineIsWiderThanTheTerminal) {
  for (const int columns : {20, 40, 60, 80, 120}) {
    for (const auto& line : top_lines(shown_state(64), {.columns = columns, .unicode = true}, 40))
      EXPECT_LT(display_columns(line), columns) << line;
  }
}

TEST(Top, FortyColumnsStillSayTheLossAndTheSlowRank) {
  const std::string text = joined(top_lines(shown_state(64), {.columns = 40, .unicode = true}, 24));
  EXPECT_NE(text.find("2.345"), std::string::npos) << text;
  EXPECT_NE(text.find("> 2 "), std::string::npos) << text;
}

TEST(Top, LogLinesLoseWhatANarrowWindowHasNoRoomFor) {
  EXPECT_NE(joined(top_lines(shown_state(), {.columns = 80}, 40)).find("\n10:00:00 [weft rank 0] hello"),
            std::string::npos);
  EXPECT_NE(joined(top_lines(shown_state(), {.columns = 40}, 40)).find("\n[weft rank 0] hello"), std::string::npos);
}

TEST(Top, ASmallWindowKeepsTheHead) {
  for (const int rows : {1, 5, 12, 24}) {
    const auto lines = top_lines(shown_state(64), {.columns = 80, .unicode = true}, rows);
    EXPECT_LE(static_cast<int>(lines.size()), rows);
    EXPECT_NE(lines[0].find("demo"), std::string::npos);
  }
  EXPECT_NE(joined(top_lines(shown_state(64), {.columns = 80}, 24)).find("more ranks"), std::string::npos);
}

TEST(Top, TextFromTheRunCannotDriveTheTerminal) {
  const std::string bad =
      "a\033[2Jb\r\xC2\x9B"
      "c";
  LiveState state = shown_state();
  state.name = state.folder = state.status = state.status_note = bad;
  state.words = {{"device", bad}, {"data", bad}};
  for (auto& verdict : state.verdicts) verdict.id = verdict.label = verdict.note = bad;
  for (auto& rank : state.ranks) rank.host = rank.why = bad;
  state.slow = {{.rank = -1, .phase = bad, .where = bad}, {.rank = 2, .phase = bad, .where = bad}};
  state.log = state.notes = {bad, "2026-11-16T10:00:00Z " + bad};
  for (const std::string& text : {joined(top_lines(state, {.columns = 200}, 60)), top_sentence(state)}) {
    EXPECT_NE(text.find("a [2Jb"), std::string::npos) << text;
    for (const char* sign : {"\033", "\r", "\xC2\x9B"}) EXPECT_EQ(text.find(sign), std::string::npos) << text;
  }
}

TEST(Top, ASlowLinkHasALineOfItsOwn) {
  LiveState state = shown_state();
  state.slow = {{.rank = -1, .phase = "link", .where = "", .percent = 40, .ms = 12, .since_step = 1200}};
  const std::string words = "the link between ranks is 40.0 % slower than it was, since step 1,200";
  EXPECT_NE(joined(top_lines(state, {.columns = 100}, 40)).find("\n" + words + "\n"), std::string::npos);
  EXPECT_NE(top_sentence(state).find(", " + words), std::string::npos) << top_sentence(state);
}

TEST(Top, NumbersBeyondAllBoundsAreShownAsTheyAre) {
  LiveState state = shown_state();
  for (const char* name : {"tokens_per_s", "samples_per_s", "rss_bytes", "device_bytes", "forward_ms", "backward_ms"})
    state.latest.set(name, 1e300);
  state.ranks[0].numbers.set("rss_bytes", 1e300);
  const std::string text = joined(top_lines(state, {.columns = 120}, 40));
  for (const char* words : {"1e+300 tokens/s", "1e+300 samples/s", "1e+300 B resident", "1e+300 B device"})
    EXPECT_NE(text.find(words), std::string::npos) << words << "\n" << text;
  for (const char* name : {"tokens_per_s", "rss_bytes", "forward_ms"}) state.latest.set(name, -1e300);
  EXPECT_NE(top_sentence(state).find("-1e+300 tokens/s"), std::string::npos) << top_sentence(state);
  EXPECT_NE(joined(top_lines(state, {.columns = 120}, 40)).find("0 B resident"), std::string::npos);
}

TEST(Top, AnEmptyRunIsNoTrouble) {
  const LiveState state{.name = "x", .status = "waiting", .status_note = "nothing has been written yet"};
  EXPECT_EQ(top_lines(state, {.columns = 80}, 24).size(), 2u);
  EXPECT_EQ(top_sentence(state), "x: waiting; nothing has been written yet");
}

TEST(Top, TheSentenceNamesWhatIsOff) {
  const std::string text = top_sentence(shown_state());
  EXPECT_EQ(text,
            "demo: running, step 12,345, loss 2.345, 41.0K tokens/s, 201 ms a step, communication 30.0 % (below 20 % "
            "wanted), "
            "rank 2 is 12.5 % slower in backward (blocks.3)");
}

TEST(Sparkline, FallsAndMarksWhatIsNoNumber) {
  EXPECT_EQ(sparkline({5, 4, std::nan(""), 2}, 10, {.unicode = true}), "█▆!▁");
  EXPECT_EQ(sparkline({5, 4, 3, 2}, 2, {.unicode = false}), "#_");
  EXPECT_EQ(sparkline({}, 10, {}), "");
  EXPECT_EQ(sparkline({3, 3}, 10, {.unicode = false}), "__");
}

}  // namespace
}  // namespace weft
