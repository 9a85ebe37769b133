#include "weft/cli/front/train_options.h"

#include <gtest/gtest.h>

#include "weft/cli/front/test_refusal_impl.h"

namespace weft::cli {
namespace {

TrainOptions train_options(const std::vector<std::string>& arguments) { return parse_train_options(arguments).value(); }

TEST(TrainOptions, WithoutFlagsTrainsAMinuteOnTheCorpus) {
  const auto o = train_options({});
  EXPECT_EQ(o.data, "corpus");
  EXPECT_EQ(o.steps, 0);
  EXPECT_EQ(o.duration, std::chrono::seconds(60));
}

TEST(TrainOptions, StepsReplaceTheDuration) {
  const auto o = train_options({"--steps", "30", "--dim=384", "--heads", "4", "--tied", "--seed", "7"});
  EXPECT_EQ(o.steps, 30);
  EXPECT_EQ(o.duration.count(), 0);
  EXPECT_EQ(o.dim, 384);
  EXPECT_TRUE(o.tied);
  EXPECT_EQ(o.seed, 7);
}

TEST(TrainOptions, TheLaterOfTwoCounts) { EXPECT_EQ(train_options({"--dim", "8", "--dim", "16"}).dim, 16); }

TEST(TrainOptions, ZeroStepsMeansNone) { EXPECT_EQ(train_options({"--steps", "0"}).duration.count(), 0); }

TEST(TrainOptions, DurationTakesUnits) {
  EXPECT_EQ(train_options({"--for", "1m30s"}).duration, std::chrono::seconds(90));
}

TEST(TrainOptions, RefusesWithTheReason) {
  const std::pair<std::vector<std::string>, std::string> cases[] = {
      {{"--setps", "3"}, "did you mean --steps?"},
      {{"--micro-bacth=3"}, "did you mean --micro-batch?"},
      {{"--zzzzzz"}, "has no flag --zzzzzz"},
      {{"stray"}, "does not know what to do with 'stray'"},
      {{"--dim", "x"}, "'x' is not a whole number"},
      {{"--dim", "0"}, "0 is outside 1..1048576"},
      {{"--seq", "99999999999999999999"}, "is outside 1..16777216"},
      {{"--dim"}, "--dim"},
      {{"--dim", "10", "--heads", "4"}, "for example --dim 12"},
      {{"--vocab", "100"}, "the vocabulary is too small for text"},
      {{"--steps", "3", "--for", "3s"}, "excludes"},
      {{"--for", "soon"}, "soon"},
      {{"--resume"}, "requires --save"},
      {{"--keep-last", "3"}, "requires --save"},
      {{"--save", "s", "--keep-best", "3"}, "requires --keep-last"},
      {{"--device", "tpu"}, "tpu"},
      {{"-n", "0"}, "0 is outside 1.."},
      {{"--accumulation", "0"}, "0 is outside 1.."},
      {{"--name", "../x"}, "not a folder name"},
      {{"--lr", "-1"}, "--lr"},
  };
  for (const auto& [arguments, words] : cases) {
    EXPECT_NE(refusal(parse_train_options, arguments).find(words), std::string::npos)
        << arguments[0] << "\nsaid: " << refusal(parse_train_options, arguments);
  }
}

TEST(TrainOptions, RandomDataTakesASmallVocabulary) {
  EXPECT_EQ(refusal(parse_train_options, {"--data", "random", "--vocab", "10"}), "");
}

}  // namespace
}  // namespace weft::cli
