#include "weft/plan/layout.h"

#include <gtest/gtest.h>

#include <map>

#include "weft/plan/example_tables_impl.h"

namespace weft::plan {
namespace {

using Cut = std::vector<int>;

constexpr int64_t kNone = 0;  // no smaller first bucket

std::vector<std::vector<int>> parameters_by_bucket(const Layout& layout) {
  std::vector<std::vector<int>> out;
  for (const Bucket& bucket : layout.buckets) {
    out.emplace_back();
    for (const Place& place : bucket.places) out.back().push_back(place.parameter);
  }
  return out;
}

ParameterTable fp32_table(const std::vector<int64_t>& sizes) {
  std::vector<Parameter> out;
  for (const int64_t size : sizes) out.push_back({.name = cat("p", out.size()), .shape = {size}});
  return ParameterTable(std::move(out));
}

void expect_refused(const ParameterTable& table, const LayoutOptions& options, const std::string& title,
                    const std::string& what, const std::string& fix) {
  try {
    make_layout(table, options);
    ADD_FAILURE() << "not refused: " << title;
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    EXPECT_EQ(error.text().title, title);
    EXPECT_NE(error.text().what.find(what), std::string::npos) << error.what();
    EXPECT_NE(error.text().fix.find(fix), std::string::npos) << error.what();
  }
}

// The example of docs/plan.md.
TEST(Layout, TheToyModel) {
  const Layout layout = make_layout(toy_table(), toy_options().layout);
  EXPECT_EQ(layout.ready_order, (std::vector<int>{4, 3, 2, 1, 0}));
  ASSERT_EQ(layout.buckets.size(), 2);
  const Bucket& first = layout.bucket(0);
  EXPECT_EQ(first.places, (std::vector<Place>{{4, 0, 1}, {3, 32, 8}, {2, 64, 8}, {1, 96, 64}}));
  EXPECT_EQ(first.num_elements, 192);
  EXPECT_EQ(first.slice_elements, 96);
  EXPECT_EQ(first.used_elements(), 81);
  const Bucket& second = layout.bucket(1);
  EXPECT_EQ(second.places, (std::vector<Place>{{0, 0, 80}}));
  EXPECT_EQ(second.num_elements, 128);
  EXPECT_EQ(layout.home(5), layout.home(0)) << "the head is the embedding";
  EXPECT_EQ(layout.place(3), (Place{3, 32, 8}));
}

TEST(Layout, ABucketIsClosedBeforeItWouldExceedItsSize) {
  const ParameterTable table = fp32_table({64, 64, 64, 64, 64});
  const auto with = [&](int64_t elements) {
    return parameters_by_bucket(make_layout(table, {.bucket_elements = elements, .first_bucket_bytes = kNone}));
  };
  using Buckets = std::vector<std::vector<int>>;
  EXPECT_EQ(with(1), (Buckets{{4}, {3}, {2}, {1}, {0}}));
  EXPECT_EQ(with(127), (Buckets{{4}, {3}, {2}, {1}, {0}}));
  EXPECT_EQ(with(128), (Buckets{{4, 3}, {2, 1}, {0}}));
  EXPECT_EQ(with(INT64_MAX), (Buckets{{4, 3, 2, 1, 0}}));
}

TEST(Layout, AParameterLargerThanABucketHasOneOfItsOwn) {
  const Layout layout =
      make_layout(fp32_table({10, 10, 5000, 10, 10}), {.bucket_elements = 100, .first_bucket_bytes = kNone});
  EXPECT_EQ(parameters_by_bucket(layout), (std::vector<std::vector<int>>{{4, 3}, {2}, {1, 0}}));
}

TEST(Layout, TheFirstBucketIsSmall) {
  const int64_t quarter = kFirstBucketBytes / 16;  // elements of fp32
  const Layout layout = make_layout(fp32_table(std::vector<int64_t>(9, quarter)), {.bucket_elements = 100 * quarter});
  EXPECT_EQ(parameters_by_bucket(layout), (std::vector<std::vector<int>>{{8, 7, 6, 5}, {4, 3, 2, 1, 0}}));
}

TEST(Layout, TheFirstBucketIsNotLargerThanTheOthers) {
  const Layout layout = make_layout(fp32_table({64, 64, 64}), {.bucket_elements = 64});
  EXPECT_EQ(parameters_by_bucket(layout).size(), 3);
}

TEST(Layout, BoundariesDecideAlone) {
  const LayoutOptions options{.bucket_elements = 1, .boundaries = Cut{1, 3}};
  const Layout layout = make_layout(fp32_table({64, 64, 64, 64, 64}), options);
  EXPECT_EQ(parameters_by_bucket(layout), (std::vector<std::vector<int>>{{4}, {3, 2}, {1, 0}}));
}

TEST(Layout, NoBoundariesAtAllMeanOneBucket) {
  const LayoutOptions options{.bucket_elements = 1, .boundaries = Cut{}};
  const Layout layout = make_layout(fp32_table({64, 64}), options);
  EXPECT_EQ(parameters_by_bucket(layout), (std::vector<std::vector<int>>{{1, 0}}));
}

TEST(Layout, FollowsTheReadyOrder) {
  const LayoutOptions options{.bucket_elements = 128, .first_bucket_bytes = kNone, .ready_order = {1, 0, 3, 2}};
  const Layout layout = make_layout(fp32_table({64, 64, 64, 64}), options);
  EXPECT_EQ(parameters_by_bucket(layout), (std::vector<std::vector<int>>{{1, 0}, {3, 2}}));
}

TEST(Layout, EachTypeHasBucketsOfItsOwnNumberedAsTheyComplete) {
  const ParameterTable table({{.name = "a", .shape = {64}, .dtype = Dtype::kBf16},
                              {.name = "b", .shape = {64}, .dtype = Dtype::kFp32},
                              {.name = "c", .shape = {64}, .dtype = Dtype::kBf16},
                              {.name = "d", .shape = {64}, .dtype = Dtype::kFp32},
                              {.name = "e", .shape = {64}, .dtype = Dtype::kFp32}});
  const Layout layout = make_layout(table, {.bucket_elements = 128, .first_bucket_bytes = kNone});
  EXPECT_EQ(parameters_by_bucket(layout), (std::vector<std::vector<int>>{{4, 3}, {1}, {2, 0}}));
  EXPECT_EQ(layout.bucket(2).dtype, Dtype::kBf16);
}

TEST(Layout, FrozenParametersLieBehindInBucketsOfTheirOwn) {
  const ParameterTable table({{.name = "base", .shape = {64}, .frozen = true},
                              {.name = "adapter", .shape = {8}},
                              {.name = "more", .shape = {64}, .frozen = true}});
  const Layout layout = make_layout(table, {.world = 2});
  EXPECT_EQ(parameters_by_bucket(layout), (std::vector<std::vector<int>>{{1}, {0, 2}}));
  ASSERT_EQ(layout.gradient_buckets().size(), 1);
  ASSERT_EQ(layout.frozen_buckets().size(), 1);
  EXPECT_TRUE(layout.frozen_buckets()[0].frozen);
}

TEST(Layout, ParametersWithoutElementsHaveAPlace) {
  const Layout layout = make_layout(fp32_table({0, 5000, 0, 0}), {.bucket_elements = 100});
  EXPECT_EQ(parameters_by_bucket(layout), (std::vector<std::vector<int>>{{3, 2, 1, 0}}));
  const ParameterTable mixed({{.name = "a", .shape = {0}, .dtype = Dtype::kBf16}, {.name = "b", .shape = {1}}});
  for (const Bucket& bucket : make_layout(mixed, {.world = 3}).buckets) EXPECT_EQ(bucket.num_elements, 96);
}

TEST(Layout, TheLargestModelOnTheLargestWorldFits) {
  const Layout layout = make_layout(fp32_table({kMaxElements}), {.world = kMaxWorld});
  EXPECT_EQ(layout.bucket(0).num_elements, kMaxElements);
  EXPECT_EQ(layout.bucket(0).slice_elements, kMaxElements / kMaxWorld);
}

TEST(Layout, RefusesWhatCannotBe) {
  const ParameterTable table = fp32_table({4, 4, 4});
  const ParameterTable frozen({{.name = "a", .shape = {4}, .frozen = true}});
  using O = LayoutOptions;
  expect_refused(table, O{.world = 0}, "no such world", "0 ranks", "from 1 to");
  expect_refused(table, O{.world = kMaxWorld + 1}, "no such world", "65537", "from 1 to");
  expect_refused(table, O{.bucket_elements = 0}, "a bucket must hold something", "is 0", "reduce_bucket_size");
  expect_refused(table, O{.bucket_elements = -5}, "a bucket must hold something", "is -5", "reduce_bucket_size");
  expect_refused(table, O{.first_bucket_bytes = -1}, "a bucket must hold something", "-1 bytes", "0");
  expect_refused(table, O{.slice_multiple = 48}, "slices would not be aligned", "48", "multiple of 32");
  expect_refused(table, O{.slice_multiple = 0}, "slices would not be aligned", "0", "multiple of 32");
  expect_refused(table, O{.world = kMaxWorld, .slice_multiple = kMaxElements}, "the padded buckets are too large",
                 "1 buckets", "reduce_bucket_size");
  expect_refused(frozen, O{}, "nothing to train", "of 1 parameters none", "requires_grad");
  expect_refused(fp32_table({0, 0}), O{}, "nothing to train", "of 2 parameters none", "requires_grad");
  const std::string order = "the ready order is not one of the trainable parameters";
  expect_refused(table, O{.ready_order = {0, 1}}, order, "number 2 is missing", "each trainable parameter once");
  expect_refused(table, O{.ready_order = {0, 1, 1}}, order, "number 1 is", "each trainable parameter once");
  expect_refused(table, O{.ready_order = {0, 1, 2, 3}}, order, "number 3 is no such parameter", "once");
  expect_refused(table, O{.ready_order = {0, 1, -7}}, order, "number -7 is no such parameter", "once");
  const std::string boundary = "the bucket boundaries are impossible";
  expect_refused(table, O{.boundaries = Cut{0}}, boundary, "boundary 0", "between 1 and 2");
  expect_refused(table, O{.boundaries = Cut{3}}, boundary, "boundary 3", "between 1 and 2");
  expect_refused(table, O{.boundaries = Cut{2, 1}}, boundary, "boundary 1 after 2", "ascending");
  expect_refused(table, O{.boundaries = Cut{-1}}, boundary, "boundary -1", "ascending");
}

// --- Properties of any layout -------------------------------------------------------------------------------------------

void expect_sound_bucket(const Bucket& bucket, const ParameterTable& table, const LayoutOptions& options) {
  EXPECT_EQ(bucket.num_elements, bucket.slice_elements * options.world);
  EXPECT_EQ(bucket.slice_elements % options.slice_multiple, 0);
  EXPECT_GT(bucket.slice_elements, 0);
  int64_t end = 0, filled_end = 0, num_filled = 0;
  for (const Place& place : bucket.places) {
    EXPECT_EQ(table[place.parameter].dtype, bucket.dtype);
    EXPECT_EQ(table[place.parameter].frozen, bucket.frozen);
    EXPECT_EQ(place.num_elements, table.num_elements(place.parameter));
    EXPECT_EQ(place.begin * bytes_of(bucket.dtype) % kAlignBytes, 0);
    EXPECT_EQ(place.begin % kAlignElements, 0);
    EXPECT_GE(place.begin, end);
    end = place.end();
    if (place.num_elements == 0) continue;
    filled_end = end;
    ++num_filled;
  }
  EXPECT_LE(end, bucket.num_elements);
  EXPECT_GT(std::max<int64_t>(1, end) + options.world * options.slice_multiple, bucket.num_elements)
      << "more padding than needed";
  const bool has_limit = num_filled > 1 && (!options.boundaries || bucket.frozen);
  EXPECT_LE(filled_end, has_limit ? options.bucket_elements : INT64_MAX);
}

void expect_every_owner_once(const Layout& layout, const ParameterTable& table) {
  std::map<int, int> times;
  for (const Bucket& bucket : layout.buckets) {
    for (const Place& place : bucket.places) ++times[place.parameter];
  }
  for (int i = 0; i < table.size(); ++i) {
    EXPECT_EQ(times[i], table.owner(i) == i ? 1 : 0) << i;
    EXPECT_EQ(layout.place(i).parameter, table.owner(i));
  }
}

// Buckets take gradients in the ready order, and are numbered by when the last of theirs comes.
void expect_ready_order(const Layout& layout) {
  std::map<int, int> position;
  for (int at = 0; const int parameter : layout.ready_order) position[parameter] = at++;
  int last = -1;
  std::map<Dtype, int> last_of_type;
  for (const Bucket& bucket : layout.gradient_buckets()) {
    EXPECT_GT(position[bucket.places.back().parameter], last);
    last = position[bucket.places.back().parameter];
    for (const Place& place : bucket.places) {
      const int before = last_of_type.contains(bucket.dtype) ? last_of_type[bucket.dtype] : -1;
      EXPECT_GT(position[place.parameter], before);
      last_of_type[bucket.dtype] = position[place.parameter];
    }
  }
}

TEST(Layout, IsSoundForAnyTable) {
  Rng rng(7);
  for (int trial = 0; trial < 2000 && !testing::Test::HasFailure(); ++trial) {
    SCOPED_TRACE(cat("trial ", trial));
    const ParameterTable table = random_table(rng);
    const LayoutOptions options = random_layout_options(rng, table);
    const Layout layout = make_layout(table, options);
    for (const Bucket& bucket : layout.buckets) expect_sound_bucket(bucket, table, options);
    expect_every_owner_once(layout, table);
    expect_ready_order(layout);
    EXPECT_EQ(layout, make_layout(table, options));
  }
}

}  // namespace
}  // namespace weft::plan
