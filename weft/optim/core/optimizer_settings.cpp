#include "weft/optim/core/optimizer_settings.h"

#include "weft/base/error.h"
#include "weft/base/text.h"
#include "weft/config/lower.h"
#include "weft/optim/core/arguments_impl.h"

namespace weft::optim {
namespace {

double at_least_0(Arguments& arguments, std::string_view name, double fallback) {
  const double value = arguments.number(name, fallback);
  if (!(value >= 0)) arguments.problem(cat(name, " is ", value, ", expected 0 or more"));
  return value;
}

// What no part of a step depends on here: how the work is spread over kernels.
void ignore_how(Arguments& arguments) {
  for (const std::string_view name : {"set_grad_none", "foreach", "fused", "capturable", "differentiable"}) {
    arguments.ignore(name);
  }
  arguments.refuse("maximize", "weft minimizes; negate the loss");
}

void check_states(Arguments& arguments) {
  if (!arguments.flag("fp32_optimizer_states", true)) {
    arguments.problem("fp32_optimizer_states is false: weft keeps moments in fp32");
  }
}

// torch.optim.AdamW decays by 0.01 where nothing is said; DeepSpeed's own Adam does not.
double default_decay(bool torch_adam, bool decoupled) { return torch_adam && decoupled ? 0.01 : 0; }

UpdateSettings adam(Arguments& arguments, std::string_view type) {
  const bool torch_adam = arguments.flag("torch_adam", false);
  const bool w_mode = arguments.flag("adam_w_mode", true);
  const bool decoupled = type == "adamw" || w_mode;
  const Betas betas = arguments.betas("betas", {0.9, 0.999});
  const AdamSettings settings = {
      .lr = at_least_0(arguments, "lr", 1e-3),
      .beta1 = betas.first,
      .beta2 = betas.second,
      .eps = at_least_0(arguments, "eps", 1e-8),
      .weight_decay = at_least_0(arguments, "weight_decay", default_decay(torch_adam, decoupled)),
      .decoupled = decoupled,
      .bias_correction = arguments.flag("bias_correction", true)};
  arguments.refuse("amsgrad", "weft has no AMSGrad");
  check_states(arguments);
  ignore_how(arguments);
  return settings;
}

UpdateSettings lion(Arguments& arguments, std::string_view) {
  const Betas betas = arguments.betas("betas", {0.9, 0.999});
  const LionSettings settings = {.lr = at_least_0(arguments, "lr", 1e-3),
                                 .beta1 = betas.first,
                                 .beta2 = betas.second,
                                 .weight_decay = at_least_0(arguments, "weight_decay", 0)};
  arguments.ignore("set_grad_none");
  check_states(arguments);
  return settings;
}

UpdateSettings sgd(Arguments& arguments, std::string_view) {
  const SgdSettings settings = {.lr = at_least_0(arguments, "lr", 1e-3),
                                .momentum = at_least_0(arguments, "momentum", 0),
                                .dampening = arguments.number("dampening", 0),
                                .weight_decay = at_least_0(arguments, "weight_decay", 0),
                                .nesterov = arguments.flag("nesterov", false)};
  if (settings.nesterov && (settings.momentum == 0 || settings.dampening != 0)) {
    arguments.problem(cat("nesterov is true with momentum ", settings.momentum, " and dampening ", settings.dampening,
                          ": it needs a momentum and no dampening"));
  }
  ignore_how(arguments);
  return settings;
}

UpdateSettings adagrad(Arguments& arguments, std::string_view) {
  const AdagradSettings settings = {.lr = at_least_0(arguments, "lr", 1e-2),
                                    .lr_decay = at_least_0(arguments, "lr_decay", 0),
                                    .eps = at_least_0(arguments, "eps", 1e-10),
                                    .weight_decay = at_least_0(arguments, "weight_decay", 0),
                                    .initial_sum = at_least_0(arguments, "initial_accumulator_value", 0)};
  arguments.refuse("amsgrad", "weft has no AMSGrad");
  check_states(arguments);
  ignore_how(arguments);
  return settings;
}

UpdateSettings lamb(Arguments& arguments, std::string_view) {
  const Betas betas = arguments.betas("betas", {0.9, 0.999});
  const LambSettings settings = {.lr = at_least_0(arguments, "lr", 1e-3),
                                 .beta1 = betas.first,
                                 .beta2 = betas.second,
                                 .eps = at_least_0(arguments, "eps", 1e-8),
                                 .weight_decay = at_least_0(arguments, "weight_decay", 0),
                                 .max_coeff = at_least_0(arguments, "max_coeff", 10),
                                 .min_coeff = at_least_0(arguments, "min_coeff", 0.01),
                                 .eps_inside_sqrt = arguments.flag("eps_inside_sqrt", false),
                                 .bias_correction = arguments.flag("bias_correction", true)};
  if (settings.min_coeff > settings.max_coeff) {
    arguments.problem(cat("min_coeff is ", settings.min_coeff, " and max_coeff ", settings.max_coeff,
                          ": expected the lower bound first"));
  }
  arguments.refuse("amsgrad", "weft has no AMSGrad");
  return settings;
}

struct OptimizerMaker {
  std::string_view name, type;  // as documented, as compared
  UpdateSettings (*make)(Arguments&, std::string_view type);
};

constexpr OptimizerMaker kOptimizers[] = {{"Adagrad", "adagrad", adagrad}, {"Adam", "adam", adam},
                                          {"AdamW", "adamw", adam},        {"Lamb", "lamb", lamb},
                                          {"Lion", "lion", lion},          {"SGD", "SGD", sgd}};

// DeepSpeed's classes, which its configs do not name: what they compute, by its defaults. FusedAdam and CPUAdam are AdamW unless
// adam_w_mode is false, as "Adam" is.
constexpr OptimizerMaker kDeepSpeedClasses[] = {{"Adam", "fusedadam", adam},
                                                {"Adam", "cpuadam", adam},
                                                {"Adam", "deepspeedcpuadam", adam},
                                                {"Adagrad", "cpuadagrad", adagrad},
                                                {"Adagrad", "deepspeedcpuadagrad", adagrad},
                                                {"Lamb", "fusedlamb", lamb},
                                                {"Lion", "fusedlion", lion},
                                                {"Lion", "cpulion", lion},
                                                {"Lion", "deepspeedcpulion", lion}};

// What DeepSpeed has, or had, and weft has not.
struct Absent {
  std::string_view name, why, instead;
};

constexpr std::string_view kWholeMatrices =
    "it makes whole matrices orthogonal; weft updates flat slices, which hold parts of them";
constexpr std::string_view kBaseShapes = "it needs the base shapes that the Python package mup puts on parameters";
constexpr std::string_view kCompressed = "it sends compressed momenta; DeepSpeed took it out in 0.19.7";
constexpr std::string_view kRates = "use AdamW or SGD, with a parameter group and rate for each width";
constexpr std::string_view kHalved = "use AdamW; \"communication_data_type\": \"bf16\" halves what is sent";

constexpr Absent kAbsent[] = {
    {"Muon", kWholeMatrices, "use AdamW, which DeepSpeed's Muon gives to embeddings and vectors anyway"},
    {"MuAdam", kBaseShapes, kRates},
    {"MuAdamW", kBaseShapes, kRates},
    {"MuSGD", kBaseShapes, kRates},
    {"OneBitAdam", kCompressed, kHalved},
    {"ZeroOneAdam", kCompressed, kHalved},
    {"OneBitLamb", kCompressed, "use Lamb; \"communication_data_type\": \"bf16\" halves what is sent"},
};

void refuse_absent(std::string_view type) {
  for (const Absent& absent : kAbsent) {
    if (config::lower(absent.name) != config::lower(type)) continue;
    throw Error(ErrorKind::kInput, {.title = cat("weft does not have the optimizer ", absent.name),
                                    .what = std::string(absent.why),
                                    .where = "optimizer.type",
                                    .fix = std::string(absent.instead)});
  }
}

// DeepSpeed lowers its own names and hands others to torch.optim as they are.
const OptimizerMaker& optimizer_maker(std::string_view type) {
  std::vector<std::string> known;
  for (const OptimizerMaker& maker : kOptimizers) {
    if (maker.type == type || maker.type == config::lower(type)) return maker;
    known.emplace_back(maker.name);
  }
  for (const OptimizerMaker& maker : kDeepSpeedClasses) {
    if (maker.type == config::lower(type)) return maker;
  }
  refuse_absent(type);
  refuse_type("optimizer", type, std::move(known));
}

}  // namespace

UpdateSettings read_optimizer(const config::Optimizer& section) {
  if (!section.type) {
    throw Error(ErrorKind::kInput, {.title = "the config names no optimizer",
                                    .where = "optimizer.type",
                                    .fix = "add \"optimizer\": {\"type\": \"AdamW\", \"params\": {\"lr\": 1e-4}}"});
  }
  const OptimizerMaker& maker = optimizer_maker(*section.type);
  Arguments arguments("optimizer", *section.type, section.params);
  const UpdateSettings settings = maker.make(arguments, maker.type);
  arguments.finish();
  return settings;
}

std::string_view config_name(std::string_view type) { return optimizer_maker(type).name; }

double lr_of(const UpdateSettings& settings) {
  return std::visit([](const auto& s) { return s.lr; }, settings);
}

void set_lr(UpdateSettings& settings, double lr) {
  std::visit([lr](auto& s) { s.lr = lr; }, settings);
}

}  // namespace weft::optim
