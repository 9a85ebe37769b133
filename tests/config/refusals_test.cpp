// What a run refuses, `weft check` refuses: its tables are held against the code that makes optimizers, schedules and loss scales, and
// against what the engine says of settings that do not go together.
#include <gtest/gtest.h>

#include "weft/base/error.h"
#include "weft/base/text.h"
#include "weft/config/offered.h"
#include "weft/config/optimizer_names.h"
#include "weft/doctor/rules/diagnosis.h"
#include "weft/engine/settings.h"
#include "weft/optim/core/optimizer_settings.h"
#include "weft/optim/core/schedule_settings.h"

namespace weft {
namespace {

config::Reading read(const std::string& text) {
  return config::read_config(config::parse_document(config::checked_source("ds.json", text)), {});
}

config::Reading read(std::string_view of, std::string_view type, std::string_view params) {
  return read(cat("{\"train_batch_size\": 8, \"", of, "\": {\"type\": \"", type, "\", \"params\": {", params, "}}}"));
}

template <typename Call>
bool is_refused(const Call& call) {
  try {
    call();
  } catch (const Error&) {
    return true;
  }
  return false;
}

bool run_refuses(std::string_view of, const config::Reading& reading) {
  if (of == "optimizer") return is_refused([&] { optim::read_optimizer(reading.resolved.optimizer); });
  return is_refused([&] { optim::read_schedule(reading.resolved.scheduler, 1); });
}

// Every argument that any type takes, and names that none does.
std::vector<std::string> names_of(std::string_view of) {
  std::vector<std::string> names = {"last_epoch", "verbose", "learning_rate", "max_grad_norm"};
  for (const config::ArgumentSet& set : config::argument_sets()) {
    for (const config::Argument& argument : set.arguments) {
      if (set.of == of) names.emplace_back(argument.name);
    }
  }
  return names;
}

// What has to be there for the others to be looked at.
std::string required_by(std::string_view type) {
  if (type == "OneCycle") return "\"cycle_min_lr\": 0.1, \"cycle_max_lr\": 0.2";
  if (type == "CosineAnnealingLR") return "\"T_max\": 100";
  return type == "WarmupDecayLR" || type == "WarmupCosineLR" ? "\"total_num_steps\": 5000" : "";
}

constexpr std::string_view kValues[] = {"true", "false", "-1",         "0",  "1",  "0.5",   "11",          "-0.25",
                                        "null", "\"x\"", "\"linear\"", "{}", "[]", "[0.5]", "[0.9, 0.99]", "[0.9, 1]"};

void expect_no_type_missed(std::string_view of, std::span<const std::string_view> types) {
  for (const std::string_view type : types) {
    for (const std::string& name : names_of(of)) {
      if (required_by(type).find(cat('"', name, '"')) != std::string::npos) continue;
      for (const std::string_view value : kValues) {
        const std::string first = required_by(type);
        const auto reading = read(of, type, cat(first, first.empty() ? "" : ", ", "\"", name, "\": ", value));
        // A list has one value for each parameter group, of which a file says nothing.
        const bool may_be_groups = of == "scheduler" && value.starts_with('[');
        EXPECT_TRUE(reading.has_errors() || may_be_groups || !run_refuses(of, reading))
            << type << " " << name << ": " << value;
      }
    }
  }
}

TEST(Refusals, OptimizersOfTheTableAreThoseThatCanBeMade) {
  for (const char* type : {"Adafactor",  "Muon",      "muon",    "Adadelta",   "Adagrad",   "adagrad",    "Adam",
                           "ADAM",       "Adamax",    "AdamW",   "adamw",      "ASGD",      "LBFGS",      "NAdam",
                           "RAdam",      "RMSprop",   "Rprop",   "SparseAdam", "SGD",       "sgd",        "Lamb",
                           "lamb",       "Lion",      "MuAdam",  "MuAdamW",    "MuSGD",     "OneBitAdam", "ZeroOneAdam",
                           "OneBitLamb", "FusedAdam", "CPUAdam", "FusedLamb",  "fusedlion", "FusedAdamW", ""}) {
    const auto reading = read("optimizer", type, "\"lr\": 0.001");
    EXPECT_EQ(reading.has_errors(), run_refuses("optimizer", reading)) << type;
    EXPECT_EQ(config::is_offered("optimizer", type), !run_refuses("optimizer", reading)) << type;
  }
  for (const auto& [name, type] : config::kOptimizerClasses) EXPECT_TRUE(config::is_offered("optimizer", name)) << name;
}

TEST(Refusals, SchedulesOfTheTableAreThoseThatCanBeMade) {
  for (const char* type : {"WarmupLR", "WarmupDecayLR", "WarmupCosineLR", "OneCycle", "LRRangeTest", "LambdaLR",
                           "StepLR", "MultiStepLR", "ConstantLR", "LinearLR", "ExponentialLR", "PolynomialLR",
                           "CosineAnnealingLR", "ReduceLROnPlateau", "CyclicLR", "OneCycleLR", "warmuplr"}) {
    const auto reading = read("scheduler", type, required_by(type));
    EXPECT_EQ(reading.has_errors(), run_refuses("scheduler", reading)) << type;
  }
}

TEST(Refusals, NoArgumentIsRefusedByARunAlone) {
  expect_no_type_missed("optimizer", config::offered_optimizers());
  for (const auto& [name, type] : config::kOptimizerClasses) expect_no_type_missed("optimizer", std::span(&name, 1));
  expect_no_type_missed("scheduler", config::offered_schedules());
}

// All combinations of what the engine compares.
std::vector<std::string> combinations() {
  const std::vector<std::vector<std::string>> choices = {
      {"\"train_batch_size\": 8"},
      {"", "\"communication_data_type\": \"bf16\""},
      {"\"weft\": {\"compress\": \"int8\"}", "\"weft\": {\"compress\": \"int8\", \"shard_update\": false}", ""},
      {"", "\"fp16\": {\"enabled\": true}", "\"fp16\": {\"enabled\": true, \"hysteresis\": 0}",
       "\"fp16\": {\"enabled\": true, \"initial_scale_power\": 200}", "\"fp16\": {\"hysteresis\": 0}"},
      {"", "\"bf16\": {\"enabled\": true}", "\"bf16\": {\"enabled\": true, \"bf16_master_weights_and_grads\": true}",
       "\"bf16\": {\"enabled\": true, \"bf16_optimizer_states\": true}",
       "\"bf16\": {\"bf16_master_weights_and_grads\": true, \"bf16_optimizer_states\": true}"},
      {"", "\"torch_autocast\": {\"enabled\": true, \"dtype\": \"fp16\"}",
       "\"torch_autocast\": {\"enabled\": true, \"dtype\": \"bf16\"}"},
      {"\"optimizer\": {\"type\": \"Lamb\"}", "\"optimizer\": {\"type\": \"AdamW\"}"},
      {"\"zero_optimization\": {\"stage\": 0}", "\"zero_optimization\": {\"stage\": 2}",
       "\"zero_optimization\": {\"stage\": 3}"}};
  std::vector<std::string> out = {""};
  for (const auto& options : choices) {
    std::vector<std::string> longer;
    for (const std::string& before : out) {
      for (const std::string& option : options) {
        longer.push_back(cat(before, before.empty() || option.empty() ? "" : ", ", option));
      }
    }
    out = std::move(longer);
  }
  return out;
}

TEST(Refusals, NothingIsRefusedByTheEngineAlone) {
  int num_refused = 0;
  for (const std::string& members : combinations()) {
    const auto reading = read(cat("{", members, "}"));
    const bool refused = is_refused([&] {
      engine::check_supported(reading.resolved);
      engine::loss_scaler(reading.resolved);
    });
    if (!refused) continue;
    ++num_refused;
    EXPECT_GT(doctor::diagnose(reading, {}).count(config::Severity::kError), 0) << members;
  }
  EXPECT_GT(num_refused, 100);
}

}  // namespace
}  // namespace weft
