#include "weft/comm/collective.h"

#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "weft/base/error.h"

namespace weft::comm {
namespace {

using Counts = std::vector<int64_t>;

at::Tensor floats(int64_t count) { return at::zeros({count}); }

TEST(Collective, SplitsEvenly) {
  EXPECT_EQ(split_evenly(7, 3), (Counts{3, 2, 2}));
  EXPECT_EQ(split_evenly(2, 4), (Counts{1, 1, 0, 0}));
  EXPECT_EQ(split_evenly(0, 2), (Counts{0, 0}));
}

TEST(Collective, FillsInTheCounts) {
  Collective scatter = reduce_scatter(floats(7), floats(2));
  complete(scatter, 1, 3);
  EXPECT_EQ(scatter.input_counts, (Counts{3, 2, 2}));
  Collective joined = gather(floats(4), {}, 1);
  complete(joined, 0, 2);
  EXPECT_EQ(joined.output_counts, (Counts{4, 4}));
}

TEST(Collective, DescribesItself) {
  EXPECT_EQ(describe(all_reduce(floats(4), ReduceOp::kMean)), "all_reduce of 16 bytes (Float, mean)");
  EXPECT_EQ(describe(broadcast(floats(4), 2)), "broadcast of 16 bytes (Float, rank 2)");
  EXPECT_EQ(describe(barrier()), "barrier");
  Collective with_purpose = broadcast(floats(4), 2);
  with_purpose.purpose = "'weight'";
  EXPECT_EQ(describe(with_purpose), "broadcast of 16 bytes (Float, rank 2) for 'weight'");
}

struct Refused {
  const char* why;  // in the message
  Collective call;
};

TEST(Collective, RefusesWhatDoesNotFit) {
  const at::Tensor strided = floats(8).view({2, 4}).t();
  const Refused cases[] = {
      {"rank 3 is not one of 3", broadcast(floats(1), 3)},
      {"rank -1 is not one of 3", reduce(floats(1), -1)},
      {"nothing to say to itself", send(floats(1), 0)},
      {"not contiguous", all_reduce(strided)},
      {"undefined", all_reduce({})},
      {"differ in type", all_gather(floats(1), at::zeros({3}, at::kDouble))},
      {"this rank's count is 3", reduce_scatter(floats(7), floats(2))},
      {"add up to 6", reduce_scatter(floats(7), floats(2), ReduceOp::kSum, {2, 2, 2})},
      {"2 counts were given for 3 ranks", all_gather(floats(1), floats(2), {1, 1})},
      {"negative", all_gather(floats(1), floats(1), {1, 1, -1})},
      {"the output tensor is undefined", gather(floats(1), {}, 0)},
      {"no transport moves elements of type ComplexFloat", all_reduce(at::zeros({1}, at::kComplexFloat))},
  };
  for (const Refused& one : cases) {
    Collective call = one.call;
    try {
      complete(call, 0, 3);
      ADD_FAILURE() << "took " << describe(call) << " (" << one.why << ")";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(one.why), std::string::npos) << error.what();
      EXPECT_EQ(error.kind(), ErrorKind::kBug);
    }
  }
}

}  // namespace
}  // namespace weft::comm
