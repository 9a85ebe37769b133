#include "weft/optim/core/optimizer_settings.h"

#include <gtest/gtest.h>

#include "weft/base/error.h"
#include "weft/base/text.h"
#include "weft/config/setting.h"
#include "weft/optim/core/test_refusal_impl.h"

namespace weft::optim {
namespace {

config::Optimizer optimizer_section(std::string_view type, std::string_view params) {
  return {.type = std::string(type), .params = params_of(params)};
}

AdamSettings adam_of(std::string_view type, std::string_view params) {
  return std::get<AdamSettings>(read_optimizer(optimizer_section(type, params)));
}

std::string optimizer_refusal(std::string_view type, std::string_view params) {
  return refusal_of([&] { read_optimizer(optimizer_section(type, params)); });
}

TEST(OptimizerSettings, DefaultsAreDeepSpeeds) {
  const AdamSettings adam = adam_of("Adam", "{}");
  EXPECT_EQ(adam.lr, 1e-3);
  EXPECT_EQ(adam.beta1, 0.9);
  EXPECT_EQ(adam.beta2, 0.999);
  EXPECT_EQ(adam.eps, 1e-8);
  EXPECT_EQ(adam.weight_decay, 0);
  EXPECT_TRUE(adam.bias_correction);
  const auto lion = std::get<LionSettings>(read_optimizer(optimizer_section("LION", "{lr: 0.5, betas: [0.8, 0.7]}")));
  EXPECT_EQ(lion.lr, 0.5);
  EXPECT_EQ(lion.beta2, 0.7);
  const auto sgd = std::get<SgdSettings>(read_optimizer({.type = "SGD"}));
  EXPECT_EQ(sgd.momentum, 0);
  const auto adagrad = std::get<AdagradSettings>(read_optimizer(optimizer_section("adagrad", "{lr_decay: 0.5}")));
  EXPECT_EQ(adagrad.lr, 1e-2);
  EXPECT_EQ(adagrad.lr_decay, 0.5);
  EXPECT_EQ(adagrad.eps, 1e-10);
  EXPECT_EQ(adagrad.initial_sum, 0);
  const auto lamb = std::get<LambSettings>(read_optimizer(optimizer_section("Lamb", "{max_coeff: 0.3}")));
  EXPECT_EQ(lamb.lr, 1e-3);
  EXPECT_EQ(lamb.max_coeff, 0.3);
  EXPECT_EQ(lamb.min_coeff, 0.01);
  EXPECT_TRUE(lamb.bias_correction);
}

TEST(OptimizerSettings, AdamIsAdamWUnlessToldOtherwise) {
  EXPECT_TRUE(adam_of("Adam", "{}").decoupled);
  EXPECT_FALSE(adam_of("adam", "{adam_w_mode: false}").decoupled);
  EXPECT_TRUE(adam_of("AdamW", "{adam_w_mode: false}").decoupled);
}

TEST(OptimizerSettings, TorchAdamBringsTorchsDefaultDecay) {
  EXPECT_EQ(adam_of("AdamW", "{torch_adam: true}").weight_decay, 0.01);
  EXPECT_EQ(adam_of("Adam", "{torch_adam: true}").weight_decay, 0.01);
  EXPECT_EQ(adam_of("Adam", "{torch_adam: true, adam_w_mode: false}").weight_decay, 0);
  EXPECT_EQ(adam_of("AdamW", "{torch_adam: true, weight_decay: 0.5}").weight_decay, 0.5);
}

TEST(OptimizerSettings, DeepSpeedsClassesAreKnownByName) {
  for (const std::string_view type : {"FusedAdam", "CPUAdam", "DeepSpeedCPUAdam", "fusedadam"}) {
    EXPECT_TRUE(adam_of(type, "{}").decoupled) << type;
    EXPECT_FALSE(adam_of(type, "{adam_w_mode: false}").decoupled) << type;
    EXPECT_EQ(adam_of(type, "{lr: 0.5, weight_decay: 0.25}").weight_decay, 0.25);
    EXPECT_EQ(config_name(type), "Adam");
  }
  for (const std::string_view type : {"FusedLion", "CPULion", "DeepSpeedCPULion"}) {
    EXPECT_EQ(std::get<LionSettings>(read_optimizer(optimizer_section(type, "{lr: 0.5}"))).lr, 0.5) << type;
    EXPECT_EQ(config_name(type), "Lion");
  }
  EXPECT_EQ(std::get<LambSettings>(read_optimizer(optimizer_section("FusedLamb", "{}"))).max_coeff, 10);
  EXPECT_EQ(std::get<AdagradSettings>(read_optimizer(optimizer_section("DeepSpeedCPUAdagrad", "{}"))).lr, 1e-2);
  EXPECT_EQ(std::get<AdagradSettings>(read_optimizer(optimizer_section("CPUAdagrad", "{}"))).eps, 1e-10);
  EXPECT_EQ(config_name("adamw"), "AdamW");
  EXPECT_EQ(config_name("SGD"), "SGD");
}

constexpr RefusedParams kRefusedOptimizers[] = {
    {"AdmaW", "{}", "did you mean AdamW?"},
    {"sgd", "{}", "did you mean SGD?"},
    {"FusedAdamW", "{}", "known: Adagrad, Adam, AdamW, Lamb, Lion, SGD"},
    {"FusedAdam", "{amsgrad: true}", "weft has no AMSGrad"},
    {"RMSprop", "{}", "known: Adagrad, Adam, AdamW, Lamb, Lion, SGD"},
    {"Lamb", "{min_coeff: 11}", "min_coeff is 11 and max_coeff 10"},
    {"Lamb", "{max_grad_norm: 1}", "max_grad_norm is no argument of Lamb"},
    {"", "{}", "weft has no optimizer ''"},
    {"AdamW", "{lr: \"auto\"}", "lr is \"auto\", expected a number"},
    {"AdamW", "{lr: -1}", "lr is -1, expected 0 or more"},
    {"AdamW", "{betas: [0.9]}", "expected two numbers"},
    {"AdamW", "{betas: [0.9, 1]}", "each at least 0 and below 1"},
    {"AdamW", "{amsgrad: true}", "weft has no AMSGrad"},
    {"AdamW", "{maximize: true}", "weft minimizes"},
    {"AdamW", "{fp32_optimizer_states: false}", "moments in fp32"},
    {"AdamW", "{learning_rate: 1}", "learning_rate is no argument of AdamW"},
    {"AdamW", "{weight_decy: 1}", "did you mean weight_decay?"},
    {"Adagrad", "{initial_accumulator_value: -1}", "initial_accumulator_value is -1, expected 0 or more"},
    {"Lion", "{eps: 1}", "eps is no argument of Lion"},
    {"SGD", "{nesterov: true}", "it needs a momentum and no dampening"},
    {"SGD", "{momentum: \"x\"}", "momentum is \"x\", expected a number"},
};

TEST(OptimizerSettings, RefusesWhatItCannotUse) {
  for (const RefusedParams& r : kRefusedOptimizers) {
    EXPECT_NE(optimizer_refusal(r.type, r.params).find(r.said), std::string::npos)
        << optimizer_refusal(r.type, r.params);
  }
  EXPECT_THROW(read_optimizer({}), Error);
}

TEST(OptimizerSettings, SaysWhyItHasNotWhatDeepSpeedHas) {
  constexpr RefusedParams kAbsent[] = {
      {"Muon", "it makes whole matrices orthogonal", "use AdamW, which DeepSpeed's Muon gives"},
      {"muon", "weft updates flat slices, which hold parts of them", "use AdamW"},
      {"MuAdam", "base shapes that the Python package mup puts on parameters",
       "a parameter group and rate for each width"},
      {"muadamw", "weft does not have the optimizer MuAdamW", "use AdamW or SGD"},
      {"MuSGD", "weft does not have the optimizer MuSGD", "use AdamW or SGD"},
      {"OneBitAdam", "it sends compressed momenta", "use AdamW; \"communication_data_type\""},
      {"ZeroOneAdam", "DeepSpeed took it out in 0.19.7", "use AdamW"},
      {"OneBitLamb", "weft does not have the optimizer OneBitLamb", "use Lamb"},
  };
  for (const auto& [type, why, instead] : kAbsent) {
    const std::string said = optimizer_refusal(type, "{lr: 1e-3}");
    EXPECT_NE(said.find(why), std::string::npos) << said;
    EXPECT_NE(said.find(instead), std::string::npos) << said;
  }
}

TEST(OptimizerSettings, EveryArgumentOfTheTableIsKnown) {
  for (const std::string_view type : {"adagrad", "adam", "adamw", "lamb", "lion"}) {
    for (const config::Argument& argument : config::find_arguments("optimizer", type)->arguments) {
      const std::string said = optimizer_refusal(type, cat("{", argument.name, ": {}}"));
      EXPECT_EQ(said.find("is no argument"), std::string::npos) << said;
    }
  }
}

TEST(OptimizerSettings, TheRateCanBeMoved) {
  for (const std::string_view type : {"Adagrad", "AdamW", "Lamb", "Lion", "SGD"}) {
    UpdateSettings settings = read_optimizer(optimizer_section(type, "{lr: 0.25}"));
    EXPECT_EQ(lr_of(settings), 0.25);
    set_lr(settings, 0.5);
    EXPECT_EQ(lr_of(settings), 0.5);
  }
}

}  // namespace
}  // namespace weft::optim
