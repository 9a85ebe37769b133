#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "weft/base/text.h"
#include "weft/config/coerce.h"
#include "weft/config/lower.h"
#include "weft/config/reading_impl.h"

namespace weft::config {
namespace {

class Walker {
 public:
  explicit Walker(Reading& reading) : reading_(reading) {}

  std::vector<AutoSetting> walk() {
    walk_section(*find_section(""), reading_.document.root);
    return std::move(autos_);
  }

 private:
  void walk_section(const Section& section, const Value& object) {
    for (const Member& member : object.members) {
      const std::string path = path_in(section.path, member.key);
      if (const Section* inner = find_section(path)) {
        enter(section, *inner, member);
      } else if (const Setting* setting = find_setting(path)) {
        read_setting(*setting, path, member);
      } else if (!section.open) {
        report_unknown(reading_, section, member);
      }
    }
    if (section.standing != Standing::kHonoured) say_standing(section, object);
  }

  // One word for a whole section that weft does not act on, at its key.
  void say_standing(const Section& section, const Value& object) {
    const Member* member = find_member_path(reading_.document.root, section.path);
    const bool said_above = section.path.find('.') != std::string_view::npos &&
                            find_section(section.path.substr(0, section.path.find('.')))->standing == section.standing;
    if (member == nullptr || said_above || !asks_for_something(section, object)) return;
    report_standing(reading_, section.path, *member, section.standing,
                    {std::string(section.why), std::string(section.why_zh)});
  }

  // By its switch, where it has one that is off by default; else by what is not the default.
  bool asks_for_something(const Section& section, const Value& object) const {
    if (section.path == "tensor_parallel") return tensor_parallel_is_on();
    if (const Setting* device = find_setting(cat(section.path, ".device")))
      return reading_.value(device->path).text != "none";
    const Setting* enabled = find_setting(cat(section.path, ".enabled"));
    if (enabled != nullptr && (enabled->default_json == "false" || section.standing == Standing::kRefused))
      return reading_.value(enabled->path).boolean;
    // What is refused may be switched on by being there.
    if (section.standing == Standing::kRefused) return !object.members.empty();
    return std::ranges::any_of(object.members, [&](const Member& member) {
      const std::string path = path_in(section.path, member.key);
      if (const Setting* setting = find_setting(path)) return !reading_.is_default(setting->path);
      const Section* inner = find_section(path);
      return inner != nullptr ? asks_for_something(*inner, member.value) : section.open;
    });
  }

  static bool is_true(const Value& value) {
    return (value.kind == Kind::kBool && value.boolean) || (value.kind == Kind::kInt && value.integer != 0);
  }

  bool tensor_parallel_is_on() const {
    return reading_.value("tensor_parallel.autotp_size").integer > 1 ||
           reading_.value("tensor_parallel.tp.tp_size").integer > 1;
  }

  void enter(const Section& outer, const Section& inner, const Member& member) {
    if (inner.since > reading_.version) return report_too_new(inner.path, inner.since, outer, member);
    if (!first_name(&inner, inner.path, member)) return;
    if (member.value.is_object()) return walk_section(inner, member.value);
    if (member.value.kind == Kind::kNull && inner.nullable) return;
    if (member.value.is_auto() && (is_strict(outer) || inner.drops_auto)) return;
    if (inner.path == "zero_optimization" && member.value.kind == Kind::kBool) return legacy_zero(member);
    Problem& problem = report(
        reading_, "types/not-an-object", inner.path, member.value.span,
        {cat(inner.path, " must be an object, not ", kind_name(member.value.kind)), cat(inner.path, " 必须是一个对象")},
        {cat("write \"", member.key, "\": { … }; its keys are in docs/settings.md"),
         cat("写成 \"", member.key, "\": { … }，可用的键见 docs/settings.md")});
    problem.deepspeed_refuses = inner.path != "timers";  // it only looks whether a word is in there
  }

  bool is_strict(const Section& section) const { return refuses_unknown(reading_, section); }

  // "zero_optimization": true, from before there were stages.
  void legacy_zero(const Member& member) {
    const bool on = member.value.boolean;
    set_value(reading_, "zero_optimization.stage", int_value(on ? 1 : 0), {Origin::Kind::kFile, member.value.span, {}});
    Problem& problem = report(reading_, "keys/deprecated", "zero_optimization", member.value.span,
                              {cat("zero_optimization as a switch is the oldest form; it means stage ", on ? 1 : 0),
                               cat("zero_optimization 写成开关是最早的形式，含义是 stage ", on ? 1 : 0)},
                              {"write the stage", "写明 stage"});
    problem.suggested = on ? "{\"stage\": 1}" : "{\"stage\": 0}";
    problem.edits = {{Edit::Kind::kSet, "zero_optimization", "", problem.suggested}};
    if (const Value* size = reading_.document.root.find("allgather_size");
        on && size != nullptr && size->kind == Kind::kInt) {
      set_value(reading_, "zero_optimization.allgather_bucket_size", *size, {Origin::Kind::kFile, size->span, {}});
    }
  }

  void report_too_new(std::string_view path, Version since, const Section& section, const Member& member) {
    Problem& problem =
        report(reading_, "keys/too-new", path, member.key_span,
               {cat("DeepSpeed ", format_version(reading_.version), " does not know ", path, "; it came with ",
                    format_version(since)),
                cat("DeepSpeed ", format_version(reading_.version), " 还没有 ", path, "，它从 ", format_version(since),
                    " 才有")},
               {"remove it, or read the file as a newer DeepSpeed (--as)", "删除它，或用 --as 指定更新的版本"});
    if (is_strict(section)) problem.severity = Severity::kError;
    problem.deepspeed_refuses = is_strict(section);
  }

  void read_setting(const Setting& setting, const std::string& path, const Member& member) {
    if (setting.since > reading_.version) return report_too_new(path, setting.since, *setting.section, member);
    if (setting.removed != Version{} && setting.removed <= reading_.version) return report_removed(setting, member);
    if (!first_name(&setting, setting.path, member)) return;
    if (!setting.deprecated.empty()) report_deprecated(setting, member);
    if (setting.path == "bfloat16" && member.value.is_object()) return read_bfloat16(member.value);
    // Where nothing but null is taken, "auto" is one more wrong value.
    const bool may_be_auto = setting.type != Type::kAny && setting.type != Type::kNull;
    if (member.value.is_auto() && !setting.has_auto() && may_be_auto) {
      autos_.push_back({&setting, member.value.span});
      return;
    }
    take_value(setting, path, member);
  }

  // The old name of a whole section counts only where the new one is absent.
  void read_bfloat16(const Value& object) {
    if (reading_.document.root.find("bf16") == nullptr) walk_section(*find_section("bf16"), object);
  }

  // False, and a problem, for the second of two names of one setting or section; `what` is its row of the table.
  bool first_name(const void* what, std::string_view path, const Member& member) {
    const auto [seen, is_first] = seen_.emplace(what, &member);
    if (is_first) return true;
    Problem& problem = report(
        reading_, "keys/both-names", path, member.key_span,
        {cat(seen->second->key, " and ", member.key, " are two names of the same; DeepSpeed refuses both together"),
         cat(seen->second->key, " 和 ", member.key, " 是同一项的两个名字；DeepSpeed 不允许同时出现")},
        {cat("keep one; remove ", member.key), cat("保留一个，删除 ", member.key)});
    problem.edits = {{Edit::Kind::kRemove, cat(parent_of(path), member.key)}};
    problem.deepspeed_refuses = true;
    return false;
  }

  void report_removed(const Setting& setting, const Member& member) {
    const bool silently = !setting.renamed.empty() && setting.type != Type::kObject;
    Words message = {cat(setting.path, " was removed in DeepSpeed ", format_version(setting.removed),
                         silently ? "; it is ignored without a word" : "; its mere presence is an error"),
                     cat("DeepSpeed ", format_version(setting.removed), " 已移除 ", setting.path,
                         silently ? "，写了也会被悄悄忽略" : "，只要出现就会报错")};
    Words fix = {"remove it", "删除它"};
    if (!setting.renamed.empty()) fix = {cat("it is ", setting.renamed, " now"), cat("现在的名字是 ", setting.renamed)};
    Problem& problem =
        report(reading_, silently ? "keys/renamed" : "keys/removed", setting.path, member.key_span, message, fix);
    problem.deepspeed_refuses = !silently;
    problem.current = reading_.quoted(member.value.span);
    const bool can_move = silently && find_path(reading_.document.root, setting.renamed) == nullptr;
    if (can_move) {
      problem.edits = {{Edit::Kind::kMove, std::string(setting.path), std::string(setting.renamed)}};
    } else {
      problem.edits = {{Edit::Kind::kRemove, std::string(setting.path)}};
    }
  }

  // The replacement stands there too, under one of its names.
  bool has_replacement(const Setting& setting) const {
    const Setting* replacement = find_setting(setting.deprecated);
    if (replacement == nullptr) return find_member_path(reading_.document.root, setting.deprecated) != nullptr;
    const Value* object = find_path(reading_.document.root, replacement->section->path);
    if (replacement->section->path.empty()) object = &reading_.document.root;
    if (object == nullptr) return false;
    return object->find(replacement->key) != nullptr ||
           std::any_of(replacement->aliases.begin(), replacement->aliases.end(),
                       [&](std::string_view alias) { return object->find(alias) != nullptr; });
  }

  void report_deprecated(const Setting& setting, const Member& member) {
    const bool both = has_replacement(setting) && !setting.dead;
    const bool refused = both && is_strict(*setting.section);
    Words message = {cat(setting.path, " is an old name; write ", setting.deprecated),
                     cat(setting.path, " 是旧写法，请改用 ", setting.deprecated)};
    if (refused) {
      message = {
          cat(setting.path, " and its replacement ", setting.deprecated, " stand together; DeepSpeed refuses that"),
          cat(setting.path, " 和替代它的 ", setting.deprecated, " 同时出现，DeepSpeed 会拒绝")};
    }
    Problem& problem = report(reading_, refused ? "keys/both-names" : "keys/deprecated", setting.path, member.key_span,
                              message, {cat("use ", setting.deprecated), cat("改用 ", setting.deprecated)});
    problem.deepspeed_refuses = refused;
    problem.edits = deprecated_edits(setting, member, both);
  }

  static std::vector<Edit> deprecated_edits(const Setting& setting, const Member& member, bool both) {
    const std::string path(setting.path), to(setting.deprecated);
    const Setting* replacement = find_setting(to);
    const bool same_type = replacement != nullptr && replacement->type == setting.type;
    if (both || setting.dead) return {{Edit::Kind::kRemove, path}};
    if (same_type || setting.type == Type::kObject) return {{Edit::Kind::kMove, path, to}};
    std::vector<Edit> edits = {{Edit::Kind::kRemove, path}};
    if (member.value.kind == Kind::kBool && member.value.boolean)
      edits.push_back({Edit::Kind::kSet, to, "", "{\"device\": \"cpu\"}"});
    return edits;
  }

  void take_value(const Setting& setting, const std::string& path, const Member& member) {
    auto value = coerce(setting, member.value);
    if (value && fails_own_check(setting, member.value)) value.reset();
    if (!value) return report_type(reading_, setting, path, member);
    const bool in_range = !value->is_number() || setting.range.holds(value->number());
    if (!in_range) return report_range(reading_, setting, path, member);
    if (setting.standing != setting.section->standing) say_standing(setting, member, *value);
    set_value(reading_, setting.path, std::move(*value), {Origin::Kind::kFile, member.value.span, {}});
  }

  // Of a setting whose section does not say it for all of its keys.
  void say_standing(const Setting& setting, const Member& member, const Value& value) {
    if (setting.standing == Standing::kHonoured || !asks_for_something(setting, value)) return;
    report_standing(reading_, setting.path, member, setting.standing,
                    {std::string(setting.why), std::string(setting.why_zh)});
  }

  bool asks_for_something(const Setting& setting, const Value& value) const {
    if (value.is_object()) {
      const Value* enabled = value.find("enabled");
      return enabled != nullptr ? is_true(*enabled) : !value.members.empty();
    }
    const bool is_one = value.kind == Kind::kInt && value.integer == 1;  // a size of 1: nothing is split
    if (is_one && setting.standing == Standing::kRefused) return false;
    const Value& usual = reading_.defaults[index_of(setting)];
    if (usual.kind == Kind::kNull && value.kind == Kind::kBool) return value.boolean;
    return to_json(value) != to_json(usual);
  }

  Reading& reading_;
  std::unordered_map<const void*, const Member*> seen_;  // by row of the table
  std::vector<AutoSetting> autos_;
};

}  // namespace

std::vector<AutoSetting> read_members(Reading& reading) { return Walker(reading).walk(); }

}  // namespace weft::config
