// Lamb: its rate depends on whole parameters, whatever slices and ranks hold of them.
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <cmath>
#include <thread>

#include "weft/base/error.h"
#include "weft/base/text.h"
#include "weft/optim/optimizer.h"
#include "weft/optim/optimizer_impl.h"

namespace weft::optim {
namespace {

// Three parameters with padding behind each, in one flat buffer.
constexpr int64_t kCounts[] = {70'001, 5, 3'333}, kPlaces[] = {0, 70'016, 70'048}, kTotal = 73'408;

LambSettings settings_for(bool inside = false) {
  return {.lr = 0.02, .weight_decay = 0.1, .max_coeff = 3, .eps_inside_sqrt = inside};
}

struct Flat {
  at::Tensor param, grad;
};

// Of sizes so different that one trust ratio is bounded above, one below, and one not.
Flat start() {
  at::manual_seed(7);
  const at::Tensor param = at::zeros({kTotal}), grad = at::zeros({kTotal});
  const double sizes[] = {1, 1e-3, 100};
  for (size_t i = 0; i < 3; ++i) {
    param.narrow(0, kPlaces[i], kCounts[i]).copy_(at::randn({kCounts[i]}) * sizes[i]);
    grad.narrow(0, kPlaces[i], kCounts[i]).copy_(at::randn({kCounts[i]}) * 1e-3);
  }
  return {param, grad};
}

Flat cloned(const Flat& flat) { return {flat.param.clone(), flat.grad.clone()}; }

// The part [first, end) of the flat buffer as a slice.
FlatSlice part(const Flat& flat, int64_t first, int64_t end) {
  FlatSlice out = {.name = cat(first, "_to_", end),
                   .param = flat.param.narrow(0, first, end - first),
                   .grad = flat.grad.narrow(0, first, end - first)};
  for (int64_t i = 0; i < 3; ++i) {
    const auto index = static_cast<size_t>(i);
    const int64_t from = std::max(first, kPlaces[index]), to = std::min(end, kPlaces[index] + kCounts[index]);
    if (from < to) out.pieces.push_back({.first = from - first, .count = to - from, .parameter = i});
  }
  return out;
}

ParamGroup group_of(const Flat& flat, const std::vector<int64_t>& borders, bool inside = false) {
  ParamGroup out = {.settings = settings_for(inside), .slices = {}, .num_parameters = 3};
  for (size_t i = 0; i + 1 < borders.size(); ++i) out.slices.push_back(part(flat, borders[i], borders[i + 1]));
  return out;
}

at::Tensor after_three(const Flat& from, const std::vector<int64_t>& borders) {
  const Flat flat = cloned(from);
  Optimizer optimizer({group_of(flat, borders)});
  for (int i = 0; i < 3; ++i) optimizer.step(0.5);
  return flat.param;
}

// The definition, one parameter at a time, in double.
struct Plain {
  LambSettings s;
  at::Tensor p, m, v;
  Plain(const LambSettings& settings, const at::Tensor& from)
      : s(settings), p(from.to(at::kDouble)), m(p * 0), v(p * 0) {}

  void step(const at::Tensor& grad, int64_t count) {
    const at::Tensor g = grad.to(at::kDouble);
    m = m * s.beta1 + g * (1 - s.beta1);
    v = v * s.beta2 + g * g * (1 - s.beta2);
    const at::Tensor divisor = s.eps_inside_sqrt ? (v + s.eps).sqrt() : v.sqrt() + s.eps;
    const at::Tensor direction = m / divisor + p * s.weight_decay;
    const double weights = p.norm().item<double>(), updates = direction.norm().item<double>();
    ratio = weights != 0 && updates != 0 ? std::clamp(weights / updates, s.min_coeff, s.max_coeff) : 1;
    const double c1 = 1 - std::pow(s.beta1, count), c2 = 1 - std::pow(s.beta2, count);
    p = p - direction * (s.lr * std::sqrt(c2) / c1 * ratio);
  }
  double ratio = 0;
};

TEST(Lamb, IsItsDefinition) {
  for (const bool inside : {false, true}) {
    const Flat flat = start();
    std::vector<Plain> plain;
    for (size_t i = 0; i < 3; ++i) {
      plain.emplace_back(settings_for(inside), flat.param.narrow(0, kPlaces[i], kCounts[i]));
    }
    Optimizer optimizer({group_of(flat, {0, kTotal}, inside)});
    for (int64_t count = 1; count <= 5; ++count) {
      optimizer.step(0.5);
      for (size_t i = 0; i < 3; ++i) plain[i].step(flat.grad.narrow(0, kPlaces[i], kCounts[i]) * 0.5, count);
    }
    for (size_t i = 0; i < 3; ++i) {
      const at::Tensor found = flat.param.narrow(0, kPlaces[i], kCounts[i]).to(at::kDouble);
      const double size = plain[i].p.abs().max().item<double>();
      EXPECT_TRUE(at::allclose(found, plain[i].p, 1e-5, 1e-6 * size)) << inside << " " << i;
    }
    EXPECT_EQ(plain[1].ratio, 0.01) << "a small parameter is held below";
    EXPECT_EQ(plain[2].ratio, 3) << "and a large one above";
  }
}

TEST(Lamb, CutAnywhereTheBitsAreTheSame) {
  const Flat flat = start();
  const at::Tensor whole = after_three(flat, {0, kTotal});
  EXPECT_FALSE(at::equal(whole, flat.param));
  for (const int64_t cut : {1, 31, 32, 4'097, 70'000, 70'001, 70'010, 70'018, 70'050, 73'400}) {
    EXPECT_TRUE(at::equal(after_three(flat, {0, cut, kTotal}), whole)) << cut;
    EXPECT_TRUE(at::equal(after_three(flat, {0, cut / 3, cut, kTotal}), whole)) << cut;
  }
}

TEST(Lamb, ThreadsDoNotChangeTheBits) {
  const Flat flat = start();
  const at::Tensor expected = after_three(flat, {0, kTotal});
  const int threads = at::get_num_threads();
  for (const int num_threads : {1, 3}) {
    at::set_num_threads(num_threads);
    EXPECT_TRUE(at::equal(after_three(flat, {0, kTotal}), expected));
  }
  at::set_num_threads(threads);
}

// One parameter joins after two updates: the third and fourth of the others are its first and second.
TEST(Lamb, AParameterThatJoinsLaterCountsFromThere) {
  const Flat flat = start(), young = cloned(flat);
  std::vector<FlatSlice> slices = {part(flat, 0, kPlaces[2]), part(flat, kPlaces[2], kTotal)};
  slices[1].since = 2;
  Optimizer together({{.settings = settings_for(), .slices = slices, .num_parameters = 3}});
  Optimizer alone({group_of(young, {0, kTotal})});
  together.state().back().second.fill_(2);
  for (int i = 0; i < 2; ++i) together.step(0.5), alone.step(0.5);
  const auto late = [](const Flat& of) { return of.param.narrow(0, kPlaces[2], kCounts[2]); };
  EXPECT_TRUE(at::equal(late(flat), late(young)));
  EXPECT_FALSE(at::equal(flat.param.narrow(0, 0, kCounts[0]), young.param.narrow(0, 0, kCounts[0])));
  const Flat on_torch = start();
  on_torch.grad.mul_(0.5);  // by itself torch's way would scale it anew each time
  std::vector<SliceState> states;
  for (FlatSlice slice : {part(on_torch, 0, kPlaces[2]), part(on_torch, kPlaces[2], kTotal)}) {
    slice.since = states.empty() ? 0 : 2;
    states.push_back({slice, at::zeros_like(slice.param), at::zeros_like(slice.param)});
  }
  for (int64_t step = 3; step <= 4; ++step) step_with_torch(settings_for(), states, {}, step, {.count = 3});
  const double size = flat.param.abs().max().item<double>();
  EXPECT_TRUE(at::allclose(on_torch.param, flat.param, 1e-5, 1e-5 * size))
      << (on_torch.param - flat.param).abs().max().item<double>() << " of " << size;
}

// Ranks one after the other in one thread each; sums are added up once all have come.
class Adder {
 public:
  explicit Adder(size_t num_ranks) : barrier_(static_cast<std::ptrdiff_t>(num_ranks)), sums_(num_ranks) {}

  AddOverRanks of(size_t rank) {
    return [this, rank](const at::Tensor& sums) {
      sums_[rank] = sums;
      barrier_.arrive_and_wait();
      at::Tensor total = sums_[0].clone();
      for (size_t i = 1; i < sums_.size(); ++i) total += sums_[i];
      barrier_.arrive_and_wait();
      sums.copy_(total);
    };
  }

 private:
  std::barrier<> barrier_;
  std::vector<at::Tensor> sums_;
};

TEST(Lamb, RanksThatShareParametersGiveTheBitsOfOne) {
  const Flat from = start();
  const at::Tensor expected = after_three(from, {0, kTotal});
  for (const std::vector<int64_t>& borders : {std::vector<int64_t>{0, 36'704, kTotal},
                                              {0, 20'000, 70'017, kTotal},
                                              {0, 70'001, 70'016, kTotal}}) {  // the second holds padding alone
    const Flat flat = cloned(from);
    const size_t num_ranks = borders.size() - 1;
    Adder adder(num_ranks);
    std::vector<std::thread> ranks;
    for (size_t rank = 0; rank < num_ranks; ++rank) {
      ranks.emplace_back([&, rank] {
        Optimizer optimizer({group_of(flat, {borders[rank], borders[rank + 1]})}, adder.of(rank));
        for (int i = 0; i < 3; ++i) optimizer.step(0.5);
      });
    }
    for (std::thread& rank : ranks) rank.join();
    EXPECT_TRUE(at::equal(flat.param, expected)) << num_ranks;
  }
}

TEST(Lamb, TorchsOperatorsFollowTheKernels) {
  for (const bool inside : {false, true}) {
    const Flat start_at = start(), ours = cloned(start_at), torchs = cloned(start_at);
    const auto states = [&](const Flat& flat) {
      std::vector<SliceState> out;
      for (const FlatSlice& slice : group_of(flat, {0, 40'000, kTotal}).slices) {
        out.push_back({slice, at::zeros_like(slice.param), at::zeros_like(slice.param)});
      }
      return out;
    };
    auto a = states(ours), b = states(torchs);
    for (int64_t step = 1; step <= 3; ++step) {
      torchs.grad.copy_(start_at.grad);  // scaling overwrites it
      step_with_kernels(settings_for(inside), a, 0.5, step, {.count = 3});
      step_with_torch(settings_for(inside), b, {.value = 0.5}, step, {.count = 3});
    }
    EXPECT_TRUE(at::allclose(ours.param, torchs.param, 1e-5, 1e-7));
    EXPECT_TRUE(at::allclose(a[0].momentum, b[0].momentum, 1e-6, 1e-9));
  }
}

TEST(Lamb, PaddingStaysAsItIs) {
  const Flat flat = start();
  flat.param.narrow(0, 70'001, 15).fill_(7);
  Optimizer optimizer({group_of(flat, {0, kTotal})});
  optimizer.step();
  EXPECT_TRUE(flat.param.narrow(0, 70'001, 15).eq(7).all().item<bool>());
}

TEST(Lamb, IsNotSteppedSliceBySlice) {
  const Flat flat = start();
  Optimizer optimizer({group_of(flat, {0, kTotal})});
  EXPECT_FALSE(optimizer.by_slices());
  optimizer.begin_step();
  try {
    optimizer.step_slice(0, 0);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kBug);
    EXPECT_NE(std::string(error.what()).find("Lamb cannot be stepped slice by slice"), std::string::npos);
  }
  EXPECT_TRUE(Optimizer({{AdamSettings{}, {{"s", at::zeros({3}), at::zeros({3})}}}}).by_slices());
}

TEST(Lamb, RefusesPiecesThatDoNotFit) {
  const Flat flat = start();
  const auto with = [&](std::vector<Piece> pieces) {
    FlatSlice slice = part(flat, 0, kTotal);
    slice.pieces = std::move(pieces);
    return Optimizer({{.settings = settings_for(), .slices = {slice}, .num_parameters = 2}});
  };
  EXPECT_NO_THROW(with({{0, 5, 1}, {5, 5, 0}}));
  EXPECT_THROW(with({{0, 5, 2}}), Error) << "no such parameter";
  EXPECT_THROW(with({{0, 5, 0}, {4, 5, 1}}), Error) << "overlapping";
  EXPECT_THROW(with({{0, kTotal + 1, 0}}), Error) << "past the end";
  EXPECT_THROW(with({{3, 0, 0}}), Error) << "empty";
  EXPECT_THROW(Optimizer({{settings_for(), {part(flat, 0, 0)}}}), Error) << "nobody says how many there are";
}

TEST(Lamb, AGradientThatIsNotFiniteShowsInItsParameterAlone) {
  const Flat flat = start();
  flat.grad[70'017].fill_(NAN);
  Optimizer optimizer({group_of(flat, {0, kTotal})});
  optimizer.step();
  EXPECT_TRUE(flat.param.narrow(0, kPlaces[1], kCounts[1]).isnan().all().item<bool>());
  EXPECT_TRUE(flat.param.narrow(0, 0, kCounts[0]).isfinite().all().item<bool>());
}

}  // namespace
}  // namespace weft::optim
