// optimizer.params and scheduler.params: what the constructors would say, before they are called.
#include <algorithm>
#include <utility>

#include "weft/base/text.h"
#include "weft/config/offered.h"
#include "weft/config/optimizer_names.h"
#include "weft/config/reading_impl.h"

namespace weft::config {
namespace {

std::vector<std::string> names_of(const ArgumentSet& set) {
  std::vector<std::string> names;
  for (const Argument& argument : set.arguments) names.emplace_back(argument.name);
  return names;
}

bool takes(const ArgumentSet& set, std::string_view name) {
  return std::any_of(set.arguments.begin(), set.arguments.end(),
                     [&](const Argument& argument) { return argument.name == name; });
}

// An argument that belongs elsewhere whatever the type is. False when it is none.
bool report_stray_argument(Reading& reading, std::string_view of, const Member& member) {
  const std::string path = cat(of, ".params.", member.key);
  for (const StrayKey& stray : stray_keys()) {
    if (stray.key != member.key || stray.in != cat(of, ".params")) continue;
    Problem& problem =
        report(reading, "arguments/unknown", path, member.key_span, {std::string(stray.en), std::string(stray.zh)},
               {cat("use ", stray.to), cat("改用 ", stray.to)});
    const bool taken = find_member_path(reading.document.root, stray.to) != nullptr;
    problem.edits = {taken ? Edit{Edit::Kind::kRemove, path} : Edit{Edit::Kind::kMove, path, std::string(stray.to)}};
    problem.deepspeed_refuses = true;
    return true;
  }
  return false;
}

void report_argument(Reading& reading, std::string_view of, const ArgumentSet& set, const Member& member) {
  const std::string path = cat(of, ".params.", member.key);
  const std::string type = reading.value(cat(of, ".type")).text;
  const std::string meant = nearest(member.key, names_of(set));
  Problem& problem = report(
      reading, "arguments/unknown", path, member.key_span,
      {cat(type, " takes no argument ", member.key, "; its constructor refuses it"),
       cat(type, " 没有参数 ", member.key, "，构造函数会报错")},
      meant.empty() ? Words{cat("it takes ", join(names_of(set), ", ")), cat("可用的参数：", join(names_of(set), ", "))}
                    : Words{cat("did you mean ", meant, "?"), cat("是不是想写 ", meant, "？")});
  problem.deepspeed_refuses = true;
  const bool taken = find_member_path(reading.document.root, cat(of, ".params.", meant)) != nullptr;
  if (!meant.empty() && !taken) problem.edits = {{Edit::Kind::kRename, path, meant}};
}

// torch's schedules count from an epoch of their own; weft's go by the updates made.
bool report_last_epoch(Reading& reading, std::string_view of, const Member& member) {
  if (of != "scheduler" || member.key != "last_epoch") return false;
  report(reading, "arguments/not-offered", cat(of, ".params.", member.key), member.key_span,
         {"last_epoch: weft's schedules go by the updates made, which a checkpoint brings along",
          "last_epoch：weft 的调度按已完成的更新数计算，检查点会带上它"},
         {"leave it out", "删除它"});
  return true;
}

void check_required(Reading& reading, std::string_view of, const ArgumentSet& set, const Value& params) {
  for (const Argument& argument : set.arguments) {
    const Value* const given = params.is_object() ? params.find(argument.name) : nullptr;
    if (!argument.required || (given != nullptr && given->kind != Kind::kNull)) continue;
    const std::string type = reading.value(cat(of, ".type")).text;
    report(reading, "arguments/missing", cat(of, ".params.", argument.name), reading.span_of(cat(of, ".type")),
           {cat(type, " needs ", argument.name), cat(type, " 必须给出 ", argument.name)},
           {cat("add it to ", of, ".params"), cat("写进 ", of, ".params")})
        .deepspeed_refuses = true;
  }
}

void check_one(Reading& reading, std::string_view of) {
  const Value& type = reading.value(cat(of, ".type"));
  if (type.kind != Kind::kString) return;
  const ArgumentSet* set = find_arguments(of, of == "optimizer" ? optimizer_kind(type.text) : type.text);
  const Value params = reading.value(cat(of, ".params"));
  if (set != nullptr) check_required(reading, of, *set, params);
  for (const Member& member : params.members) {
    if (set != nullptr && takes(*set, member.key)) continue;
    if (report_last_epoch(reading, of, member) || report_stray_argument(reading, of, member)) continue;
    if (set != nullptr) report_argument(reading, of, *set, member);
  }
}

constexpr std::string_view kTorchOptimizers[] = {"Adafactor", "Muon",    "Adadelta", "Adagrad",    "Adam",
                                                 "Adamax",    "AdamW",   "ASGD",     "LBFGS",      "NAdam",
                                                 "RAdam",     "RMSprop", "Rprop",    "SparseAdam", "SGD"};
constexpr std::string_view kDeepSpeedOptimizers[] = {"adagrad", "adam",  "adamw", "lamb", "muadam",
                                                     "muadamw", "musgd", "lion",  "muon"};
constexpr std::string_view kOneBitOptimizers[] = {"onebitadam", "zerooneadam", "onebitlamb"};
constexpr std::string_view kSchedules[] = {"WarmupLR",
                                           "WarmupDecayLR",
                                           "WarmupCosineLR",
                                           "OneCycle",
                                           "LRRangeTest",
                                           "LambdaLR",
                                           "MultiplicativeLR",
                                           "StepLR",
                                           "MultiStepLR",
                                           "ConstantLR",
                                           "LinearLR",
                                           "ExponentialLR",
                                           "SequentialLR",
                                           "PolynomialLR",
                                           "CosineAnnealingLR",
                                           "ChainedScheduler",
                                           "ReduceLROnPlateau",
                                           "CyclicLR",
                                           "CosineAnnealingWarmRestarts",
                                           "OneCycleLR"};

bool is_one_of(std::span<const std::string_view> names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool knows_type(std::string_view of, const std::string& type) {
  if (of == "scheduler") return is_one_of(kSchedules, type);
  const std::string name = lower(type);
  return is_one_of(kDeepSpeedOptimizers, name) || is_one_of(kTorchOptimizers, type) ||
         is_one_of(kOneBitOptimizers, name);
}

bool has_l2_decay(Reading& reading) {
  const Value& params = reading.value("optimizer.params");
  const Value* const mode = params.is_object() ? params.find("adam_w_mode") : nullptr;
  return mode != nullptr && mode->kind == Kind::kBool && !mode->boolean;
}

// True: it is the name of a class, and was reported.
bool report_class_name(Reading& reading, const std::string& type) {
  const std::string_view of_class = type_of_class(type);
  if (of_class.empty()) return false;
  const std::string_view name = of_class == "AdamW" && has_l2_decay(reading) ? "Adam" : of_class;
  const std::string_view path = "optimizer.type";
  Problem& problem =
      report(reading, "arguments/class-name", path, reading.span_of(path),
             {cat(type, " is the class behind type ", name, ", which is what DeepSpeed takes here; weft takes both"),
              cat(type, " 是 type ", name, " 背后的类，DeepSpeed 配置里只能写 ", name, "；weft 两者都接受")},
             {cat("write ", name), cat("写成 ", name)});
  problem.current = type;
  problem.deepspeed_refuses = true;
  problem.suggested = cat('"', name, '"');
  problem.edits = {{Edit::Kind::kSet, std::string(path), "", problem.suggested}};
  return true;
}

// DeepSpeed has it, or had it; weft has not.
void check_offered(Reading& reading, std::string_view of) {
  const std::string path = cat(of, ".type");
  const Value& type = reading.value(path);
  const bool is_known = type.kind == Kind::kString && knows_type(of, type.text);
  if (!is_known || is_offered(of, type.text)) return;
  const Absence absence = absence_of(of, type.text);
  const bool schedule = of == "scheduler";
  Problem& problem =
      report(reading, "arguments/not-offered", path, reading.span_of(path),
             {cat("weft does not have the ", schedule ? "schedule " : "optimizer ", type.text, ": ", absence.why.en),
              cat("weft 没有", schedule ? "调度器 " : "优化器 ", type.text, "：", absence.why.zh)},
             absence.instead);
  problem.current = type.text;
}

std::string nearest_of(std::string_view word, std::span<const std::string_view> names) {
  return nearest(word, std::vector<std::string>(names.begin(), names.end()));
}

// What weft has comes first: a name that only DeepSpeed or torch has would be refused in its turn.
std::string meant_type(std::string_view of, std::string_view type) {
  const bool schedule = of == "scheduler";
  std::string offered = nearest_of(type, schedule ? offered_schedules() : offered_optimizers());
  if (!offered.empty()) return offered;
  return nearest_of(type, schedule ? std::span<const std::string_view>(kSchedules) : kTorchOptimizers);
}

Words advice_for(std::string_view of, const std::string& meant) {
  if (meant.empty()) return {"see docs/settings.md", "见 docs/settings.md"};
  if (is_offered(of, meant)) return {cat("write ", meant), cat("写成 ", meant)};
  const Absence absence = absence_of(of, meant);
  return {cat("if ", meant, " is meant, weft does not have it (", absence.why.en, "): ", absence.instead.en),
          cat("如果想写的是 ", meant, "，weft 没有它（", absence.why.zh, "）：", absence.instead.zh)};
}

// DeepSpeed takes the name from torch where it is not its own, and fails with an AttributeError once the engine is built.
void check_type(Reading& reading, std::string_view of) {
  const std::string path = cat(of, ".type");
  const Value& type = reading.value(path);
  if (type.kind != Kind::kString || knows_type(of, type.text)) return;
  if (of == "optimizer" && report_class_name(reading, type.text)) return;
  const bool fused = lower(type.text).find("adam") != std::string::npos && of == "optimizer";
  const std::string meant = fused ? "AdamW" : meant_type(of, type.text);
  // Unquoted, it runs to the end of its line, with what stands there.
  const std::string said(overlaps(reading.secrets, type.span) ? kNotShown : std::string_view(type.text));
  Words message = {cat("neither DeepSpeed nor torch has ", of == "scheduler" ? "a schedule " : "an optimizer ", said),
                   cat("DeepSpeed 和 torch 都没有 ", said)};
  if (fused) {
    message.en += "; type AdamW (or Adam) is already the fused kernel, on the CPU with offload";
    message.zh += "；type 写 AdamW（或 Adam）就会使用融合内核，卸载时用 CPU 版本";
  }
  Problem& problem =
      report(reading, "arguments/unknown-type", path, reading.span_of(path), message, advice_for(of, meant));
  problem.current = said;
  problem.deepspeed_refuses = true;
  if (is_offered(of, meant)) {
    problem.suggested = cat('"', meant, '"');
    problem.edits = {{Edit::Kind::kSet, path, "", problem.suggested}};
  }
}

// Arguments of nothing: DeepSpeed reads them only where there is a type.
void drop_untyped(Reading& reading, std::string_view of) {
  const std::string path = cat(of, ".params");
  const Value* type = find_path(reading.document.root, cat(of, ".type"));
  const bool typed = type != nullptr && type->kind != Kind::kNull;
  if (typed || reading.value(path).kind == Kind::kNull) return;
  report(reading, "arguments/no-type", path, reading.span_of(path),
         {cat(path, " without ", of, ".type: nothing reads them"), cat("没有 ", of, ".type，", path, " 不会被读取")},
         {cat("add ", of, ".type"), cat("加上 ", of, ".type")});
  set_value(reading, path, Value{}, {});
}

void check_removed_optimizer(Reading& reading) {
  const Value& type = reading.value("optimizer.type");
  const std::string name = type.kind == Kind::kString ? lower(type.text) : "";
  if (!is_one_of(kOneBitOptimizers, name) || reading.version < Version{0, 19, 7}) return;
  Problem& problem = report(reading, "arguments/removed-optimizer", "optimizer.type", reading.span_of("optimizer.type"),
                            {cat(type.text, " was removed in DeepSpeed 0.19.7, and weft has none"),
                             cat(type.text, " 在 DeepSpeed 0.19.7 中已移除，weft 也没有")},
                            {"use AdamW", "改用 AdamW"});
  problem.deepspeed_refuses = true;
  problem.suggested = "\"AdamW\"";
}

void check_warmup(Reading& reading) {
  const Value& params = reading.value("scheduler.params");
  const Value* steps = params.is_object() ? params.find("warmup_num_steps") : nullptr;
  if (steps == nullptr || !steps->is_number() || steps->number() > 0 || reading.version < Version{0, 19, 3}) return;
  Problem& problem = report(reading, "arguments/warmup-steps", "scheduler.params.warmup_num_steps", steps->span,
                            {"warmup_num_steps must be above 0; before DeepSpeed 0.19.3 it was quietly made 2",
                             "warmup_num_steps 必须大于 0；DeepSpeed 0.19.3 之前会悄悄改成 2"},
                            {"write 1 for no warm-up to speak of", "几乎不预热可写 1"});
  problem.current = to_json(*steps);
  problem.suggested = "1";
  problem.edits = {{Edit::Kind::kSet, "scheduler.params.warmup_num_steps", "", "1"}};
  problem.deepspeed_refuses = true;
}

}  // namespace

void check_arguments(Reading& reading) {
  for (const std::string_view of : {"optimizer", "scheduler"}) {
    drop_untyped(reading, of);
    check_type(reading, of);
    check_one(reading, of);
  }
  check_removed_optimizer(reading);
  check_warmup(reading);
  // What weft has not got, or cannot work with, last: DeepSpeed's own word about the same argument says more.
  for (const std::string_view of : {"optimizer", "scheduler"}) {
    if (!has_error_at(reading, cat(of, ".type"))) check_offered(reading, of);
    check_argument_values(reading, of);
  }
}

}  // namespace weft::config
