// 500 models that nobody thought of: random graphs of operators over shared, unused, frozen and tied parameters, with branches that
// depend on the sample. Three steps of each at stage 3 have the bits of stage 2.
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/relu.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/support/ranks.h"
#include "weft/engine/engine_test_impl.h"
#include "weft/engine/zero3_test_impl.h"

namespace weft {
namespace {

constexpr uint32_t kModelsEach = 100;
constexpr int64_t kGraphWidth = 6;

class Draw {
 public:
  explicit Draw(uint32_t seed) : rng_(seed) {}
  int from(int low, int high) { return std::uniform_int_distribution(low, high)(rng_); }
  bool chance(int percent) { return from(1, 100) <= percent; }

 private:
  std::mt19937 rng_;
};

enum class What { kMatrix, kTransposed, kRow, kNorm, kSlice, kDetached, kResidual };

struct Operation {
  What what = What::kMatrix;
  size_t matrix = 0, row = 0, other_row = 0, from = 0;
  int only_every = 1;  // samples
};

struct Graph {
  std::vector<bool> matrix_is_frozen;
  size_t num_matrices = 1, num_rows = 2;
  std::vector<Operation> operations;
};

// The first matrix is always used and trained: a loss must depend on something.
Graph draw_graph(uint32_t seed) {
  Draw draw(seed);
  Graph out{.num_matrices = static_cast<size_t>(draw.from(1, 5)), .num_rows = static_cast<size_t>(draw.from(2, 6))};
  for (size_t i = 0; i < out.num_matrices; ++i) out.matrix_is_frozen.push_back(i > 0 && draw.chance(15));
  const auto below = [&](size_t end) { return static_cast<size_t>(draw.from(0, static_cast<int>(end) - 1)); };
  const int count = draw.from(1, 10);
  for (int i = 0; i < count; ++i) {
    out.operations.push_back({.what = static_cast<What>(draw.from(0, 6)),
                              .matrix = below(out.num_matrices),
                              .row = below(out.num_rows),
                              .other_row = below(out.num_rows),
                              .from = below(static_cast<size_t>(i) + 1),
                              .only_every = draw.chance(25) ? draw.from(2, 3) : 1});
  }
  return out;
}

at::Tensor apply(const Operation& one, const std::vector<at::Tensor>& values, const std::vector<at::Tensor>& matrices,
                 const std::vector<at::Tensor>& rows) {
  const at::Tensor& x = values.back();
  const at::Tensor &matrix = matrices[one.matrix], &row = rows[one.row];
  switch (one.what) {
    case What::kMatrix: return at::linear(x, matrix, row).tanh();
    case What::kTransposed: return at::mm(x, matrix.t());
    case What::kRow: return at::gelu(x * row + rows[one.other_row]);
    case What::kNorm: return at::layer_norm(x, {kGraphWidth}, row, rows[one.other_row]);
    case What::kSlice: return x + matrix.narrow(0, 1, 1).relu();
    case What::kDetached: return x * row.detach().sum().tanh();
    case What::kResidual: return x + values[one.from % values.size()];  // some were left out
  }
  return x;
}

Net net_of(const Graph& graph) {
  Net net;
  for (size_t i = 0; i < graph.num_matrices; ++i) {
    net.parameters.push_back(parameter({kGraphWidth, kGraphWidth}, static_cast<int64_t>(i)));
    if (graph.matrix_is_frozen[i]) net.parameters.back().set_requires_grad(false);
  }
  for (size_t i = 0; i < graph.num_rows; ++i)
    net.parameters.push_back(parameter({kGraphWidth}, static_cast<int64_t>(50 + i)));
  net.loss = [graph](const Net& one, int64_t sample) {
    const auto middle = one.parameters.begin() + static_cast<int64_t>(graph.num_matrices);
    const std::vector<at::Tensor> matrices(one.parameters.begin(), middle), rows(middle, one.parameters.end());
    std::vector<at::Tensor> values = {at::mm(numbers({3, kGraphWidth}, 100 + sample), matrices[0])};
    for (const Operation& operation : graph.operations) {
      if (sample / 2 % operation.only_every == 0) values.push_back(apply(operation, values, matrices, rows));
    }
    return values.back().pow(2).mean();
  };
  return net;
}

class EngineZero3Random : public testing::TestWithParam<uint32_t> {};

TEST_P(EngineZero3Random, ModelsHaveTheSameBits) {
  for (uint32_t seed = GetParam(); seed < GetParam() + kModelsEach; ++seed) {
    const auto make = [&] { return net_of(draw_graph(seed)); };
    const bool over_network = seed % 2 == 1;
    const NetRun expected = train_net(make, {.over_network = over_network, .more = kStage2, .num_steps = 3});
    const NetRun got =
        train_net(make, {.over_network = over_network, .more = seed % 4 < 2 ? kTight : kRoomy, .num_steps = 3});
    expect_same(got, expected, cat("model ", seed));
    if (testing::Test::HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, EngineZero3Random, testing::Values(0, 100, 200, 300, 400),
                         [](const auto& one) { return cat("from_", one.param); });

}  // namespace
}  // namespace weft
