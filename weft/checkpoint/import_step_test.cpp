#include "weft/checkpoint/import_step.h"

#include <gtest/gtest.h>

#include "tests/support/refusal.h"
#include "weft/base/crash_env.h"
#include "weft/base/error.h"
#include "weft/base/text.h"
#include "weft/checkpoint/foreign/torch_save_maker.h"
#include "weft/checkpoint/step_reader.h"
#include "weft/checkpoint/store.h"
#include "weft/checkpoint/weight_files.h"

namespace weft::checkpoint {
namespace {

using foreign::test::dict, foreign::test::floats, foreign::test::pickled, foreign::test::put_file;

std::string tensor(const std::vector<int64_t>& shape, const std::vector<int64_t>& strides) {
  return foreign::test::tensor({.count = 6, .shape = shape, .strides = strides});
}

// a: 0 to 5 as {2, 3}; b: the same turned; c: a again.
void put_weights(Env& env, const std::string& path) {
  const std::string a = tensor({2, 3}, {3, 1});
  put_file(
      env, path,
      foreign::test::torch_file(pickled(dict({{"a", a}, {"b", tensor({3, 2}, {1, 3})}, {"c", a}, {"epoch", "K\x03"}})),
                                {{"0", floats({0, 1, 2, 3, 4, 5})}}));
}

std::vector<float> values(StepReader& reader, const std::string& name, size_t count) {
  std::vector<float> out(count);
  reader.read(name, 0, count, std::as_writable_bytes(std::span(out)));
  return out;
}

TEST(ImportStep, MakesAStepOfWeights) {
  CrashEnv env;
  put_weights(env, "m.bin");
  const ImportPlan plan = plan_import(env, "m.bin", {.step = 4});
  EXPECT_EQ(plan.left_out, (std::vector<std::string>{"'c', which is 'a' under another name", "'epoch', an integer"}));
  uint64_t last = 0;
  const Imported done = import_step(env, "store", plan, [&](uint64_t bytes, uint64_t total) {
    EXPECT_LE(bytes, total);
    last = bytes;
  });
  EXPECT_EQ(done.bytes, 48U);
  EXPECT_EQ(last, 48U);
  env.crash();  // what was returned is durable
  const auto found = find_newest(env, "store", Check::kEveryBlock);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->step, 4);
  EXPECT_EQ(found->manifest.sections.at("client.imported_from"), "weights of torch.save");
  StepReader reader(env, found->folder, found->manifest);
  EXPECT_EQ(values(reader, "param/a", 6), (std::vector<float>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(values(reader, "param/b", 6), (std::vector<float>{0, 3, 1, 4, 2, 5}));
}

TEST(ImportStep, ReplacesNoStep) {
  CrashEnv env;
  put_weights(env, "m.bin");
  import_step(env, "store", plan_import(env, "m.bin", {}), {});
  EXPECT_EQ(test::title_of([&] { import_step(env, "store", plan_import(env, "m.bin", {}), {}); }),
            "the store has a step 0 already");
  import_step(env, "store", plan_import(env, "m.bin", {.step = 1}), {});
  EXPECT_EQ(list_steps(env, "store").size(), 2U);
}

TEST(ImportStep, LeavesNothingBehindWhereTheSourceIsBad) {
  CrashEnv env;
  put_file(env, "bad.bin", foreign::test::torch_file(pickled(foreign::test::global("os", "system") + ")R"), {}));
  EXPECT_EQ(test::title_of([&] { plan_import(env, "bad.bin", {}); }), "not a file of torch.save that can be read");
  EXPECT_FALSE(env.stat("store"));
}

TEST(WeightPickles, AreReadAsSafetensorsAre) {
  CrashEnv env;
  env.make_folders("m");
  put_weights(env, "m/pytorch_model.bin");
  WeightFiles files(env, "m");
  EXPECT_EQ(files.names(), (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(files.find("b")->shape, (std::vector<int64_t>{3, 2}));
  EXPECT_EQ(files.tied(), (std::map<std::string, std::string>{{"c", "a"}}));
  float two[2] = {};
  files.read("b", 1, std::as_writable_bytes(std::span(two)));
  EXPECT_EQ(two[0], 3);
  EXPECT_EQ(two[1], 1);
  EXPECT_EQ(files.read_bytes(), 8);
}

TEST(WeightPickles, NeedTensorsByName) {
  CrashEnv env;
  const auto why = [&](const std::string& body) {
    put_file(env, "m.bin", foreign::test::torch_file(pickled(body), {{"0", floats({0, 1, 2, 3, 4, 5})}}));
    return test::title_of([&] { WeightFiles(env, "m.bin"); });
  };
  const std::string refused = "not a file of torch.save that can be read", a = tensor({6}, {1});
  EXPECT_EQ(why("}"), refused);
  EXPECT_EQ(why("N"), refused);
  EXPECT_EQ(why(a), refused);
  EXPECT_EQ(why(dict({{"a", a}, {"a", a}})), refused);
  EXPECT_EQ(why(dict({{"a\n", a}})), refused);
  EXPECT_EQ(why(dict({{"a\xff", a}})), refused);
  EXPECT_EQ(why(cat("}(K\x01", a, "u")), refused);
  EXPECT_EQ(why(dict({{"model", dict({{"a", a}})}, {"n", "N"}})), "nothing was refused");
}

}  // namespace
}  // namespace weft::checkpoint
