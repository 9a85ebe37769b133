#include "weft/optim/core/schedule_settings.h"

#include "weft/base/text.h"
#include "weft/optim/core/arguments_impl.h"

namespace weft::optim {
namespace {

int64_t positive(Arguments& arguments, std::string_view name, int64_t fallback) {
  const int64_t value = arguments.integer(name, fallback);
  if (value <= 0) arguments.problem(cat(name, " is ", value, ", expected a positive integer"));
  return value;
}

// DeepSpeed warns of another word and goes on with log; here it is refused, as any other value nobody reads.
Warmup read_warmup(Arguments& arguments) {
  Warmup warmup = {.num_steps = positive(arguments, "warmup_num_steps", 1000)};
  const std::string shape = arguments.text("warmup_type", "log");
  if (shape != "log" && shape != "linear") {
    arguments.problem(cat("warmup_type is '", shape, "', expected log or linear"));
  }
  warmup.shape = shape == "linear" ? Warmup::Shape::kLinear : Warmup::Shape::kLog;
  return warmup;
}

Schedule warmup_lr(Arguments& arguments, size_t num_groups) {
  WarmupLr s = {.min_lr = arguments.per_group("warmup_min_lr", 0, num_groups)};
  if (arguments.has("warmup_max_lr")) s.max_lr = arguments.per_group("warmup_max_lr", 0, num_groups);
  s.warmup = read_warmup(arguments);
  s.last_batch_iteration = arguments.integer("last_batch_iteration", -1);
  return s;
}

Schedule warmup_decay_lr(Arguments& arguments, size_t num_groups) {
  arguments.require("total_num_steps");
  return WarmupDecayLr{.total_num_steps = arguments.integer("total_num_steps", 0),
                       .min_lr = arguments.per_group("warmup_min_lr", 0, num_groups),
                       .max_lr = arguments.per_group("warmup_max_lr", 0.001, num_groups),
                       .warmup = read_warmup(arguments),
                       .last_batch_iteration = arguments.integer("last_batch_iteration", -1)};
}

Schedule warmup_cosine_lr(Arguments& arguments, size_t) {
  arguments.require("total_num_steps");
  return WarmupCosineLr{.total_num_steps = arguments.integer("total_num_steps", 0),
                        .warmup_min_ratio = arguments.number("warmup_min_ratio", 0),
                        .cos_min_ratio = arguments.number("cos_min_ratio", 0.0001),
                        .warmup = read_warmup(arguments),
                        .last_batch_iteration = arguments.integer("last_batch_iteration", -1)};
}

void check_cycle(Arguments& arguments, const OneCycle& s) {
  if (s.first_step_size <= 0) {
    arguments.problem(cat("cycle_first_step_size is ", s.first_step_size, ", expected more than 0"));
  }
  if (s.second_step_size && *s.second_step_size < 0) {
    arguments.problem(cat("cycle_second_step_size is ", *s.second_step_size, ", expected 0 or more"));
  }
}

Schedule one_cycle(Arguments& arguments, size_t num_groups) {
  arguments.require("cycle_min_lr");
  arguments.require("cycle_max_lr");
  OneCycle s = {.min_lr = arguments.per_group("cycle_min_lr", 0, num_groups),
                .max_lr = arguments.per_group("cycle_max_lr", 0, num_groups),
                .decay_lr_rate = arguments.number("decay_lr_rate", 0),
                .first_step_size = arguments.number("cycle_first_step_size", 2000),
                .first_stair_count = arguments.integer("cycle_first_stair_count", 0),
                .decay_step_size = arguments.number("decay_step_size", 0),
                .cycle_momentum = arguments.flag("cycle_momentum", true),
                .min_mom = arguments.per_group("cycle_min_mom", 0.8, num_groups),
                .max_mom = arguments.per_group("cycle_max_mom", 0.9, num_groups),
                .decay_mom_rate = arguments.number("decay_mom_rate", 0),
                .last_batch_iteration = arguments.integer("last_batch_iteration", -1)};
  if (arguments.has("cycle_second_step_size")) s.second_step_size = arguments.number("cycle_second_step_size", 0);
  if (arguments.has("cycle_second_stair_count"))
    s.second_stair_count = arguments.integer("cycle_second_stair_count", 0);
  check_cycle(arguments, s);
  return s;
}

Schedule lr_range_test(Arguments& arguments, size_t num_groups) {
  return LrRangeTest{.min_lr = arguments.per_group("lr_range_test_min_lr", 1e-3, num_groups),
                     .step_size = positive(arguments, "lr_range_test_step_size", 2000),
                     .step_rate = arguments.number("lr_range_test_step_rate", 1),
                     .staircase = arguments.flag("lr_range_test_staircase", false),
                     .last_batch_iteration = arguments.integer("last_batch_iteration", -1)};
}

Schedule constant_lr(Arguments& arguments, size_t) {
  return ConstantLr{.factor = arguments.number("factor", 1.0 / 3), .total_iters = arguments.integer("total_iters", 5)};
}

Schedule linear_lr(Arguments& arguments, size_t) {
  return LinearLr{.start_factor = arguments.number("start_factor", 1.0 / 3),
                  .end_factor = arguments.number("end_factor", 1),
                  .total_iters = positive(arguments, "total_iters", 5)};
}

Schedule cosine_annealing_lr(Arguments& arguments, size_t) {
  arguments.require("T_max");
  return CosineAnnealingLr{.t_max = positive(arguments, "T_max", 1), .eta_min = arguments.number("eta_min", 0)};
}

struct ScheduleMaker {
  std::string_view type;
  Schedule (*make)(Arguments&, size_t num_groups);
};

constexpr ScheduleMaker kSchedules[] = {
    {"WarmupLR", warmup_lr},
    {"WarmupDecayLR", warmup_decay_lr},
    {"WarmupCosineLR", warmup_cosine_lr},
    {"OneCycle", one_cycle},
    {"LRRangeTest", lr_range_test},
    {"ConstantLR", constant_lr},
    {"LinearLR", linear_lr},
    {"CosineAnnealingLR", cosine_annealing_lr},
};

const ScheduleMaker& schedule_maker(std::string_view type) {
  std::vector<std::string> known;
  for (const ScheduleMaker& maker : kSchedules) {
    if (maker.type == type) return maker;
    known.emplace_back(maker.type);
  }
  refuse_type("scheduler", type, std::move(known));
}

}  // namespace

Schedule read_schedule(const config::Scheduler& section, size_t num_groups) {
  if (!section.type) return FixedLr{};
  const ScheduleMaker& maker = schedule_maker(*section.type);
  Arguments arguments("scheduler", *section.type, section.params);
  Schedule schedule = maker.make(arguments, num_groups);
  arguments.finish();
  return schedule;
}

}  // namespace weft::optim
