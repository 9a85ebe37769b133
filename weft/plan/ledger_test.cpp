#include "weft/plan/ledger.h"

#include <gtest/gtest.h>

#include "weft/plan/example_tables_impl.h"

namespace weft::plan {
namespace {

constexpr int64_t kMillion = 1'000'000;

// One parameter of 64M elements in one bucket: the arithmetic everyone quotes.
Plan one_bucket(int world, Dtype dtype) {
  const ParameterTable table({{.name = "w", .shape = {64 * kMillion}, .dtype = dtype}});
  return make_plan(table, {.layout = {.world = world}, .live_elements = 0});
}

TEST(Ledger, Fp32WithAdam) {
  const Plan plan = one_bucket(4, Dtype::kFp32);
  const int64_t whole = 64 * kMillion * 4;
  EXPECT_EQ(make_ledger(plan, 0).total(), whole * 4);
  const Ledger one = make_ledger(plan, 1);
  EXPECT_EQ(one.bytes(MemoryKind::kParameters), whole);
  EXPECT_EQ(one.bytes(MemoryKind::kGradients), whole);
  EXPECT_EQ(one.bytes(MemoryKind::kOptimizer), whole * 2 / 4);
  EXPECT_EQ(one.bytes(MemoryKind::kCommunication), 0);
  const Ledger two = make_ledger(plan, 2);
  EXPECT_EQ(two.bytes(MemoryKind::kGradients), whole / 4);
  EXPECT_EQ(two.bytes(MemoryKind::kCommunication), whole) << "the bucket in flight";
  const Ledger three = make_ledger(plan, 3);
  EXPECT_EQ(three.bytes(MemoryKind::kParameters), whole / 4);
  EXPECT_EQ(three.bytes(MemoryKind::kCommunication), 2 * whole) << "and the gathered one";
}

// 2 + 2 + 12 bytes for each element, of which 12, 14 and 16 are shared out.
TEST(Ledger, Bf16WithAdamAndAnFp32Copy) {
  const Plan plan = one_bucket(8, Dtype::kBf16);
  const int64_t n = 64 * kMillion;
  EXPECT_EQ(make_ledger(plan, 0).total(), 16 * n);
  EXPECT_EQ(make_ledger(plan, 1).total(), 4 * n + 12 * n / 8);
  const auto kept = [&](int stage) {
    const Ledger ledger = make_ledger(plan, stage);
    return ledger.total() - ledger.bytes(MemoryKind::kCommunication);
  };
  EXPECT_EQ(kept(2), 2 * n + 14 * n / 8);
  EXPECT_EQ(kept(3), 16 * n / 8);
}

TEST(Ledger, OneRankSharesWithNobody) {
  const Plan plan = one_bucket(1, Dtype::kFp32);
  for (int stage = 0; stage <= 3; ++stage) EXPECT_EQ(make_ledger(plan, stage).total(), make_ledger(plan, 0).total());
}

// Three buckets, c, b and a: of two buffers one takes the first and the third.
TEST(Ledger, WithOverlapBucketsTakeTurnsInTwoBuffers) {
  const ParameterTable table(
      {{.name = "a", .shape = {640}}, {.name = "b", .shape = {64}}, {.name = "c", .shape = {320}}});
  PlanOptions options{.layout = {.world = 2, .bucket_elements = 64, .first_bucket_bytes = 0}};
  options.overlap = false;
  EXPECT_EQ(make_ledger(make_plan(table, options), 2).bytes(MemoryKind::kCommunication), 640 * 4);
  options.overlap = true;
  EXPECT_EQ(make_ledger(make_plan(table, options), 2).bytes(MemoryKind::kCommunication), (640 + 64) * 4);
}

TEST(Ledger, ATypeOfTheWireNeedsBuffersOnlyWhereItDiffers) {
  const ParameterTable table({{.name = "a", .shape = {640}}, {.name = "b", .shape = {64}, .dtype = Dtype::kBf16}});
  PlanOptions options{.layout = {.world = 2}, .overlap = false, .wire_dtype = Dtype::kBf16};
  EXPECT_EQ(make_ledger(make_plan(table, options), 0).bytes(MemoryKind::kCommunication), 640 * 2);
  EXPECT_EQ(make_ledger(make_plan(table, options), 2).bytes(MemoryKind::kCommunication), 640 * 4 + 64 * 2 + 640 * 2)
      << "buffers of both types, and the wire's";
  options.layout.world = 1;
  EXPECT_EQ(make_ledger(make_plan(table, options), 0).bytes(MemoryKind::kCommunication), 0);
}

TEST(Ledger, CompressionKeepsWhatWasLeftOverAndWhatTravels) {
  const ParameterTable table({{.name = "a", .shape = {1024}}});
  PlanOptions options{.layout = {.world = 2}, .compress = true};
  const int64_t kept = 1024 * 4, travels = 2 * 2 * (512 + 2 * 4);
  EXPECT_EQ(make_ledger(make_plan(table, options), 1).bytes(MemoryKind::kCommunication), kept + travels);
  const ParameterTable narrow({{.name = "a", .shape = {1024}, .dtype = Dtype::kBf16}});
  EXPECT_EQ(make_ledger(make_plan(narrow, options), 1).bytes(MemoryKind::kCommunication), kept + travels + 1024 * 4)
      << "and in fp32, to be rounded";
  EXPECT_EQ(make_ledger(make_plan(table, options), 0).bytes(MemoryKind::kCommunication), 0);
}

TEST(Ledger, GradientsInAnotherType) {
  const ParameterTable table({{.name = "a", .shape = {640}, .dtype = Dtype::kBf16}});
  const Plan plan = make_plan(table, {.layout = {.world = 2}, .gradient_dtype = Dtype::kFp32});
  EXPECT_EQ(make_ledger(plan, 0).bytes(MemoryKind::kGradients), 640 * 4);
  EXPECT_EQ(make_ledger(plan, 2).bytes(MemoryKind::kGradients), 320 * 4);
}

TEST(Ledger, FrozenParametersCostNeitherGradientsNorState) {
  const ParameterTable table({{.name = "base", .shape = {6400}, .dtype = Dtype::kBf16, .frozen = true},
                              {.name = "adapter", .shape = {64}, .dtype = Dtype::kBf16}});
  const Plan plan = make_plan(table, {.layout = {.world = 2}});
  const Ledger whole = make_ledger(plan, 0);
  EXPECT_EQ(whole.bytes(MemoryKind::kParameters), 6464 * 2);
  EXPECT_EQ(whole.bytes(MemoryKind::kGradients), 64 * 2);
  EXPECT_EQ(whole.bytes(MemoryKind::kOptimizer), 64 * (8 + 4));
  EXPECT_EQ(make_ledger(plan, 3).bytes(MemoryKind::kParameters), 6464);
}

TEST(Ledger, WhatIsGatheredLiesBetweenOneBucketAndTheModel) {
  const ParameterTable table({{.name = "a", .shape = {640}}, {.name = "b", .shape = {640}}});
  PlanOptions options{.layout = {.world = 2, .bucket_elements = 640, .first_bucket_bytes = 0}};
  const auto gathered = [&](int64_t live) {
    options.live_elements = live;
    return make_ledger(make_plan(table, options), 3).lines.back().bytes;
  };
  EXPECT_EQ(gathered(0), 640 * 4);
  EXPECT_EQ(gathered(1000), 1000 * 4);
  EXPECT_EQ(gathered(1280), 1280 * 4);
  EXPECT_EQ(gathered(INT64_MAX), 1280 * 4);
}

TEST(Ledger, OfACopyInTheHostEachRankCountsItsShare) {
  PlanOptions options{.layout = {.world = 8}, .stage = 3, .live_elements = 0};
  keep_in_host(4, options);
  const ParameterTable table({{.name = "w", .shape = {64 * kMillion}, .dtype = Dtype::kBf16}});
  const Ledger ledger = make_ledger(make_plan(table, options), 3);
  EXPECT_EQ(ledger.bytes(MemoryKind::kParameters), 2 * 64 * kMillion / 4);
  ASSERT_GE(ledger.lines.size(), 2U);
  EXPECT_EQ(ledger.lines[0].bytes, 2 * 64 * kMillion / 8) << ledger.lines[0].what;
  EXPECT_EQ(ledger.lines[1].what, "other hosts' slices, one copy for all ranks of the host");
  EXPECT_EQ(ledger.bytes(MemoryKind::kCommunication), 2 * 64 * kMillion)
      << "the gradients in flight, and nothing gathered";
}

TEST(Ledger, NothingOverflowsForTheLargestModel) {
  const ParameterTable table({{.name = "a", .shape = {kMaxElements}, .dtype = Dtype::kFp64}});
  const Plan plan = make_plan(
      table,
      {.layout = {.world = 2}, .optimizer = {.state_bytes_per_element = kMaxStateBytes}, .live_elements = INT64_MAX});
  EXPECT_EQ(make_ledger(plan, 0).total(), kMaxElements * (8 + 8 + kMaxStateBytes));
}

TEST(Ledger, HigherStagesKeepLessAndLinesAddUp) {
  Rng rng(3);
  for (int trial = 0; trial < 500 && !testing::Test::HasFailure(); ++trial) {
    SCOPED_TRACE(cat("trial ", trial));
    const ParameterTable table = random_table(rng);
    const Plan plan = make_plan(table, random_options(rng, table));
    int64_t before = INT64_MAX;
    for (int stage = 0; stage <= 3; ++stage) {
      const Ledger ledger = make_ledger(plan, stage);
      int64_t sum = 0;
      for (const MemoryKind kind : kAllMemoryKinds) sum += ledger.bytes(kind);
      EXPECT_EQ(sum, ledger.total());
      const int64_t kept = sum - ledger.bytes(MemoryKind::kCommunication);
      EXPECT_LE(kept, before);
      before = kept;
      for (const LedgerLine& line : ledger.lines) EXPECT_GT(line.bytes, 0) << line.what;
    }
  }
}

}  // namespace
}  // namespace weft::plan
