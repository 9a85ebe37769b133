#include "weft/config/reading.h"

#include <algorithm>

#include "weft/base/check.h"
#include "weft/base/text.h"
#include "weft/config/coerce.h"
#include "weft/config/reading_impl.h"

namespace weft::config {
namespace {

size_t place_of(std::string_view path) {
  const Setting* setting = find_setting(path);
  WEFT_CHECK(setting != nullptr);
  return index_of(*setting);
}

Severity severity_of(std::string_view rule) {
  for (const RuleInfo& info : reading_rules()) {
    if (info.id == rule) return info.severity;
  }
  WEFT_CHECK(!"every rule a reader reports is in reading_rules()");
  return Severity::kError;
}

void fill_defaults(Reading& reading) {
  reading.defaults.clear();
  for (const Setting& setting : settings()) reading.defaults.push_back(default_value(setting, reading.version));
  reading.values = reading.defaults;
  reading.origins.assign(settings().size(), {});
}

// --as, else what the file says of itself, else the newest. A bad weft.semantics is reported and has no effect.
Version choose_version(Reading& reading, std::optional<Version> asked) {
  if (asked) return *asked;
  const Value* named = find_path(reading.document.root, "weft.semantics");
  if (named == nullptr || named->kind != Kind::kString) return kNewestDeepSpeed;
  try {
    return parse_version(named->text);
  } catch (const Error& error) {
    report(reading, "types/version", "weft.semantics", named->span, {error.text().title, error.text().title},
           {error.text().fix, error.text().fix});
    return kNewestDeepSpeed;
  }
}

void sort_by_place(std::vector<Problem>& problems) {
  std::stable_sort(problems.begin(), problems.end(), [](const Problem& a, const Problem& b) {
    const auto key = [](const Problem& problem) { return std::pair(problem.span.end == 0, problem.span.begin); };
    return key(a) < key(b);
  });
}

std::string line_of(const Reading& reading, const Problem& problem) {
  std::string line =
      cat(problem.span.end == 0 ? reading.document.source->name() : reading.document.source->where(problem.span), ": ",
          problem.message.en);
  if (!problem.fix.empty()) line += cat("; ", problem.fix.en);
  return line;
}

// Whatever is wrong there does not stop DeepSpeed.
void forget_refusals_of_ours(Reading& reading) {
  for (Problem& problem : reading.problems) problem.deepspeed_refuses &= !is_ours(problem.path);
}

}  // namespace

Problem& report(Reading& reading, std::string_view rule, std::string_view path, Span span, Words message, Words fix) {
  Problem problem;
  problem.severity = severity_of(rule);
  problem.rule = rule;
  problem.path = path;
  problem.span = span;
  problem.message = std::move(message);
  problem.fix = std::move(fix);
  reading.problems.push_back(std::move(problem));
  return reading.problems.back();
}

bool has_error_at(const Reading& reading, std::string_view path) {
  return std::ranges::any_of(reading.problems, [&](const Problem& problem) {
    return problem.path == path && problem.severity == Severity::kError;
  });
}

void set_value(Reading& reading, std::string_view path, Value value, Origin origin) {
  const size_t i = place_of(path);
  reading.values[i] = std::move(value);
  reading.origins[i] = std::move(origin);
}

std::string path_in(std::string_view section, std::string_view key) {
  return section.empty() ? std::string(key) : cat(section, ".", key);
}

void derive_values(Reading& reading) {
  const auto derive = [&](std::string_view path, Value value, Words note) {
    set_value(reading, path, std::move(value), {Origin::Kind::kDerived, {}, std::move(note)});
  };
  for (const auto& [old_switch, target] :
       {std::pair("zero_optimization.cpu_offload", "zero_optimization.offload_optimizer.device"),
        std::pair("zero_optimization.cpu_offload_param", "zero_optimization.offload_param.device")}) {
    if (reading.value(old_switch).boolean && !reading.given(target)) {
      derive(target, text_value("cpu"), {cat(old_switch, ": true"), cat(old_switch, ": true")});
    }
  }
  const std::string_view old_save = "zero_optimization.stage3_gather_fp16_weights_on_model_save";
  const std::string_view new_save = "zero_optimization.stage3_gather_16bit_weights_on_model_save";
  if (reading.given(old_save) && !reading.given(new_save)) {
    derive(new_save, reading.value(old_save), {std::string(old_save), std::string(old_save)});
  }
  if (reading.value("zero_optimization.overlap_comm").kind == Kind::kNull) {
    const bool stage3 = reading.value("zero_optimization.stage").integer == 3;
    derive("zero_optimization.overlap_comm", bool_value(stage3),
           {"on in stage 3, off in others", "stage 3 默认开启，其余关闭"});
  }
  if (reading.value("flops_profiler.enabled").boolean && !reading.value("wall_clock_breakdown").boolean) {
    derive("wall_clock_breakdown", bool_value(true),
           {"switched on by flops_profiler.enabled", "由 flops_profiler.enabled 开启"});
  }
}

const Value& Reading::value(std::string_view path) const { return values[place_of(path)]; }
const Origin& Reading::origin(std::string_view path) const { return origins[place_of(path)]; }

bool Reading::is_default(std::string_view path) const {
  const size_t i = place_of(path);
  return to_json(values[i]) == to_json(defaults[i]);
}

Span Reading::span_of(std::string_view path) const {
  if (const Setting* setting = find_setting(path)) return origins[index_of(*setting)].span;
  const Member* member = find_member_path(document.root, path);
  return member != nullptr ? member->value.span : Span{};
}

bool Reading::hides(std::string_view path) const {
  const Setting* const setting = find_setting(path);
  if (setting == nullptr || value(path).kind == Kind::kNull) return false;
  return setting->secret || (given(path) && overlaps(secrets, span_of(path)));
}

std::string Reading::quoted(Span span) const {
  return overlaps(secrets, span) ? std::string(kNotShown) : document.source->brief(span);
}

std::string Reading::shown(std::string_view path) const {
  if (hides(path)) return std::string(kNotShown);
  const Span span = span_of(path);
  if (span.end != 0) return quoted(span);
  return find_setting(path) != nullptr ? to_json(value(path)) : "";
}

bool Reading::has_errors() const {
  return std::any_of(problems.begin(), problems.end(),
                     [](const Problem& problem) { return problem.severity == Severity::kError; });
}

std::string describe_origin(const Reading& reading, std::string_view path, Language language) {
  const bool zh = language == Language::kChinese;
  const Origin& origin = reading.origin(path);
  const Setting& setting = *find_setting(path);
  switch (origin.kind) {
    case Origin::Kind::kFile: return reading.document.source->where(origin.span);
    case Origin::Kind::kAuto:
      return cat(reading.document.source->where(origin.span), zh ? "：\"auto\"，" : ": \"auto\", ",
                 origin.note.in(language));
    case Origin::Kind::kDefault: {
      const bool changed = setting.default_in(reading.version) != setting.default_json;
      std::string words = zh ? "默认值" : "default";
      if (changed)
        words += cat(zh ? "（DeepSpeed " : " of DeepSpeed ", format_version(reading.version), zh ? "）" : "");
      return origin.note.empty() ? words : cat(words, ": ", origin.note.in(language));
    }
    default: return cat(zh ? "推导：" : "derived: ", origin.note.in(language));
  }
}

std::vector<std::string> describe_settings(const Reading& reading) {
  std::vector<std::string> out;
  for (const Setting& setting : settings()) {
    if (!setting.exists_in(reading.version)) continue;
    if (setting.standing != Standing::kHonoured && !reading.given(setting.path)) continue;
    const std::string value =
        reading.hides(setting.path) ? std::string(kNotShown) : to_json(reading.value(setting.path));
    out.push_back(
        cat(setting.path, " = ", value, " (", describe_origin(reading, setting.path, Language::kEnglish), ")"));
  }
  return out;
}

std::vector<IdleSetting> describe_idle(const Reading& reading) {
  std::vector<IdleSetting> out;
  for (const Problem& problem : reading.problems) {
    const bool is_planned = problem.rule == "keys/not-yet";
    if (!is_planned && problem.rule != "keys/out-of-scope") continue;
    out.push_back({cat(reading.document.source->where(problem.span), ": ", problem.message.en), is_planned});
  }
  return out;
}

Reading read_config(Document document, Facts facts, std::optional<Version> version) {
  Reading reading;
  reading.document = std::move(document);
  reading.secrets = find_secrets(reading.document);
  facts.merge(facts_of_training(reading.document));
  reading.version = choose_version(reading, version);
  fill_defaults(reading);
  const auto autos = read_members(reading);
  resolve_auto(reading, autos, facts);
  derive_values(reading);
  resolve_batch(reading, facts);
  check_arguments(reading);
  check_facts(reading, facts);
  reading.resolved = make_resolved(reading.values);
  check_conflicts(reading);
  forget_refusals_of_ours(reading);
  sort_by_place(reading.problems);
  return reading;
}

void require_usable(const Reading& reading) {
  std::string all;
  int count = 0;
  for (const Problem& problem : reading.problems) {
    if (problem.severity != Severity::kError) continue;
    all += cat(all.empty() ? "" : "\n       ", line_of(reading, problem));
    ++count;
  }
  if (count == 0) return;
  throw Error(ErrorKind::kInput, {.title = cat("the config has ", count, count == 1 ? " error" : " errors"),
                                  .what = all,
                                  .where = reading.document.source->name(),
                                  .fix = cat("weft check ", reading.document.source->name(),
                                             " shows each at its line; --fix repairs many")});
}

}  // namespace weft::config
