#include "weft/plan/tuning.h"

#include <gtest/gtest.h>

#include <bit>
#include <limits>

#include "weft/base/error.h"
#include "weft/plan/example_tables_impl.h"

namespace weft::plan {
namespace {

// A second for each element, so that small whole numbers make exact sums.
TuningInput in_seconds(std::vector<ReadyGradient> gradients, double end_s, double latency_s) {
  return {.gradients = std::move(gradients),
          .backward_end_s = end_s,
          .bytes_per_element = 4,
          .link = {.latency_s = latency_s, .bytes_per_s = 4}};
}

TEST(Tuning, OneGradientIsOneBucket) {
  const Tuning tuning = tune_buckets(in_seconds({{5, 3}}, 5, 1));
  EXPECT_TRUE(tuning.boundaries.empty());
  EXPECT_EQ(tuning.exposed_s, 4);
  EXPECT_EQ(tuning.lower_bound_s, 4);
}

// Four equal gradients, a second apart, each a second on the wire: without latency, one by one is best.
TEST(Tuning, WithoutLatencySmallBucketsHideMost) {
  const Tuning tuning = tune_buckets(in_seconds({{1, 1}, {2, 1}, {3, 1}, {4, 1}}, 4, 0));
  EXPECT_EQ(tuning.boundaries, (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(tuning.exposed_s, 1);
  EXPECT_EQ(tuning.lower_bound_s, 1);
}

TEST(Tuning, WithMuchLatencyOneBucketIsBest) {
  const Tuning tuning = tune_buckets(in_seconds({{1, 1}, {2, 1}, {3, 1}, {4, 1}}, 4, 100));
  EXPECT_TRUE(tuning.boundaries.empty());
  EXPECT_EQ(tuning.exposed_s, 104);
}

// The last bucket cannot start before backward ends, so it should be small; the rest has time.
TEST(Tuning, BucketsMayBeUnequal) {
  const Tuning tuning = tune_buckets(in_seconds({{1, 1}, {2, 1}, {3, 1}, {10, 1}}, 10, 2));
  EXPECT_EQ(tuning.boundaries, std::vector<int>{3});
  EXPECT_EQ(tuning.exposed_s, 3);
}

// The example of docs/plan.md.
TEST(Tuning, LatencyAndLatenessAreWeighed) {
  const Tuning tuning = tune_buckets(in_seconds({{1, 1}, {2, 1}, {3, 1}, {4, 1}}, 4, 1));
  EXPECT_EQ(tuning.boundaries, std::vector<int>{1});
  EXPECT_EQ(tuning.exposed_s, 4);
  EXPECT_EQ(tuning.lower_bound_s, 2);
}

TEST(Tuning, AmongEqualCutsTheFewestBucketsWin) {
  // Everything but the last is long done, however it is cut.
  const Tuning tuning = tune_buckets(in_seconds({{1, 1}, {2, 1}, {3, 1}, {4, 1}, {1000, 1}}, 1000, 1));
  EXPECT_EQ(tuning.boundaries, std::vector<int>{4});
  // All is hidden, even in one bucket.
  EXPECT_TRUE(tune_buckets(in_seconds({{1, 1}, {2, 1}, {3, 1}}, 1000, 1)).boundaries.empty());
}

TEST(Tuning, NoBucketIsLargerThanAllowedUnlessOneGradientIs) {
  TuningInput input{.backward_end_s = 1, .bytes_per_element = 4, .link = {.latency_s = 0, .bytes_per_s = 4}};
  for (const int64_t elements : {1, 1, 1, 9, 1, 1, 1, 1})
    input.gradients.push_back({.ready_s = 0, .num_elements = elements});
  EXPECT_TRUE(tune_buckets(input).boundaries.empty());
  input.max_elements = 2;
  const Tuning tuned = tune_buckets(input);
  EXPECT_EQ(tuned.boundaries, (std::vector<int>{1, 3, 4, 6}));
  EXPECT_DOUBLE_EQ(tuned.exposed_s, 15) << "nothing is lost by it without latency";
}

TEST(Tuning, GradientsWithoutElementsCostNothing) {
  const Tuning tuning = tune_buckets(in_seconds({{1, 0}, {2, 0}, {3, 5}}, 3, 1));
  EXPECT_TRUE(tuning.boundaries.empty());
  EXPECT_EQ(tuning.exposed_s, 6);
}

TEST(Tuning, ATimeOutOfOrderCountsAsItsPredecessors) {
  const Tuning a = tune_buckets(in_seconds({{5, 2}, {1, 2}, {8, 1}, {2, 1}}, 9, 1));
  const Tuning b = tune_buckets(in_seconds({{5, 2}, {5, 2}, {8, 1}, {8, 1}}, 9, 1));
  EXPECT_EQ(a.boundaries, b.boundaries);
  EXPECT_EQ(a.exposed_s, b.exposed_s);
}

TEST(Tuning, PredictsAGivenCut) {
  const TuningInput input = in_seconds({{1, 1}, {2, 1}, {3, 1}, {4, 1}}, 4, 1);
  EXPECT_EQ(exposed_time_s(input, {}), 5);
  EXPECT_EQ(exposed_time_s(input, {2}), 4);        // 2..5, then 5..8
  EXPECT_EQ(exposed_time_s(input, {1, 2, 3}), 5);  // 1..3, 3..5, 5..7, 7..9
  EXPECT_THROW(exposed_time_s(input, {4}), Error);
  EXPECT_THROW(exposed_time_s(input, {2, 2}), Error);
  EXPECT_THROW(exposed_time_s(input, {-1}), Error);
}

// Sixteen gradients, all there at once; what is left is the wire, and the updates behind it.
TEST(Tuning, OnASlowLinkUpdatesHideBehindManyBuckets) {
  const TuningInput input = in_seconds(std::vector<ReadyGradient>(16, {1, 10}), 1, 0.2);
  EXPECT_TRUE(tune_buckets(input).boundaries.empty()) << "the wire alone is done first with one";
  const Tuning tuned = tune_with_update(input, 16);
  EXPECT_EQ(tuned.boundaries.size(), 7);
  EXPECT_DOUBLE_EQ(updated_at_s(input, {}, 16), 1 + 0.2 + 160 + 16);
  EXPECT_DOUBLE_EQ(updated_at_s(input, tuned.boundaries, 16), 1 + 8 * (0.2 + 20) + 2);
}

// Everything is there when backward ends: a second bucket has nothing to hide and costs the host its latency.
TEST(Tuning, OnAFastLinkBucketsAreFew) {
  TuningInput input = in_seconds({}, 100, 0.1);
  for (int i = 1; i <= 16; ++i) input.gradients.push_back({static_cast<double>(i), 1});
  EXPECT_TRUE(tune_with_update(input, 16).boundaries.empty());
  EXPECT_DOUBLE_EQ(updated_at_s(input, {}, 16), 100 + 0.1 + 16);
  EXPECT_DOUBLE_EQ(updated_at_s(input, {4, 8}, 16), 100 + 0.3 + 16);
}

// --- Against every cut there is -----------------------------------------------------------------------------------------

// Written as a person would simulate it; shares nothing with the code under test.
double simulated_exposed_s(const TuningInput& input, uint32_t cuts) {
  double wire_free_s = 0, ready_s = 0, elements = 0;
  const size_t n = input.gradients.size();
  for (size_t i = 0; i < n; ++i) {
    ready_s = std::max(ready_s, input.gradients[i].ready_s);
    elements += static_cast<double>(input.gradients[i].num_elements);
    const bool bucket_ends = i + 1 == n || ((cuts >> i) & 1) != 0;
    if (!bucket_ends) continue;
    const double bytes = elements * static_cast<double>(input.bytes_per_element);
    wire_free_s = std::max(wire_free_s, ready_s) + input.link.latency_s + bytes / input.link.bytes_per_s;
    elements = 0;
  }
  return std::max(0.0, wire_free_s - input.backward_end_s);
}

struct Best {
  double exposed_s = std::numeric_limits<double>::infinity();
  int num_boundaries = 0;
};

Best brute_force(const TuningInput& input) {
  Best best;
  for (uint32_t cuts = 0; cuts >> (input.gradients.size() - 1) == 0; ++cuts) {
    const double exposed_s = simulated_exposed_s(input, cuts);
    const int boundaries = std::popcount(cuts);
    if (exposed_s < best.exposed_s || (exposed_s == best.exposed_s && boundaries < best.num_boundaries))
      best = {exposed_s, boundaries};
  }
  return best;
}

TuningInput random_input(Rng& rng) {
  std::vector<ReadyGradient> gradients;
  double now_s = 0;
  for (int64_t n = draw(rng, 1, 10); n > 0; --n) {
    now_s += static_cast<double>(draw(rng, 0, 6));
    const int64_t scale = draw(rng, 0, 4) == 0 ? 10 : 1;
    gradients.push_back({now_s, draw(rng, 0, 5) * scale});
  }
  // Halves and quarters are exact too. Backward may end at its last gradient or go on.
  const double latency_s = static_cast<double>(draw(rng, 0, 20)) / 4;
  const auto tail_s = static_cast<double>(draw(rng, 0, 1) * draw(rng, 0, 12));
  return in_seconds(std::move(gradients), now_s + tail_s, latency_s);
}

TEST(Tuning, IsAsGoodAsTheBestOfAllCutsWithAsFewBuckets) {
  Rng rng(31);
  int not_trivial = 0, above_bound = 0;
  for (int trial = 0; trial < 5'000; ++trial) {
    SCOPED_TRACE(cat("trial ", trial));
    const TuningInput input = random_input(rng);
    const Tuning tuning = tune_buckets(input);
    const Best best = brute_force(input);
    ASSERT_EQ(tuning.exposed_s, best.exposed_s);
    ASSERT_EQ(std::ssize(tuning.boundaries), best.num_boundaries);
    ASSERT_EQ(exposed_time_s(input, tuning.boundaries), tuning.exposed_s);
    ASSERT_LE(tuning.lower_bound_s, tuning.exposed_s);
    not_trivial += tuning.boundaries.empty() ? 0 : 1;
    above_bound += tuning.lower_bound_s < tuning.exposed_s ? 1 : 0;
  }
  EXPECT_GT(not_trivial, 1'000) << "too many inputs that one bucket solves";
  EXPECT_GT(above_bound, 100) << "the bound is always reached: it proves the tuner all by itself";
}

TEST(Tuning, WithAnUpdateNothingTriedIsBetter) {
  Rng rng(41);
  for (int trial = 0; trial < 500; ++trial) {
    SCOPED_TRACE(cat("trial ", trial));
    TuningInput input = random_input(rng);
    const auto update_s = static_cast<double>(draw(rng, 0, 40));
    const Tuning tuned = tune_with_update(input, update_s);
    const double best_s = updated_at_s(input, tuned.boundaries, update_s);
    ASSERT_LE(best_s, updated_at_s(input, tune_buckets(input).boundaries, update_s));
    ASSERT_GE(best_s, input.backward_end_s + tuned.exposed_s);
    ASSERT_EQ(exposed_time_s(input, tuned.boundaries), tuned.exposed_s);
  }
}

// --- Real sizes ---------------------------------------------------------------------------------------------------------

TuningInput large_input(int num_gradients) {
  Rng rng(37);
  TuningInput input{.link = {.latency_s = 50e-6, .bytes_per_s = 1e9}};
  for (int i = 0; i < num_gradients; ++i) {
    const double ready_s = 0.2 * (i + 1) / num_gradients;
    input.gradients.push_back({ready_s, draw(rng, 100, 50'000)});
  }
  input.backward_end_s = 0.2;
  return input;
}

TEST(Tuning, TwoThousandGradientsAreNotWorseThanAnyEqualCut) {
  const TuningInput input = large_input(2'000);
  const Tuning tuning = tune_buckets(input);
  EXPECT_GE(tuning.exposed_s, tuning.lower_bound_s);
  for (const int step : {1, 5, 20, 50, 100, 200, 500, 1'000, 1'999}) {
    std::vector<int> equal;
    for (int at = step; at < 2'000; at += step) equal.push_back(at);
    EXPECT_LE(tuning.exposed_s, exposed_time_s(input, equal) * (1 + 1e-9)) << step;
  }
  EXPECT_FALSE(tuning.boundaries.empty());
  EXPECT_LT(tuning.boundaries.size(), 500);
}

TEST(Tuning, ItsBoundariesAreThoseOfALayout) {
  const ParameterTable table = gpt_table(Dtype::kFp32);
  TuningInput input{.backward_end_s = 0.1, .link = {.latency_s = 1e-4, .bytes_per_s = 1e9}};
  const std::vector<int> order = make_layout(table, {}).ready_order;
  for (size_t i = 0; i < order.size(); ++i)
    input.gradients.push_back(
        {0.1 * static_cast<double>(i + 1) / static_cast<double>(order.size()), table.num_elements(order[i])});
  const Tuning tuning = tune_buckets(input);
  const Layout layout = make_layout(table, {.world = 2, .boundaries = tuning.boundaries});
  EXPECT_EQ(layout.buckets.size(), tuning.boundaries.size() + 1);
}

TEST(Tuning, RefusesWhatIsNotMeasured) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInf = std::numeric_limits<double>::infinity();
  const auto expect_refused = [](const TuningInput& input, const std::string& what) {
    try {
      tune_buckets(input);
      ADD_FAILURE() << "not refused: " << what;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInput);
      EXPECT_NE(std::string(error.what()).find(what), std::string::npos) << error.what();
      EXPECT_FALSE(error.text().fix.empty());
    }
  };
  expect_refused(in_seconds({}, 1, 1), "0 gradients");
  expect_refused(in_seconds(std::vector<ReadyGradient>(65'537), 1, 1), "65537 gradients");
  expect_refused(in_seconds({{kNan, 1}}, 1, 1), "gradient 0 is ready at nan");
  expect_refused(in_seconds({{0, 1}, {-1, 1}}, 1, 1), "gradient 1 is ready at -1");
  expect_refused(in_seconds({{0, -1}}, 1, 1), "gradient 0 has -1");
  expect_refused(in_seconds({{0, INT64_MAX}}, 1, 1), "gradient 0 has 9223372036854775807");
  expect_refused(in_seconds({{0, 1}}, kInf, 1), "backward ends at inf");
  expect_refused(in_seconds({{0, 1}}, 1, kNan), "nan s");
  expect_refused(in_seconds({{0, 1}}, 1, -1), "-1 s");
  EXPECT_THROW(tune_with_update(in_seconds({{0, 1}}, 1, 1), kNan), Error);
  for (const double rate : {0.0, -1.0, kNan, kInf, 1e-300}) {
    TuningInput input = in_seconds({{0, 1}}, 1, 1);
    input.link.bytes_per_s = rate;
    expect_refused(input, "bytes/s");
  }
  for (const int64_t bytes : {int64_t{0}, int64_t{9}, INT64_MIN}) {
    TuningInput input = in_seconds({{0, 1}}, 1, 1);
    input.bytes_per_element = bytes;
    expect_refused(input, "1 to 8 bytes");
  }
}

}  // namespace
}  // namespace weft::plan
