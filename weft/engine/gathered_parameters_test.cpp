#include "weft/engine/gathered_parameters.h"

#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "tests/support/ranks.h"
#include "weft/engine/engine_test_impl.h"
#include "weft/engine/zero3_test_impl.h"

namespace weft {
namespace {

Net three_layers() {
  Net net{{parameter({16, 24}, 1), parameter({24}, 2), parameter({24, 8}, 3), parameter({8, 8}, 4)},
          [](const Net& one, int64_t sample) {
            const auto& p = one.parameters;
            const at::Tensor x = numbers({5, 16}, 100 + sample).to(p[0].scalar_type());
            return at::mm(at::mm((at::mm(x, p[0]) + p[1]).tanh(), p[2]), p[3]).pow(2).mean();
          }};
  net.parameters[3].set_requires_grad(false);
  return net;
}

struct Rank {
  const World& here;
  const Net& net;
  Engine& engine;

  void step(int64_t number) const {
    engine.backward(net.loss(net, number * here.size + here.rank));
    engine.step();
  }
  std::vector<at::Tensor> values() const {
    std::vector<at::Tensor> out;
    for (const at::Tensor& one : net.parameters) out.push_back(one.detach().clone());
    return out;
  }
};

void on_each_rank(const Sharding& setting, const std::string& more, const std::function<void(const Rank& rank)>& body) {
  on_ranks_of(setting, [&](const World& here) {
    const Net net = three_layers();
    Engine engine(net.tensors(), settings(kWorld, 1, cat(setting.zero, more)), here);
    body({here, net, engine});
  });
}

bool is_sliced(const Sharding& setting) {
  return std::string_view(setting.zero).find("\"stage\": 3") != std::string_view::npos;
}

class GatheredParametersIn : public testing::TestWithParam<Sharding> {};
INSTANTIATE_TEST_SUITE_P(Settings, GatheredParametersIn, testing::ValuesIn(kShardings),
                         [](const auto& param) { return std::string(param.param.name); });

TEST_P(GatheredParametersIn, AreThereWithoutAnOperator) {
  on_each_rank(GetParam(), "", [](const Rank& rank) {
    rank.step(0);
    const auto expected = rank.values();
    for (size_t i = 0; i < expected.size(); ++i) {
      const GatheredParameters guard({rank.net.parameters[i]});
      const auto* const data = rank.net.parameters[i].const_data_ptr<float>();
      EXPECT_EQ(std::vector<float>(data, data + expected[i].numel()),
                std::vector<float>(expected[i].const_data_ptr<float>(),
                                   expected[i].const_data_ptr<float>() + expected[i].numel()));
    }
    rank.step(1);
  });
}

// The values of one rank alone are those of all, in the masters too: what follows has the bits of set_full_param().
TEST_P(GatheredParametersIn, TakeTheValuesOfTheModifier) {
  for (const char* type : {"", R"(, "bf16": {"enabled": true})"}) {
    const auto train = [&](bool by_guard) {
      std::vector<at::Tensor> out;
      on_each_rank(GetParam(), type, [&](const Rank& rank) {
        rank.step(0);
        const auto& p = rank.net.parameters;
        const at::Tensor first = numbers({16, 24}, 7).to(p[0].scalar_type()),
                         second = numbers({24}, 8).to(p[0].scalar_type());
        if (by_guard) {
          const GatheredParameters guard({p[0], p[1]}, 1);
          const at::NoGradGuard no_grad;
          p[0].copy_(rank.here.rank == 1 ? first : at::ones({16, 24}));
          if (rank.here.rank == 1) p[1].copy_(second);
        } else {
          rank.engine.set_full_param(p[0], first);
          rank.engine.set_full_param(p[1], second);
        }
        EXPECT_TRUE(p[0].detach().equal(first)) << "on rank " << rank.here.rank;
        for (int64_t i = 1; i < 4; ++i) rank.step(i);
        const auto values = rank.values();
        if (rank.here.rank == 2) out = values;
      });
      return out;
    };
    expect_equal(train(true), train(false), cat(GetParam().name, type));
  }
}

TEST_P(GatheredParametersIn, AFrozenOneCanBeChanged) {
  on_each_rank(GetParam(), "", [](const Rank& rank) {
    const at::Tensor& frozen = rank.net.parameters[3];
    {
      const GatheredParameters guard({frozen}, 2);
      if (rank.here.rank == 2) frozen.fill_(0.5);
    }
    EXPECT_TRUE(frozen.equal(at::full({8, 8}, 0.5)));
    rank.step(0);
    EXPECT_TRUE(frozen.equal(at::full({8, 8}, 0.5)));
  });
}

TEST_P(GatheredParametersIn, MayStandInsideEachOther) {
  on_each_rank(GetParam(), "", [](const Rank& rank) {
    const auto& p = rank.net.parameters;
    const at::NoGradGuard no_grad;
    {
      const GatheredParameters all({p[0], p[1], p[2], p[0]}, 0);
      if (rank.here.rank == 0) p[0].fill_(1);
      {
        const GatheredParameters looking({p[1]});
        const GatheredParameters inner({p[1]}, 2);
        if (rank.here.rank == 2) p[1].fill_(2);
      }
      EXPECT_TRUE(p[1].equal(at::full({24}, 2.0))) << "rank 2's, before the outer guard ends";
      if (rank.here.rank == 0) p[1].add_(1);
    }
    EXPECT_TRUE(p[0].equal(at::ones({16, 24})));
    EXPECT_TRUE(p[1].equal(at::full({24}, 3.0)));
    {
      const GatheredParameters looking({p[1]});
      {
        const GatheredParameters inner({p[1]}, 1);
        if (rank.here.rank == 1) p[1].fill_(4);
      }
      EXPECT_EQ(p[1].const_data_ptr<float>()[23], 4) << "what is being looked at is new";
    }
    EXPECT_TRUE(p[1].equal(at::full({24}, 4.0)));
  });
}

// Once on all ranks, once on one of them; nothing is kept, nobody waits for good, and training goes on.
TEST_P(GatheredParametersIn, AnExceptionUndoesThem) {
  on_each_rank(GetParam(), "", [](const Rank& rank) {
    const at::Tensor& first = rank.net.parameters[0];
    rank.step(0);
    const auto before = rank.values();
    for (const bool on_all : {true, false}) {
      const bool throws = on_all || rank.here.rank == 1;
      const auto write_and_throw = [&] {
        const GatheredParameters guard({first}, 0);
        const at::NoGradGuard no_grad;
        first.fill_(9);
        if (throws) throw std::runtime_error("not today");
      };
      if (throws) {
        EXPECT_THROW(write_and_throw(), std::runtime_error);
      } else {
        expect_refused(write_and_throw, "rank 1: an exception left the guard");
      }
      expect_equal(rank.values(), before, "after an exception");
    }
    rank.step(1);
    EXPECT_FALSE(first.detach().equal(before[0]));
  });
}

TEST_P(GatheredParametersIn, RanksThatNameOthersAreTold) {
  on_each_rank(GetParam(), "", [](const Rank& rank) {
    const auto& p = rank.net.parameters;
    const bool odd = rank.here.rank == 1;
    expect_refused([&] { const GatheredParameters guard({p[0], odd ? p[2] : p[1]}); },
                   "rank 0 names 'p1', rank 1 'p2'");
    expect_refused([&] { const GatheredParameters guard(odd ? std::vector{p[0], p[1]} : std::vector{p[0]}); },
                   "rank 0 names nothing more, rank 1 'p1'");
    expect_refused([&] { const GatheredParameters guard({p[0]}, odd ? std::optional(1) : std::nullopt); },
                   "rank 0 names no modifier_rank, rank 1 modifier_rank 1");
    expect_refused([&] { const GatheredParameters guard({p[0]}, kWorld); }, "modifier_rank 3");
    rank.step(0);
  });
}

TEST_P(GatheredParametersIn, AStepInsideIsRefused) {
  on_each_rank(GetParam(), "", [](const Rank& rank) {
    {
      const GatheredParameters guard({rank.net.parameters[0]});
      rank.engine.backward(rank.net.loss(rank.net, rank.here.rank));
      expect_refused([&] { rank.engine.step(); }, "step() inside a GatheredParameters");
    }
    rank.engine.step();
    const GatheredParameters guard({rank.net.parameters[0]}, 0);
    expect_refused([&] { rank.engine.backward(rank.net.loss(rank.net, 0)); }, "backward() inside a GatheredParameters");
  });
}

TEST_P(GatheredParametersIn, AWriteWithoutAModifierIsRefusedInStageThree) {
  if (!is_sliced(GetParam())) return;
  on_each_rank(GetParam(), "", [&](const Rank& rank) {
    rank.step(0);
    const auto before = rank.values();
    const auto write = [&](size_t number) {
      const GatheredParameters guard({rank.net.parameters[number]});
      const at::NoGradGuard no_grad;
      rank.net.parameters[number].mul_(2);
    };
    expect_refused([&] { write(0); }, "parameter 'p0' was written to");
    if (std::string_view(GetParam().name) == "stage_3_common") {
      expect_refused([&] { rank.step(1); }, "cannot go on");
      return;
    }
    expect_refused([&] { write(1); }, "parameter 'p1' was written to");
    expect_equal(rank.values(), before, "nothing of it is kept");
    rank.step(1);
  });
}

TEST(GatheredParameters, KeepNoMoreThanTheyName) {
  on_each_rank({"", kTight}, "", [](const Rank& rank) {
    for (const at::Tensor& one : rank.net.parameters) {
      const GatheredParameters guard({one}, 0);
      const GatheredParameters looking({one});
    }
    EXPECT_LE(rank.engine.totals().peak_gathered_elements, 384) << "the largest of them";
  });
}

TEST(GatheredParameters, LeavePlainTensorsAlone) {
  const at::Tensor plain = at::ones({3});
  {
    const GatheredParameters guard({plain, at::Tensor()}, 5);
    plain.fill_(2);
  }
  EXPECT_EQ(plain.sum().item<float>(), 6);
}

TEST(GatheredParameters, MayOutliveTheEngine) {
  const Model model;
  std::optional<Engine> engine;
  engine.emplace(model.tensors(), settings(1, 1), world(fresh_run(), 0, 1));
  const at::NoGradGuard no_grad;
  const GatheredParameters guard({model.bias}, 0);
  engine.reset();
  model.bias.fill_(1);
}

TEST(GatheredParameters, OfTwoEnginesAtOnce) {
  const Model one, other;
  Engine first(one.tensors(), settings(1, 1), world(fresh_run(), 0, 1));
  Engine second(other.tensors(), settings(1, 1), world(fresh_run(), 0, 1));
  const at::NoGradGuard no_grad;
  {
    const GatheredParameters guard({one.bias, other.bias, one.seldom}, 0);
    one.bias.fill_(1);
    other.bias.fill_(2);
  }
  EXPECT_EQ(first.full_param(one.bias).sum().item<float>(), 40);
  EXPECT_EQ(second.full_param(other.bias).sum().item<float>(), 80);
}

}  // namespace
}  // namespace weft
