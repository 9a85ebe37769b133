#include "weft/engine/gather_together.h"

#include <gtest/gtest.h>

#include "tests/support/ranks.h"
#include "weft/base/error.h"
#include "weft/engine/engine_test_impl.h"
#include "weft/engine/sharded_init.h"
#include "weft/engine/zero3_nets_test_impl.h"

namespace weft {
namespace {

using Tensors = std::vector<at::Tensor>;

Engine engine_of(const Net& net, const char* zero = kTight) {
  return Engine(net.tensors(), settings(1, 1, zero), world(fresh_run(), 0, 1));
}

bool are_one_unit(const Engine& engine, int first, int second) {
  const plan::Layout& layout = engine.plan().layout;
  return layout.home(first).bucket == layout.home(second).bucket;
}

TEST(GatherTogether, MakesOneUnitOfThem) {
  const Net net = experts();
  gather_together({net.parameters[0], net.parameters[2]});
  const Engine engine = engine_of(net);
  EXPECT_TRUE(are_one_unit(engine, 0, 2));
  EXPECT_FALSE(are_one_unit(engine, 0, 1));
}

TEST(GatherTogether, IsForTheNextEngineAlone) {
  const Net net = experts();
  gather_together({net.parameters[0], net.parameters[1]});
  engine_of(net, kStage2);
  EXPECT_FALSE(are_one_unit(engine_of(net), 0, 1)) << "taken by the engine before, whatever its stage";
}

TEST(GatherTogether, IsForTheEngineThatHasThem) {
  const Net first = experts(), second = experts();
  gather_together({second.parameters[0], second.parameters[1]});
  testing::internal::CaptureStderr();
  EXPECT_FALSE(are_one_unit(engine_of(first), 0, 1));
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find("2 tensors, the first of shape [12, 12], of which this model has none"), std::string::npos)
      << text;
  EXPECT_TRUE(are_one_unit(engine_of(second), 0, 1));
}

TEST(GatherTogether, ForgetsWhatIsGone) {
  gather_together({parameter({3}, 1), parameter({3}, 2)});
  testing::internal::CaptureStderr();
  engine_of(experts());
  EXPECT_EQ(testing::internal::GetCapturedStderr().find("gather_together"), std::string::npos);
}

TEST(GatherTogether, RefusesWhatIsInTwoGroups) {
  const Net net = experts();
  gather_together({net.parameters[0], net.parameters[1]});
  expect_refused([&] { gather_together({net.parameters[1], net.parameters[2]}); }, "in two groups to gather together");
  EXPECT_TRUE(are_one_unit(engine_of(net), 0, 1)) << "the first one counts";
}

TEST(GatherTogether, RefusesWhatIsNoParameter) {
  expect_refused([] { gather_together({at::Tensor()}); }, "is undefined");
  const Net net = experts();
  const at::Tensor other = parameter({4, 2}, 1), view = net.parameters[1].detach();
  gather_together({net.parameters[0], other});
  expect_refused([&] { engine_of(net); }, "the model has 'p0'; besides there is one of shape [4, 2]");
  const Net again = experts();
  const at::Tensor inside = again.parameters[1].detach();
  gather_together({inside});
  expect_refused([&] { engine_of(again); }, "besides there is a view of 'p1'");
}

TEST(GatherTogether, RefusesWhatComesTooLate) {
  const Net net = experts();
  const Engine engine = engine_of(net);
  expect_refused([&] { gather_together({net.parameters[0], net.parameters[1]}); }, "call it before initialize()");
}

// A real network, parameters that were cut as they were made, and ranks that each have their own expert.
TEST(GatherTogether, RanksMayChooseOverGloo) {
  const NetRun expected = train_net(experts, {.more = kStage2, .num_steps = 6});
  const std::string run = fresh_run();
  const comm::Store store = comm::Store::in_process();
  test::run_ranks_as_threads(2, [&](test::RankContext& ctx) {
    World here = world(run, ctx.rank(), 2);
    here.group = gloo_group(store, ctx.rank(), 2);
    const auto config = settings(2, 1, kTight);
    const Net net = [&] {
      const ShardedInit scope(config, here, {.whole_bytes = 1000, .smallest_bytes = 64});
      Net made = experts();
      gather_together({made.parameters[0], made.parameters[1], made.parameters[2]});
      return made;
    }();
    Engine engine(net.tensors(), config, here);
    for (int64_t i = 0; i < 6; ++i) {
      engine.backward(net.loss(net, i * 2 + ctx.rank()));
      engine.step();
    }
    for (size_t i = 0; i < net.parameters.size(); ++i)
      EXPECT_TRUE(net.parameters[i].detach().equal(expected.parameters[i])) << i;
  });
}

}  // namespace
}  // namespace weft
