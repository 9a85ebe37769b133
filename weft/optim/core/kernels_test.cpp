#include "weft/optim/core/kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "weft/base/half.h"
#include "weft/base/text.h"

namespace weft::optim {
namespace {

using Floats = std::vector<float>;

constexpr size_t kCounts[] = {0, 1, 7, 16, 17, 1023, 1024, 1025, 5003};
constexpr Element kTypes[] = {Element::kFloat32, Element::kBFloat16, Element::kFloat16};

// Values out of a counter: mostly of ordinary size, some tiny, zero, subnormal.
float value_at(uint64_t i, uint64_t salt) {
  uint64_t x = (i + 1) * 0x9e3779b97f4a7c15ULL + salt * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 31)) * 0x94d049bb133111ebULL;
  x ^= x >> 29;
  const auto unit = static_cast<float>(static_cast<double>(x >> 11) * 0x1p-52 - 1);
  if (x % 31 == 0) return unit * 1e-41F;
  if (x % 37 == 0) return 0;
  return x % 5 == 0 ? unit * 1e-6F : unit;
}

Floats values(size_t count, uint64_t salt) {
  Floats out(count);
  for (size_t i = 0; i < count; ++i) out[i] = value_at(i, salt);
  return out;
}

std::vector<std::byte> stored(const Floats& from, Element type) {
  std::vector<std::byte> out(from.size() * element_bytes(type));
  for (size_t i = 0; i < from.size(); ++i) {
    const uint16_t half = type == Element::kBFloat16 ? bfloat16_of_float(from[i]) : half_of_float(from[i]);
    const void* const bits = type == Element::kFloat32 ? static_cast<const void*>(&from[i]) : &half;
    std::memcpy(out.data() + i * element_bytes(type), bits, element_bytes(type));
  }
  return out;
}

std::vector<uint32_t> bits_of(const Floats& values) {
  std::vector<uint32_t> out;
  for (const float value : values) out.push_back(std::isnan(value) ? 0x7fc00000U : std::bit_cast<uint32_t>(value));
  return out;
}

struct Updated {
  Floats param, momentum, variance;
  std::vector<std::byte> copy;
  bool operator==(const Updated& other) const {
    return bits_of(param) == bits_of(other.param) && bits_of(momentum) == bits_of(other.momentum) &&
           bits_of(variance) == bits_of(other.variance) && copy == other.copy;
  }
};

struct Update {
  std::string name;
  std::function<void(const Kernels&, const Slice&, int64_t step)> run;
};

std::vector<Update> updates() {
  std::vector<Update> all;
  for (const bool decoupled : {false, true}) {
    for (const double beta1 : {0.9, 0.2}) {
      const AdamSettings settings = {.beta1 = beta1, .weight_decay = 0.1, .decoupled = decoupled};
      all.push_back({cat("adam decoupled=", decoupled, " beta1=", beta1),
                     [=](const Kernels& k, const Slice& s, int64_t step) { k.adam(adam_factors(settings, step), s); }});
    }
  }
  for (const SgdSettings& settings : {SgdSettings{}, SgdSettings{.weight_decay = 0.1}, SgdSettings{.momentum = 0.9},
                                      SgdSettings{.momentum = 0.9, .dampening = 0.2, .weight_decay = 0.1},
                                      SgdSettings{.momentum = 0.9, .weight_decay = 0.1, .nesterov = true}}) {
    all.push_back({cat("sgd momentum=", settings.momentum, " decay=", settings.weight_decay),
                   [=](const Kernels& k, const Slice& s, int64_t step) { k.sgd(sgd_factors(settings, step), s); }});
  }
  const LionSettings settings = {.weight_decay = 0.1};
  all.push_back({"lion", [=](const Kernels& k, const Slice& s, int64_t) { k.lion(lion_factors(settings), s); }});
  for (const AdagradSettings& adagrad : {AdagradSettings{}, AdagradSettings{.lr_decay = 0.1, .weight_decay = 0.1}}) {
    all.push_back({cat("adagrad decay=", adagrad.weight_decay), [=](const Kernels& k, const Slice& s, int64_t step) {
                     k.adagrad(adagrad_factors(adagrad, step), s);
                   }});
  }
  for (const bool inside : {false, true}) {
    const LambFactors lamb = lamb_factors({.weight_decay = 0.1, .eps_inside_sqrt = inside});
    all.push_back({cat("lamb inside=", inside), [=](const Kernels& k, const Slice& s, int64_t) {
                     Floats directions(s.count);
                     k.lamb_directions(lamb, s, directions.data());
                     k.lamb_apply(lamb, 0.01F, s);
                   }});
  }
  return all;
}

struct Case {
  size_t count = 0;
  Element grad_type = Element::kFloat32;
  float grad_scale = 1;
  Element copy_type = Element::kBFloat16;
  size_t offset = 0;  // elements the buffers start after: pointers that no vector is aligned to
  size_t cut = 0;     // parts to do the work in; 0: one
  float poison = 0;   // put in place of one gradient where it is not 0
};

void step_in_parts(const Update& update, const Kernels& kernels, const Slice& whole, size_t cut, int64_t step) {
  const size_t part = cut == 0 ? whole.count : cut;
  for (size_t first = 0; first < whole.count; first += part) {
    update.run(kernels, whole.part(first, std::min(part, whole.count - first)), step);
  }
}

// Three steps, so that the state matters.
Updated run(const Update& update, const Kernels& kernels, const Case& c) {
  const size_t total = c.count + c.offset;
  Updated out = {values(total, 1), Floats(total), Floats(total), {}};
  out.copy.resize(total * element_bytes(c.copy_type));
  for (int64_t step = 1; step <= 3; ++step) {
    Floats grads = values(total, 10 + static_cast<uint64_t>(step));
    if (c.poison != 0 && c.count > 0) grads[c.offset + c.count / 2] = c.poison;
    const auto grad = stored(grads, c.grad_type);
    const Slice whole = {.count = total,
                         .param = out.param.data(),
                         .grad = grad.data(),
                         .grad_type = c.grad_type,
                         .grad_scale = c.grad_scale,
                         .momentum = out.momentum.data(),
                         .variance = out.variance.data(),
                         .copy = out.copy.data(),
                         .copy_type = c.copy_type};
    step_in_parts(update, kernels, whole.part(c.offset, c.count), c.cut, step);
  }
  return out;
}

TEST(Kernels, EveryInstructionSetGivesTheSameBits) {
  const Kernels& portable = *all_kernels().front();
  ASSERT_EQ(portable.name, "portable");
  for (const Update& update : updates()) {
    for (const size_t count : kCounts) {
      for (const Element type : kTypes) {
        const Case c = {.count = count, .grad_type = type, .grad_scale = 0.37F, .copy_type = type, .offset = count % 3};
        const Updated expected = run(update, portable, c);
        for (const Kernels* const other : all_kernels()) {
          EXPECT_EQ(run(update, *other, c), expected) << update.name << " " << other->name << " " << count;
        }
      }
    }
  }
}

TEST(Kernels, ValuesThatAreNotFiniteAreTheSameEverywhere) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  for (const Update& update : updates()) {
    for (const float poison : {inf, -inf, nan, std::numeric_limits<float>::max()}) {
      const Case c = {.count = 100, .poison = poison};
      const Updated expected = run(update, *all_kernels().front(), c);
      for (const Kernels* const other : all_kernels()) EXPECT_EQ(run(update, *other, c), expected) << update.name;
    }
  }
}

TEST(Kernels, CuttingTheSliceChangesNothing) {
  for (const Update& update : updates()) {
    const Updated whole = run(update, kernels(), {.count = 5003});
    for (const size_t cut : {1, 13, 1000, 4096}) {
      EXPECT_EQ(run(update, kernels(), {.count = 5003, .cut = cut}), whole) << update.name << " " << cut;
    }
  }
}

TEST(Kernels, ScaleAndTypeAreAppliedToTheGradientAlone) {
  constexpr size_t kCount = 2000;
  for (const Element type : kTypes) {
    const auto grad = stored(values(kCount, 3), type);
    Floats scaled(kCount);
    for (size_t i = 0; i < kCount; ++i) {
      uint16_t half = 0;
      if (type == Element::kFloat32) {
        std::memcpy(&scaled[i], grad.data() + 4 * i, 4);
      } else {
        std::memcpy(&half, grad.data() + 2 * i, 2);
        scaled[i] = type == Element::kBFloat16 ? float_of_bfloat16(half) : float_of_half(half);
      }
      scaled[i] *= 0.3F;
    }
    Floats a = values(kCount, 1), b = a, ma(kCount), mb(kCount), va(kCount), vb(kCount);
    const AdamFactors factors = adam_factors({}, 1);
    kernels().adam(factors, {kCount, a.data(), grad.data(), type, 0.3F, ma.data(), va.data()});
    kernels().adam(factors, {kCount, b.data(), scaled.data(), Element::kFloat32, 1, mb.data(), vb.data()});
    EXPECT_EQ(bits_of(a), bits_of(b));
    EXPECT_EQ(bits_of(ma), bits_of(mb));
  }
}

TEST(Kernels, TheCopyIsTheNewParameterRoundedOnce) {
  for (const Element type : kTypes) {
    const Updated result = run(updates().front(), kernels(), {.count = 1500, .copy_type = type});
    EXPECT_EQ(result.copy, stored(result.param, type));
  }
}

Floats loaded(const std::vector<std::byte>& from, Element type) {
  Floats out(from.size() / element_bytes(type));
  for (size_t i = 0; i < out.size(); ++i) {
    uint16_t half = 0;
    std::memcpy(type == Element::kFloat32 ? static_cast<void*>(&out[i]) : &half, from.data() + i * element_bytes(type),
                element_bytes(type));
    if (type != Element::kFloat32) out[i] = type == Element::kBFloat16 ? float_of_bfloat16(half) : float_of_half(half);
  }
  return out;
}

// What is kept in 16 bits between steps is what fp32 gives, rounded after each.
TEST(Kernels, ParametersAndStateInSixteenBitsAreRoundedOnceAStep) {
  constexpr size_t kCount = 2500;
  for (const Update& update : updates()) {
    if (update.name.starts_with("lamb")) continue;
    for (const Element params : kTypes) {
      for (const Element states : kTypes) {
        for (const Kernels* const kernels : all_kernels()) {
          auto param = stored(values(kCount, 1), params), momentum = stored(Floats(kCount), states),
               variance = stored(Floats(kCount), states);
          Floats p = loaded(param, params), m(kCount), v(kCount);
          for (int64_t step = 1; step <= 3; ++step) {
            const Floats grad = values(kCount, 10 + static_cast<uint64_t>(step));
            update.run(*kernels,
                       {.count = kCount,
                        .param = param.data(),
                        .grad = grad.data(),
                        .grad_scale = 0.5F,
                        .momentum = momentum.data(),
                        .variance = variance.data(),
                        .param_type = params,
                        .state_type = states},
                       step);
            update.run(*kernels,
                       {.count = kCount,
                        .param = p.data(),
                        .grad = grad.data(),
                        .grad_scale = 0.5F,
                        .momentum = m.data(),
                        .variance = v.data()},
                       step);
            p = loaded(stored(p, params), params), m = loaded(stored(m, states), states);
            v = loaded(stored(v, states), states);
          }
          EXPECT_EQ(bits_of(loaded(param, params)), bits_of(p)) << update.name << " " << kernels->name;
          EXPECT_EQ(bits_of(loaded(momentum, states)), bits_of(m)) << update.name << " " << kernels->name;
          EXPECT_EQ(bits_of(loaded(variance, states)), bits_of(v)) << update.name << " " << kernels->name;
        }
      }
    }
  }
}

TEST(Kernels, ByHand) {
  // The first Adam step moves by lr times the sign of the gradient, whatever its size; decay comes off first.
  float p = 2, g = 1e-3F, m = 0, v = 0;
  kernels().adam(adam_factors({.lr = 0.5, .eps = 0, .weight_decay = 0.5}, 1),
                 {.count = 1, .param = &p, .grad = &g, .momentum = &m, .variance = &v});
  EXPECT_FLOAT_EQ(p, 2 * 0.75F - 0.5F);
  EXPECT_FLOAT_EQ(m, 1e-4F);
  EXPECT_FLOAT_EQ(v, 1e-9F);

  p = 2, g = 4, m = 10;  // momentum 10 * 0.5 + 4 = 9, nesterov 4 + 0.5 * 9
  kernels().sgd(sgd_factors({.lr = 0.1, .momentum = 0.5, .nesterov = true}, 2),
                {.count = 1, .param = &p, .grad = &g, .momentum = &m});
  EXPECT_FLOAT_EQ(m, 9);
  EXPECT_FLOAT_EQ(p, 2 - 0.85F);

  p = 2, g = -4, m = 0.1F;  // 0.9 * 0.1 - 0.1 * 4 < 0: up
  kernels().lion(lion_factors({.lr = 0.25}), {.count = 1, .param = &p, .grad = &g, .momentum = &m});
  EXPECT_FLOAT_EQ(p, 2.25F);
  EXPECT_FLOAT_EQ(m, 0.999F * 0.1F - 0.004F);

  p = 2, g = 3, v = 16;  // 16 + 9 = 25, and the third step of a rate that halves in two
  kernels().adagrad(adagrad_factors({.lr = 0.5, .lr_decay = 0.5, .eps = 0}, 3),
                    {.count = 1, .param = &p, .grad = &g, .variance = &v});
  EXPECT_FLOAT_EQ(v, 25);
  EXPECT_FLOAT_EQ(p, 2 - 0.25F * 3 / 5);
}

TEST(Kernels, LambByHand) {
  const LambSettings settings = {.lr = 0.5, .beta1 = 0.5, .beta2 = 0.75, .eps = 0, .weight_decay = 0.5};
  float p = 2, g = 4, m = 0, v = 0, direction = 0;
  const Slice slice = {.count = 1, .param = &p, .grad = &g, .momentum = &m, .variance = &v};
  kernels().lamb_directions(lamb_factors(settings), slice, &direction);
  EXPECT_EQ(m, 2);
  EXPECT_EQ(v, 4);
  EXPECT_EQ(direction, 2.0F / 2 + 0.5F * 2);
  EXPECT_EQ(p, 2) << "the first pass does not move it";
  kernels().lamb_apply(lamb_factors(settings), 0.25F, slice);
  EXPECT_EQ(p, 2 - 0.25F * 2);

  EXPECT_DOUBLE_EQ(lamb_step_size(settings, 1), 0.5 * std::sqrt(0.25) / 0.5);
  EXPECT_EQ(lamb_step_size({.lr = 0.5, .bias_correction = false}, 1), 0.5);
}

TEST(Kernels, LambsTrustRatioIsBounded) {
  const LambSettings settings;
  EXPECT_EQ(lamb_trust_ratio(settings, 9, 4), 1.5);
  EXPECT_EQ(lamb_trust_ratio(settings, 1, 1e-6), 10);
  EXPECT_EQ(lamb_trust_ratio(settings, 1e-6, 1), 0.01);
  EXPECT_EQ(lamb_trust_ratio(settings, 0, 4), 1) << "a parameter that is all zero";
  EXPECT_EQ(lamb_trust_ratio(settings, 4, 0), 1);
  EXPECT_TRUE(std::isnan(lamb_trust_ratio(settings, std::nan(""), 1)));
}

TEST(Kernels, LionLeavesAParameterWithoutGradientAlone) {
  float p = 2, g = 0, m = 0;
  kernels().lion(lion_factors({}), {.count = 1, .param = &p, .grad = &g, .momentum = &m});
  EXPECT_EQ(p, 2);
}

TEST(Kernels, WithoutBiasCorrectionTheStepCountIsNotSeen) {
  const AdamSettings settings = {.bias_correction = false};
  EXPECT_EQ(adam_factors(settings, 1).step_size, adam_factors(settings, 1000).step_size);
  EXPECT_EQ(adam_factors(settings, 7).correction, 1);
}

// The order of sums_of_squares as its header has it, one element at a time.
std::vector<double> sums_by_hand(const Floats& x) {
  std::vector<double> sums;
  for (size_t first = 0; first < x.size(); first += kSumBlock) {
    double lanes[16] = {};
    for (size_t i = first; i < std::min(x.size(), first + kSumBlock); ++i) {
      lanes[(i - first) % 16] += static_cast<double>(x[i]) * static_cast<double>(x[i]);
    }
    for (const size_t apart : {8, 4, 2, 1}) {
      for (size_t lane = 0; lane < apart; ++lane) lanes[lane] += lanes[lane + apart];
    }
    sums.push_back(lanes[0]);
  }
  return sums;
}

TEST(SumsOfSquares, HaveOneOrder) {
  for (const size_t count : {0, 1, 15, 16, 31, 4095, 4096, 4097, 20'000}) {
    for (const Element type : kTypes) {
      const auto grad = stored(values(count, 5), type);
      Floats widened(count);
      for (size_t i = 0; i < count; ++i) {
        const float x = value_at(i, 5);
        widened[i] = type == Element::kFloat32    ? x
                     : type == Element::kBFloat16 ? float_of_bfloat16(bfloat16_of_float(x))
                                                  : float_of_half(half_of_float(x));
      }
      for (const Kernels* const k : all_kernels()) {
        std::vector<double> sums(num_sum_blocks(count));
        k->sums_of_squares(grad.data(), type, count, sums.data());
        EXPECT_EQ(sums, sums_by_hand(widened)) << k->name << " " << count;
      }
    }
  }
}

TEST(SumsOfSquares, NeitherOverflowNorHideWhatIsNotFinite) {
  Floats x(5000, std::numeric_limits<float>::max());
  std::vector<double> sums(num_sum_blocks(x.size()));
  kernels().sums_of_squares(x.data(), Element::kFloat32, x.size(), sums.data());
  EXPECT_TRUE(std::ranges::all_of(sums, [](double sum) { return std::isfinite(sum); }));
  for (const float poison : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    x[4999] = poison;
    kernels().sums_of_squares(x.data(), Element::kFloat32, x.size(), sums.data());
    EXPECT_FALSE(std::isfinite(sums.back()));
  }
}

}  // namespace
}  // namespace weft::optim
