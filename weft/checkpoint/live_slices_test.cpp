#include "weft/checkpoint/live_slices.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "tests/support/temp_dir.h"
#include "weft/checkpoint/save_step.h"
#include "weft/checkpoint/store.h"

namespace weft::checkpoint {
namespace {

constexpr int64_t kNumElements = 3'000'000;  // more than is staged at once

at::Tensor values_of(at::ScalarType type) { return (at::arange(kNumElements, at::kFloat) * 0.37).sin().to(type); }

// Two ranks, one after the other, with a border that no page or block knows.
void save(const std::string& store, const at::Tensor& values, int64_t border) {
  for (const int rank : {1, 0}) {
    const at::Tensor mine = rank == 0 ? values.narrow(0, 0, border) : values.narrow(0, border, values.numel() - border);
    std::vector<LiveSlice> slices = {
        {.tensor = "w", .shape = {2, kNumElements / 2}, .begin = rank * border, .values = mine}};
    if (rank == 0) {
      slices.push_back({.tensor = "number", .shape = {}, .begin = 0, .values = at::zeros({}, at::kLong) + 7});
      slices.push_back({.tensor = "none", .shape = {0}, .begin = 0, .values = at::zeros({0}, at::kDouble)});
    }
    HostCopy copy;
    copy.take(slices);
    mine.mul_(2);  // training went on
    const SaveRequest request{.step = 1, .rank = rank, .world = 2, .id = "x", .slices = to_save(slices), .head = {}};
    save_step(Env::posix(), store, request, [&](RankFileWriter& writer) { copy.write_to(writer); });
  }
}

TEST(LiveSlices, ComeBackInOtherRangesAndTypes) {
  const test::TempDir dir;
  const std::string store = dir / "store";
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const at::Tensor expected = values_of(type);
    save(store, expected.clone(), 1'234'567);
    const auto found = find_newest(Env::posix(), store, Check::kEveryBlock);
    ASSERT_TRUE(found);
    StepReader reader(Env::posix(), found->folder, found->manifest);
    for (const at::ScalarType wanted : {at::kFloat, at::kBFloat16}) {
      const at::Tensor part = at::zeros({2'000'000}, wanted), number = at::zeros({}, at::kLong);
      const at::Tensor turned = at::zeros({kNumElements / 2, 2}, wanted).t();  // not contiguous
      read_slices(reader, {{.tensor = "w", .shape = {2, kNumElements / 2}, .begin = 600'001, .values = part},
                           {.tensor = "w", .shape = {2, kNumElements / 2}, .begin = 0, .values = turned},
                           {.tensor = "number", .shape = {}, .begin = 0, .values = number}});
      EXPECT_TRUE(part.equal(expected.narrow(0, 600'001, part.numel()).to(wanted)));
      EXPECT_TRUE(turned.equal(expected.view({2, -1}).to(wanted)));
      EXPECT_EQ(number.item<int64_t>(), 7);
    }
  }
}

TEST(LiveSlices, AStepOfAnotherModelIsToldByEveryDifference) {
  const Manifest manifest{.tensors = {{"param/a", {.dtype = "F32", .shape = {3}}},
                                      {"param/b", {.dtype = "F32", .shape = {2, 2}}},
                                      {"param/old", {.dtype = "F32", .shape = {1}}},
                                      {"rng/0", {.dtype = "U8", .shape = {9}}}}};
  const auto lines = misfits(manifest, {{"param/a", {3}}, {"param/b", {4}}, {"param/new", {1}}}, {"param/"});
  EXPECT_EQ(lines, (std::vector<std::string>{"'param/b' has shape [2, 2] there and [4] here", "'param/new' is missing",
                                             "'param/old' is there and not here"}));
}

TEST(LiveSlices, MemoryIsKeptForTheNextCopy) {
  HostCopy copy;
  std::vector<LiveSlice> slices = {{.tensor = "w", .shape = {8}, .begin = 0, .values = at::arange(8)}};
  EXPECT_EQ(total_bytes(slices), 64);
  copy.take(slices);
  slices[0].values = at::zeros({4}, at::kHalf);
  slices.push_back({.tensor = "v", .shape = {3}, .begin = 0, .values = at::zeros({3})});
  copy.take(slices);  // smaller, and of other types
  EXPECT_EQ(to_save(slices)[0].dtype, "F16");
}

}  // namespace
}  // namespace weft::checkpoint
