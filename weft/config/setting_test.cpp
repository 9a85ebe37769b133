#include "weft/config/setting.h"

#include <gtest/gtest.h>

#include <set>

#include "weft/base/text.h"
#include "weft/config/coerce.h"

namespace weft::config {
namespace {

TEST(SettingsTable, HoldsTogether) {
  std::set<std::string> paths;
  for (const Setting& setting : settings()) {
    EXPECT_TRUE(paths.insert(std::string(setting.path)).second) << setting.path << " stands twice";
    EXPECT_EQ(find_setting(setting.path), &setting);
    EXPECT_FALSE(setting.doc.empty()) << setting.path;
    for (const std::string_view other : {setting.renamed, setting.deprecated}) {
      const bool leads_somewhere = other.empty() || find_setting(other) != nullptr || find_section(other) != nullptr ||
                                   find_setting(other.substr(0, other.rfind('.'))) != nullptr;
      EXPECT_TRUE(leads_somewhere) << setting.path << " leads to " << other;
    }
  }
  EXPECT_GT(paths.size(), 280U);
}

TEST(SettingsTable, DefaultsAreOfTheirTypeAndInRange) {
  for (const Setting& setting : settings()) {
    for (const Version version : {kOldestDeepSpeed, kNewestDeepSpeed}) {
      const Value value = default_value(setting, version);
      if (value.kind == Kind::kNull) continue;
      EXPECT_TRUE(coerce(setting, value).has_value()) << setting.path << " " << to_json(value);
      EXPECT_TRUE(!value.is_number() || setting.range.holds(value.number())) << setting.path;
    }
  }
}

TEST(SettingsTable, StrayKeysLeadSomewhere) {
  for (const StrayKey& stray : stray_keys()) {
    const bool exists = stray.to.empty() || find_setting(stray.to) != nullptr || stray.to == "optimizer.params.lr";
    EXPECT_TRUE(exists) << stray.key << " to " << stray.to;
    EXPECT_FALSE(stray.zh.empty()) << stray.key;
  }
}

TEST(SettingsTable, FindsByAlias) {
  EXPECT_EQ(find_setting("zero_optimization.max_live_parameters"),
            find_setting("zero_optimization.stage3_max_live_parameters"));
  EXPECT_EQ(find_setting("zero_optimization.nothing"), nullptr);
}

TEST(Arguments, OptimizersInAnyCaseSchedulesInTheirOwn) {
  EXPECT_NE(find_arguments("optimizer", "ADAMW"), nullptr);
  EXPECT_NE(find_arguments("scheduler", "WarmupLR"), nullptr);
  EXPECT_EQ(find_arguments("scheduler", "warmuplr"), nullptr);
}

struct Converted {
  std::string path;
  Value from;
  std::string to;  // JSON; empty: refused
};

TEST(Coerce, AsPydanticDoes) {
  const std::string bucket = "zero_optimization.reduce_bucket_size";
  const std::string overlap = "zero_optimization.overlap_comm";
  const Converted cases[] = {
      {bucket, int_value(500), "500"},
      {bucket, real_value(500.0), "500"},
      {bucket, text_value("500"), "500"},
      {bucket, text_value("5_00"), "500"},
      {bucket, text_value(" +500.00 "), "500"},
      {bucket, real_value(0.5), ""},
      {bucket, text_value("2e8"), ""},
      {bucket, real_value(1e20), ""},
      {bucket, bool_value(true), "1"},
      {bucket, text_value(""), ""},
      {bucket, text_value("_5"), ""},
      {overlap, int_value(1), "true"},
      {overlap, int_value(2), ""},
      {overlap, text_value("yes"), "true"},
      {overlap, text_value("OFF"), "false"},
      {overlap, text_value("True,"), ""},
      {"gradient_clipping", int_value(1), "1.0"},
      {"gradient_clipping", text_value("0.5"), ""},
      {"fp16.loss_scale", text_value("0.5"), "0.5"},
      {"gradient_clipping", text_value("inf"), ""},
      {"communication_data_type", text_value("BF16"), "\"bf16\""},
      {"communication_data_type", text_value("bfloat16"), ""},
      {"data_types.grad_accum_dtype", text_value("torch.float32"), "\"fp32\""},
      {"data_types.grad_accum_dtype", text_value("FP32"), ""},
      {"zero_optimization.offload_param.device", text_value("cpu"), "\"cpu\""},
      {"zero_optimization.offload_param.device", text_value("gpu"), ""},
      {"zero_optimization.offload_param.device", Value{}, ""},
      {"zero_optimization.leaf_module.names", text_value("mlp"), "[\"mlp\"]"},
  };
  for (const Converted& one : cases) {
    const auto converted = coerce(*find_setting(one.path), one.from);
    EXPECT_EQ(converted ? to_json(*converted) : "", one.to) << one.path << " from " << to_json(one.from);
  }
}

}  // namespace
}  // namespace weft::config
