#include "weft/checkpoint/foreign/deepspeed.h"

#include <gtest/gtest.h>

#include "weft/base/crash_env.h"
#include "weft/base/error.h"
#include "weft/checkpoint/foreign/torch_save_maker.h"

namespace weft::checkpoint::foreign {
namespace {

using test::dict, test::floats, test::integer, test::list, test::pickled, test::text;
using Role = DeepSpeedTensor::Role;

std::string flat(int64_t count, const std::string& key, int64_t first = 0) {
  return test::tensor({.key = key, .count = first + count, .first = first, .shape = {count}, .strides = {1}});
}

// Parameters a {2, 3} and b {3}, which hold 0 to 5 and 10 to 12. Adam's first average is 100 more, the second 200.
class DeepSpeed : public testing::Test {
 protected:
  DeepSpeed() { env_.make_folders("ds/global_step7"); }

  std::string model(const test::Entries& more = {}) const {
    test::Entries entries = {{"module", dict({{"mean", flat(2, "0")}})},
                             {"buffer_names", list({text("mean")})},
                             {"param_shapes", list({dict({{"a", test::sizes({2, 3})}, {"b", test::sizes({3})}})})},
                             {"shared_params", dict({{"c", text("a")}})},
                             {"global_steps", integer(7)},
                             {"ds_version", text("0.19.8")}};
    entries.insert(entries.end(), more.begin(), more.end());
    return test::torch_file(pickled(dict(entries)), {{"0", floats({1, 2})}});
  }

  // One group of weights with its state, in storages 0 to 2.
  static std::string optimizer(int stage, const std::vector<float>& weights, const test::Entries& more = {}) {
    std::vector<float> averages = weights, squares = weights;
    for (float& one : averages) one += 100;
    for (float& one : squares) one += 200;
    const auto count = static_cast<int64_t>(weights.size());
    const std::string state = dict(
        {{"state",
          cat("}(", integer(0),
              dict({{"step", integer(6)}, {"exp_avg", flat(count, "1")}, {"exp_avg_sq", flat(count, "2")}}), "u")}});
    test::Entries entries = {
        {"zero_stage", integer(stage)},
        {"partition_count", integer(2)},
        {stage == 3 ? "optimizer_state_dict" : "base_optimizer_state", state},
        {stage == 3 ? "fp32_flat_groups" : "single_partition_of_fp32_groups", list({flat(count, "0")})}};
    entries.insert(entries.end(), more.begin(), more.end());
    return test::torch_file(pickled(dict({{"optimizer_state_dict", dict(entries)}})),
                            {{"0", floats(weights)}, {"1", floats(averages)}, {"2", floats(squares)}});
  }

  void put(const std::string& name, const std::string& bytes) {
    test::put_file(env_, cat("ds/global_step7/", name), bytes);
  }
  void put_optimizers(int stage, const std::vector<float>& first, const std::vector<float>& second,
                      const test::Entries& more = {}) {
    put("zero_pp_rank_0_mp_rank_00_optim_states.pt", optimizer(stage, first, more));
    put("zero_pp_rank_1_mp_rank_00_optim_states.pt", optimizer(stage, second, more));
  }
  void put_stage_2(const test::Entries& more = {}) {
    put("mp_rank_00_model_states.pt", model());
    put_optimizers(2, {0, 1, 2, 3, 4, 5}, {10, 11, 12, -1, -1, -1}, more);
  }

  DeepSpeedCheckpoint read(const std::string& tag = "global_step7") {
    return read_deepspeed(open_deepspeed(env_, "ds", tag).value());
  }
  static std::vector<float> values(const DeepSpeedTensor& tensor) {
    std::vector<float> out(tensor.elements.num_elements());
    tensor.elements.read(0, std::as_writable_bytes(std::span(out)));
    return out;
  }
  std::string why() {
    try {
      read();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInput);
      return error.what();
    }
    return "";
  }
  void expect_all(const DeepSpeedCheckpoint& found) {
    std::map<std::string, std::vector<float>> all;
    for (const DeepSpeedTensor& tensor : found.tensors)
      all[cat(static_cast<int>(tensor.role), tensor.kind, tensor.name)] = values(tensor);
    const std::map<std::string, std::vector<float>> wanted = {{"0a", {0, 1, 2, 3, 4, 5}},
                                                              {"0b", {10, 11, 12}},
                                                              {"1exp_avga", {100, 101, 102, 103, 104, 105}},
                                                              {"1exp_avgb", {110, 111, 112}},
                                                              {"1exp_avg_sqa", {200, 201, 202, 203, 204, 205}},
                                                              {"1exp_avg_sqb", {210, 211, 212}},
                                                              {"2mean", {1, 2}}};
    EXPECT_EQ(all, wanted);
    EXPECT_EQ(found.global_steps, 7);
    EXPECT_EQ(found.optimizer_step, 6);
    EXPECT_EQ(found.left_out, std::vector<std::string>{"'c', which is 'a' under another name"});
  }

  CrashEnv env_;
};

TEST_F(DeepSpeed, PutsStage2Together) {
  put_stage_2();
  const DeepSpeedCheckpoint found = read();
  EXPECT_EQ(found.stage, 2);
  EXPECT_EQ(found.world, 2);
  expect_all(found);
}

TEST_F(DeepSpeed, PutsStage3Together) {
  // a in threes; b in twos, the last of them padded.
  for (const int rank : {0, 1}) put(cat("zero_pp_rank_", rank, "_mp_rank_00_model_states.pt"), model());
  put_optimizers(3, {0, 1, 2, 10, 11}, {3, 4, 5, 12, -1});
  expect_all(read());
}

TEST_F(DeepSpeed, ReadsPiecesOfPieces) {
  put_stage_2();
  const DeepSpeedCheckpoint found = read();
  const DeepSpeedTensor& b = found.tensors[1];
  for (uint64_t first = 0; first <= 3; ++first) {
    for (uint64_t count = 0; count <= 3 - first; ++count) {
      std::vector<float> out(count), wanted;
      for (uint64_t i = 0; i < count; ++i) wanted.push_back(static_cast<float>(10 + first + i));
      b.elements.read(first, std::as_writable_bytes(std::span(out)));
      EXPECT_EQ(out, wanted);
    }
  }
}

TEST_F(DeepSpeed, TakesALossScaleThatMoves) {
  const std::string scaler = cat(test::global("deepspeed.runtime.fp16.loss_scaler", "DynamicLossScaler"), ")\x81",
                                 dict({{"cur_scale", integer(512)},
                                       {"cur_iter", integer(7)},
                                       {"last_overflow_iter", integer(-1)},
                                       {"cur_hysteresis", integer(2)}}),
                                 "b");
  put_stage_2({{"loss_scaler", scaler}});
  const auto scale = read().scale.value();
  EXPECT_EQ(scale.scale, 512);
  EXPECT_EQ(scale.num_updates, 7);
  EXPECT_EQ(scale.last_overflow, -1);
  EXPECT_EQ(scale.hysteresis_left, 2);
}

TEST_F(DeepSpeed, IsFoundByItsLatest) {
  put_stage_2();
  EXPECT_FALSE(open_deepspeed(env_, "ds", ""));
  test::put_file(env_, "ds/latest", "global_step7\n");
  EXPECT_EQ(open_deepspeed(env_, "ds/", "")->tag, "global_step7");
  EXPECT_EQ(open_deepspeed(env_, "ds/global_step7", "")->folder, "ds/global_step7");
  for (const char* latest : {"../ds/global_step7", "..", "/etc", "\n"}) {
    test::put_file(env_, "ds/latest", latest);
    EXPECT_THROW(open_deepspeed(env_, "ds", ""), Error) << latest;
  }
  EXPECT_THROW(open_deepspeed(env_, "ds", "nothing"), Error);
}

TEST_F(DeepSpeed, RefusesWhatDoesNotAddUp) {
  put_stage_2();
  put_optimizers(2, {0, 1, 2, 3, 4, 5}, {10});  // too few
  EXPECT_NE(why(), "");
  put_optimizers(2, {0, 1, 2, 3, 4, 5}, std::vector<float>(50));  // too many
  EXPECT_NE(why(), "");
  put_optimizers(7, {0, 1, 2, 3, 4, 5}, {10, 11, 12});
  EXPECT_NE(why().find("zero_stage"), std::string::npos);
  put_optimizers(2, {0, 1, 2, 3, 4, 5}, {10, 11, 12},
                 {{"param_alignment_paddings", list({list({integer(INT64_MAX), integer(0)})})}});
  EXPECT_NE(why().find("paddings"), std::string::npos);
  put_optimizers(2, {0, 1, 2, 3, 4, 5}, {10, 11, 12});
  EXPECT_EQ(why(), "");
  put("zero_pp_rank_2_mp_rank_00_optim_states.pt", optimizer(2, {1}));
  EXPECT_NE(why().find("of 2 ranks, files of 3"), std::string::npos);
  env_.remove_file("ds/global_step7/zero_pp_rank_1_mp_rank_00_optim_states.pt");
  EXPECT_NE(why().find("rank 1 is missing"), std::string::npos);
  put("mp_rank_01_model_states.pt", model());
  EXPECT_NE(why().find("parallelism"), std::string::npos);
}

}  // namespace
}  // namespace weft::checkpoint::foreign
