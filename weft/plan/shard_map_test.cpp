#include "weft/plan/shard_map.h"

#include <gtest/gtest.h>

#include <map>

#include "weft/plan/example_tables_impl.h"

namespace weft::plan {
namespace {

// The example of docs/plan.md.
TEST(ShardMap, TheToyModel) {
  const Layout layout = make_layout(toy_table(), toy_options().layout);
  EXPECT_EQ(owners_of(layout, 0), (std::vector<OwnedRange>{{0, 0, 64}, {1, 64, 80}}));
  EXPECT_EQ(owners_of(layout, 5), owners_of(layout, 0)) << "the head is the embedding";
  EXPECT_EQ(owners_of(layout, 1), (std::vector<OwnedRange>{{1, 0, 64}}));
  EXPECT_EQ(ranges_in_slice(layout, 0, 0), (std::vector<SliceRange>{{4, 0, 0, 1}, {3, 0, 32, 8}, {2, 0, 64, 8}}));
  EXPECT_EQ(ranges_in_slice(layout, 0, 1), (std::vector<SliceRange>{{1, 0, 0, 64}}));
  EXPECT_EQ(ranges_in_slice(layout, 1, 0), (std::vector<SliceRange>{{0, 0, 0, 64}}));
  EXPECT_EQ(ranges_in_slice(layout, 1, 1), (std::vector<SliceRange>{{0, 64, 0, 16}}));
}

TEST(ShardMap, ASliceMayBeNothingButPadding) {
  const ParameterTable table({{.name = "a", .shape = {5}}});
  const Layout layout = make_layout(table, {.world = 4});
  EXPECT_EQ(ranges_in_slice(layout, 0, 0).size(), 1);
  for (const int rank : {1, 2, 3}) EXPECT_TRUE(ranges_in_slice(layout, 0, rank).empty());
}

TEST(ShardMap, AParameterWithoutElementsHasNoOwner) {
  const ParameterTable table({{.name = "a", .shape = {0}}, {.name = "b", .shape = {5}}});
  EXPECT_TRUE(owners_of(make_layout(table, {.world = 2}), 0).empty());
}

TEST(ShardMap, NumbersThatDoNotExistAreABug) {
  const Layout layout = make_layout(toy_table(), toy_options().layout);
  EXPECT_THROW(owners_of(layout, 6), Error);
  EXPECT_THROW(owners_of(layout, -1), Error);
  EXPECT_THROW(ranges_in_slice(layout, 2, 0), Error);
  EXPECT_THROW(ranges_in_slice(layout, 0, 2), Error);
  EXPECT_THROW(ranges_in_slice(layout, 0, -1), Error);
}

// Rank and range of every piece, by parameter, as the slices tell it.
using Pieces = std::map<int, std::vector<OwnedRange>>;

Pieces pieces_by_slices(const Layout& layout) {
  Pieces out;
  for (int b = 0; b < std::ssize(layout.buckets); ++b) {
    for (int rank = 0; rank < layout.world; ++rank) {
      int64_t end = 0;
      for (const SliceRange& range : ranges_in_slice(layout, b, rank)) {
        EXPECT_GE(range.slice_begin, end) << "overlap";
        end = range.slice_begin + range.num_elements;
        EXPECT_LE(end, layout.bucket(b).slice_elements);
        out[range.parameter].push_back({rank, range.parameter_begin, range.parameter_begin + range.num_elements});
      }
    }
  }
  return out;
}

TEST(ShardMap, EveryElementHasOneOwnerAndBothDirectionsAgree) {
  Rng rng(11);
  for (int trial = 0; trial < 1000 && !testing::Test::HasFailure(); ++trial) {
    SCOPED_TRACE(cat("trial ", trial));
    const ParameterTable table = random_table(rng);
    const Layout layout = make_layout(table, random_layout_options(rng, table));
    Pieces by_slices = pieces_by_slices(layout);
    for (int i = 0; i < table.size(); ++i) {
      const std::vector<OwnedRange> owners = owners_of(layout, i);
      int64_t next = 0;
      for (const OwnedRange& range : owners) {
        EXPECT_EQ(range.begin, next);
        EXPECT_LT(range.begin, range.end);
        next = range.end;
      }
      EXPECT_EQ(next, table.num_elements(i));
      EXPECT_EQ(owners, by_slices[table.owner(i)]);
    }
  }
}

}  // namespace
}  // namespace weft::plan
