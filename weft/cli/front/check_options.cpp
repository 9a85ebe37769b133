#include "weft/cli/front/check_options.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "weft/base/text.h"
#include "weft/base/units.h"
#include "weft/cli/front/flags.h"
#include "weft/monitor/terminal.h"

namespace weft::cli {
namespace {

constexpr int64_t kMaxWorld = 1 << 20;
constexpr int64_t kMaxSteps = int64_t{1} << 40;

// The flags as they were typed, before they mean anything together.
struct TypedCheck {
  std::optional<int64_t> world, hidden_size, micro_batch, grad_accum, warmup_steps, total_steps;
  std::optional<double> lr, weight_decay, max_grad_norm;
  std::string gpu_mem, params, link, precision, version, language, fail_on = "warning", config;
  bool use_environment = true;
};

void add_model_flags(CLI::App& app, TypedCheck& t) {
  app.option_defaults()->group("The job (what \"auto\" and the batch arithmetic need)");
  add_int(app, "--world", t.world, 1, kMaxWorld, "ranks in all; without it WORLD_SIZE");
  add_int(app, "--micro-batch", t.micro_batch, 1, kMaxSteps, "per_device_train_batch_size of the trainer");
  add_int(app, "--grad-accum", t.grad_accum, 1, kMaxSteps, "gradient_accumulation_steps of the trainer");
  app.add_option("--lr", t.lr, "learning_rate of the trainer")->check(CLI::Range(0.0, 1e3))->type_name("X");
  app.add_option("--weight-decay", t.weight_decay, "weight_decay of the trainer")
      ->check(CLI::Range(0.0, 1e3))
      ->type_name("X");
  app.add_option("--max-grad-norm", t.max_grad_norm, "max_grad_norm of the trainer")
      ->check(CLI::Range(0.0, 1e9))
      ->type_name("X");
  add_int(app, "--warmup-steps", t.warmup_steps, 0, kMaxSteps, "warmup_steps of the trainer");
  add_int(app, "--total-steps", t.total_steps, 1, kMaxSteps, "max_steps of the trainer");
  add_choice(app, "--precision", t.precision, {"bf16", "fp16", "fp32"}, "precision the trainer asks for");
  add_int(app, "--hidden-size", t.hidden_size, 1, kMaxSteps, "hidden size of the model");
  app.add_option("--params", t.params, "parameters of the model: 7B, 1.3B")->type_name("COUNT");
}

void add_machine_flags(CLI::App& app, TypedCheck& t) {
  app.option_defaults()->group("The machine");
  app.add_option("--gpu-mem", t.gpu_mem, "memory of one GPU: 24G")->type_name("BYTES");
  add_choice(app, "--link", t.link, {"nvlink", "pcie4", "pcie3", "100gbit", "25gbit", "10gbit", "1gbit"},
             "slowest link between the GPUs");
  app.add_flag("--env,!--no-env", t.use_environment,
               "judge this shell's variables too (NCCL_*, CUDA_*,\nTORCH_*, ...) and take WORLD_SIZE (default: on)");
}

void add_report_flags(CLI::App& app, TypedCheck& t, CheckOptions& o) {
  app.option_defaults()->group("The report");
  app.add_option("--as", t.version, "read the file as this DeepSpeed does: 0.18, deepspeed-0.17.2")
      ->type_name("VERSION");
  add_choice(app, "--lang", t.language, {"en", "zh"}, "language (default: by LC_ALL, LC_MESSAGES, LANG)");
  auto* json = app.add_flag("--json", o.json, "print JSON");
  app.add_flag("--sarif", o.sarif, "print SARIF 2.1.0, for code scanning")->excludes(json);
  add_choice(app, "--fail-on", t.fail_on, {"error", "warning", "advice", "never"}, "least severity for exit code 1")
      ->capture_default_str();
}

void add_action_flags(CLI::App& app, TypedCheck& t, CheckOptions& o) {
  app.option_defaults()->group("Instead of a report");
  app.add_option("--fix", o.fix_path, "repair what needs no decision and write the result there")->type_name("OUT");
  app.add_option("--explain", o.explain_key, "a setting's value, origin, type, default and meaning")->type_name("KEY");
  app.add_flag("--list-rules", o.list_rules, "every rule that is applied");
  app.add_flag("--markdown", o.markdown, "with --list-rules: the page docs/rules.md");
  add_choice(app, "--preset", o.preset, {"standard", "high-performance"},
             "print a ready config for this job and machine");
  app.add_option("-o,--out", o.out_path, "with --preset: write it to this file")->type_name("FILE");
  app.add_flag("--force", o.force, "with -o: replace the file");
  add_choice(app, "--symptom", o.symptom, {"oom", "comm-error", "diverges", "slow"}, "what to try, in order");
  app.add_option("--config", t.config, "with --symptom: the config in use")->type_name("FILE");
}

std::string_view text_of(const char* value) { return value == nullptr ? "" : value; }

// torchrun, the launchers and Slurm scripts set it.
std::optional<int64_t> world_of_environment() {
  const std::string_view text = text_of(std::getenv("WORLD_SIZE"));
  if (text.empty()) return std::nullopt;
  int64_t world = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), world);
  if (error != std::errc() || end != text.data() + text.size() || world < 1 || world > kMaxWorld) {
    refuse("WORLD_SIZE is not a number of ranks", cat("WORLD_SIZE is '", text, "'; it takes 1 to ", kMaxWorld),
           "unset WORLD_SIZE, say --world N, or --no-env");
  }
  return world;
}

bool is_judged(std::string_view name) {
  constexpr std::string_view kPrefixes[] = {"DS_", "DEEPSPEED_", "NCCL_", "CUDA_", "TORCH_", "PYTORCH_"};
  if (name == "OMP_NUM_THREADS" || name == "WORLD_SIZE") return true;
  return std::ranges::any_of(kPrefixes, [&](std::string_view prefix) { return name.starts_with(prefix); });
}

void take_environment(doctor::Machine& machine) {
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const size_t equals = std::min(text.find('='), text.size());
    const std::string_view name = text.substr(0, equals);
    if (is_judged(name) && equals < text.size()) machine.environment.emplace(name, text.substr(equals + 1));
  }
}

// --lang, else the first of the three that is set. A terminal that shows no Chinese gets English.
config::Language language_of(const std::string& flag) {
  if (!flag.empty()) return flag == "zh" ? config::Language::kChinese : config::Language::kEnglish;
  std::string_view locale = text_of(std::getenv("LC_ALL"));
  if (locale.empty()) locale = text_of(std::getenv("LC_MESSAGES"));
  if (locale.empty()) locale = text_of(std::getenv("LANG"));
  const Terminal terminal = detect_terminal(STDOUT_FILENO);
  const bool shows = terminal.unicode || !terminal.is_tty;
  return locale.starts_with("zh") && shows ? config::Language::kChinese : config::Language::kEnglish;
}

FailOn fail_on_of(std::string_view word) {
  if (word == "error") return FailOn::kError;
  if (word == "warning") return FailOn::kWarning;
  return word == "advice" ? FailOn::kAdvice : FailOn::kNever;
}

void take_facts(const TypedCheck& t, config::Facts& facts) {
  const auto whole = [&](const char* name, const std::optional<int64_t>& value, const char* flag) {
    if (value) facts.emplace(name, config::int_fact(*value, flag));
  };
  const auto real = [&](const char* name, const std::optional<double>& value, const char* flag) {
    if (value) facts.emplace(name, config::real_fact(*value, flag));
  };
  whole("world", t.world, "--world");
  whole("hidden_size", t.hidden_size, "--hidden-size");
  whole("per_device_train_batch_size", t.micro_batch, "--micro-batch");
  whole("gradient_accumulation_steps", t.grad_accum, "--grad-accum");
  whole("warmup_steps", t.warmup_steps, "--warmup-steps");
  whole("max_steps", t.total_steps, "--total-steps");
  real("learning_rate", t.lr, "--lr");
  real("weight_decay", t.weight_decay, "--weight-decay");
  real("max_grad_norm", t.max_grad_norm, "--max-grad-norm");
  if (!t.precision.empty()) {
    facts.emplace("bf16", config::bool_fact(t.precision == "bf16", "--precision"));
    facts.emplace("fp16", config::bool_fact(t.precision == "fp16", "--precision"));
  }
}

void take_machine(const TypedCheck& t, doctor::Machine& machine) {
  if (!t.gpu_mem.empty()) machine.gpu_bytes = static_cast<int64_t>(parse_bytes(t.gpu_mem).value());
  if (!t.params.empty()) machine.params = static_cast<double>(parse_count(t.params).value());
  if (!t.link.empty()) machine.link = doctor::parse_link(t.link);
}

void check_together(const CheckOptions& o, const TypedCheck& t) {
  const std::pair<bool, const char*> actions[] = {{!o.fix_path.empty(), "--fix"},
                                                  {!o.explain_key.empty(), "--explain"},
                                                  {o.list_rules, "--list-rules"},
                                                  {!o.preset.empty(), "--preset"},
                                                  {!o.symptom.empty(), "--symptom"}};
  std::vector<std::string> asked;
  for (const auto& [is_asked, name] : actions) {
    if (is_asked) asked.emplace_back(name);
  }
  if (asked.size() > 1) refuse("one thing at a time", join(asked, " and "), "run weft check once for each");
  const std::string action = asked.empty() ? "" : asked.front();
  if (o.files.empty() && (action.empty() || action == "--fix")) {
    refuse("no file to check", "", "weft check ds_config.json; --preset standard prints a config to start from");
  }
  if (o.files.size() > 1 && !action.empty())
    refuse(cat(action, " takes one file"), cat(o.files.size(), " files were given"), "run it once for each");
  if (o.sarif && !action.empty())
    refuse("--sarif is a form of the report", cat("--sarif with ", action), "leave one of them out");
  if (o.markdown && !o.list_rules)
    refuse("--markdown belongs to --list-rules", "", "weft check --list-rules --markdown");
  if ((!o.out_path.empty() || o.force) && o.preset.empty())
    refuse("-o and --force belong to --preset", "", "--fix OUT names its own file");
  if (!t.config.empty() && (o.symptom.empty() || o.files.size() > 1)) {
    refuse("--config belongs to --symptom", "", "weft check FILE, or weft check --symptom slow --config FILE");
  }
}

}  // namespace

std::optional<CheckOptions> parse_check_options(const std::vector<std::string>& arguments) {
  CheckOptions o;
  TypedCheck t;
  auto app = make_app(
      "check",
      "Find what is wrong with a DeepSpeed config: misspelt keys, wrong types, settings that do nothing, slow or\n"
      "unsafe choices. FILE is JSON, HJSON, YAML (its own, or a trainer's that names one) or base64.",
      "weft check ds_config.json --world 8 --gpu-mem 24G --params 7B --link pcie4\n"
      "  weft check ds_config.json --fix fixed.json\n"
      "  weft check ds_config.json --explain overlap_comm\n"
      "  weft check --symptom oom --config ds_config.json\n"
      "Exit codes: 0 nothing at or above --fail-on, 1 problems, 2 an unreadable file or wrong usage.");
  app->add_option("FILE", o.files, "configs to check")
      ->type_name("")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  add_model_flags(*app, t);
  add_machine_flags(*app, t);
  add_report_flags(*app, t, o);
  add_action_flags(*app, t, o);
  if (!parse_flags(*app, arguments)) return std::nullopt;
  if (!t.config.empty()) o.files.push_back(t.config);
  check_together(o, t);
  if (!t.world && t.use_environment) {
    if (const auto world = world_of_environment()) o.facts.emplace("world", config::int_fact(*world, "WORLD_SIZE"));
  }
  take_facts(t, o.facts);
  take_machine(t, o.machine);
  if (t.use_environment) take_environment(o.machine);
  if (!t.version.empty()) o.version = config::parse_version(t.version);
  o.language = language_of(t.language);
  o.fail_on = fail_on_of(t.fail_on);
  return o;
}

}  // namespace weft::cli
