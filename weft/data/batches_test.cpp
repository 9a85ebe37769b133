#include "weft/data/batches.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "weft/base/error.h"
#include "weft/data/counter_rng.h"

namespace weft::data {
namespace {

std::vector<int64_t> drawn(const BatchSource& source, int64_t step, int64_t micro_batch) {
  std::vector<int64_t> out(static_cast<size_t>(source.shape().numel()));
  source.draw(step, micro_batch, out);
  return out;
}

// A corpus whose bytes tell their own position modulo 251.
Corpus counted_corpus(int64_t size) {
  std::vector<uint8_t> bytes(static_cast<size_t>(size));
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i % 251);
  return {"counted", std::move(bytes), 1};
}

TEST(CounterRng, IsTheStreamOfThePythonReference) {
  // From tests/reference/tokens.py: draws(7, 3, 1, 3).
  const CounterRng rng(7, 3, 1);
  EXPECT_EQ(rng.at(0), uint64_t{0xf6de79a68106db2d});
  EXPECT_EQ(rng.at(1), uint64_t{0x41509ba80aac907b});
  EXPECT_EQ(rng.at(2), uint64_t{0x8206c6841c8ccde9});
}

TEST(CounterRng, BelowStaysBelowAndReachesEveryValue) {
  const CounterRng rng(1, 2, 3);
  std::set<uint64_t> seen;
  for (uint64_t i = 0; i < 1000; ++i) {
    ASSERT_LT(rng.below(i, 10), 10U);
    seen.insert(rng.below(i, 10));
  }
  EXPECT_EQ(seen.size(), 10U);
}

TEST(RandomSource, DependsOnSeedStepAndMicroBatchAlone) {
  const auto source = make_random_source({.rows = 2, .seq = 5}, 100, 42);
  const auto again = make_random_source({.rows = 2, .seq = 5}, 100, 42);
  const auto other = make_random_source({.rows = 2, .seq = 5}, 100, 43);
  EXPECT_EQ(drawn(*source, 3, 1), drawn(*again, 3, 1));
  EXPECT_NE(drawn(*source, 3, 1), drawn(*source, 4, 1));
  EXPECT_NE(drawn(*source, 3, 1), drawn(*source, 3, 2));
  EXPECT_NE(drawn(*source, 3, 1), drawn(*other, 3, 1));
}

TEST(RandomSource, TokensStayInsideTheVocabulary) {
  const auto source = make_random_source({.rows = 8, .seq = 63}, 3, 0);
  for (const int64_t token : drawn(*source, 0, 0)) {
    ASSERT_GE(token, 0);
    ASSERT_LT(token, 3);
  }
}

TEST(CorpusSource, RowsAreRunsOfTheText) {
  const Corpus corpus = counted_corpus(5000);
  const SplitCorpus split(corpus, 16);
  const auto source = make_corpus_source(split, CorpusPart::kTrain, {.rows = 4, .seq = 16}, 1);
  const auto tokens = drawn(*source, 0, 0);
  for (size_t i = 1; i < tokens.size(); ++i) {
    if (i % 17 == 0) continue;  // a new row
    EXPECT_EQ(tokens[i], (tokens[i - 1] + 1) % 251);
  }
}

// Every window of one part, against every window of the other: no token is in both.
TEST(SplitCorpus, PartsShareNoToken) {
  for (const int64_t size : {400, 5000, (3 << 20) + 17}) {
    const Corpus corpus = counted_corpus(size);
    const SplitCorpus split(corpus, 16);
    ASSERT_TRUE(split.has_held_out()) << size;
    std::vector<char> trained(static_cast<size_t>(size), 0);
    const auto place = [&](std::span<const uint8_t> window) { return window.data() - corpus.tokens().data(); };
    for (int64_t i = 0; i < split.num_train_starts(); ++i) {
      const auto at = place(split.train_window(i));
      trained[static_cast<size_t>(at)] = trained[static_cast<size_t>(at + 16)] = 1;
    }
    for (int64_t i = 0; i < split.num_held_out_starts(); ++i) {
      const auto at = place(split.held_out_window(i));
      ASSERT_LE(at + 17, size);
      ASSERT_FALSE(trained[static_cast<size_t>(at)] || trained[static_cast<size_t>(at + 16)])
          << size << " window " << i;
    }
  }
}

TEST(SplitCorpus, HoldsNothingOutOfATextTooShortForIt) {
  const Corpus corpus = counted_corpus(100);
  const SplitCorpus split(corpus, 16);
  EXPECT_FALSE(split.has_held_out());
  EXPECT_EQ(split.num_train_starts(), 100 - 16);
}

// A sequence longer than the usual period must make the period longer, not the window reach past the end.
TEST(SplitCorpus, WindowsStayInsideATextOfAFewLongSequences) {
  constexpr int64_t kSize = 3 << 20;
  const Corpus corpus = counted_corpus(kSize);
  for (const int64_t seq : {60'000, 600'000, 2'000'000}) {
    const SplitCorpus split(corpus, seq);
    const auto last = split.train_window(split.num_train_starts() - 1);
    EXPECT_LE(last.data() + last.size(), corpus.tokens().data() + kSize) << seq;
    EXPECT_EQ(static_cast<int64_t>(last.size()), seq + 1);
    EXPECT_GT(split.num_train_starts(), 0);
  }
}

TEST(SplitCorpus, TakesATextOfExactlyOneSequence) {
  const Corpus corpus = counted_corpus(17);
  EXPECT_EQ(SplitCorpus(corpus, 16).num_train_starts(), 1);
}

TEST(SplitCorpus, RefusesATextShorterThanOneSequence) {
  const Corpus corpus = counted_corpus(16);
  try {
    const SplitCorpus split(corpus, 16);
    FAIL() << "16 tokens cannot hold a sequence of 16 and its target";
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), 2);
    EXPECT_EQ(error.text().what, "16 tokens; one sequence and its target take 17");
  }
}

}  // namespace
}  // namespace weft::data
