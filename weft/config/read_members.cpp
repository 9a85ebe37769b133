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
    if (section.standing == Standing::kRefused || section.standing == Standing::kIgnored) say_standing(section, object);
  }

  // One word for a whole section that weft does not act on, at its key.
  void say_standing(const Section& section, const Value& object) {
    const Member* member = find_member_path(reading_.document.root, section.path);
    if (member == nullptr) return;
    const Value* enabled = object.find("enabled");
    const Setting* switch_setting = find_setting(cat(section.path, ".enabled"));
    bool active = !object.members.empty();
    if (switch_setting != nullptr)
      active = enabled != nullptr ? is_true(*enabled) : switch_setting->default_json == "true";
    if (section.path == "tensor_parallel") active = tensor_parallel_is_on(object);
    report_out_of_scope(reading_, section.path, *member, active, section.standing == Standing::kRefused, section.doc);
  }

  static bool is_true(const Value& value) {
    return (value.kind == Kind::kBool && value.boolean) || (value.kind == Kind::kInt && value.integer != 0);
  }

  static bool tensor_parallel_is_on(const Value& object) {
    const Value* size = object.find("autotp_size");
    const Value* inner = find_path(object, "tp.tp_size");
    return (size != nullptr && size->is_number() && size->number() > 1) ||
           (inner != nullptr && inner->is_number() && inner->number() > 1);
  }

  void enter(const Section& outer, const Section& inner, const Member& member) {
    if (inner.since > reading_.version) return report_too_new(inner.path, inner.since, outer, member);
    if (member.value.is_object()) return walk_section(inner, member.value);
    if (member.value.kind == Kind::kNull && inner.nullable) return;
    if (member.value.is_auto() && is_strict(outer)) return;
    if (inner.path == "zero_optimization" && member.value.kind == Kind::kBool) return legacy_zero(member);
    Problem& problem = report(
        reading_, "types/not-an-object", inner.path, member.value.span,
        {cat(inner.path, " must be an object, not ", kind_name(member.value.kind)), cat(inner.path, " 必须是一个对象")},
        {cat("write \"", member.key, "\": { … }; its keys are in docs/settings.md"),
         cat("写成 \"", member.key, "\": { … }，可用的键见 docs/settings.md")});
    problem.deepspeed_refuses = true;
  }

  bool is_strict(const Section& section) const { return section.strict && section.strict_since <= reading_.version; }

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
    if (!first_name(setting, member)) return;
    if (!setting.deprecated.empty()) report_deprecated(setting, member);
    if (setting.path == "bfloat16" && member.value.is_object()) return read_bfloat16(member.value);
    if (member.value.is_auto() && setting.default_json != "\"auto\"" && setting.type != Type::kAny) {
      autos_.push_back({&setting, member.value.span});
      return;
    }
    take_value(setting, path, member);
  }

  // The old name of a whole section counts only where the new one is absent.
  void read_bfloat16(const Value& object) {
    if (reading_.document.root.find("bf16") == nullptr) walk_section(*find_section("bf16"), object);
  }

  // False, and a problem, for the second of two names of one setting.
  bool first_name(const Setting& setting, const Member& member) {
    const auto [seen, is_first] = seen_.emplace(&setting, &member);
    if (is_first) return true;
    Problem& problem = report(
        reading_, "keys/both-names", setting.path, member.key_span,
        {cat(seen->second->key, " and ", member.key, " are two names of one setting; DeepSpeed refuses both together"),
         cat(seen->second->key, " 和 ", member.key, " 是同一个设置的两个名字；DeepSpeed 不允许同时出现")},
        {cat("keep one; remove ", member.key), cat("保留一个，删除 ", member.key)});
    problem.edits = {{Edit::Kind::kRemove, path_in(setting.section->path, member.key)}};
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
    problem.current = reading_.document.source->brief(member.value.span);
    const bool can_move = silently && find_path(reading_.document.root, setting.renamed) == nullptr;
    if (can_move) {
      problem.edits = {{Edit::Kind::kMove, std::string(setting.path), std::string(setting.renamed)}};
    } else {
      problem.edits = {{Edit::Kind::kRemove, std::string(setting.path)}};
    }
  }

  void report_deprecated(const Setting& setting, const Member& member) {
    Problem& problem = report(reading_, "keys/deprecated", setting.path, member.key_span,
                              {cat(setting.path, " is an old name; write ", setting.deprecated),
                               cat(setting.path, " 是旧写法，请改用 ", setting.deprecated)},
                              {cat("use ", setting.deprecated), cat("改用 ", setting.deprecated)});
    const bool renames =
        setting.type == (find_setting(setting.deprecated) ? find_setting(setting.deprecated)->type : Type::kAny);
    if (find_member_path(reading_.document.root, setting.deprecated) != nullptr || setting.dead) {
      problem.edits = {{Edit::Kind::kRemove, std::string(setting.path)}};
    } else if (renames || setting.type == Type::kObject) {
      problem.edits = {{Edit::Kind::kMove, std::string(setting.path), std::string(setting.deprecated)}};
    } else {
      const bool on = member.value.kind == Kind::kBool && member.value.boolean;
      problem.edits = {{Edit::Kind::kRemove, std::string(setting.path)}};
      if (on) problem.edits.push_back({Edit::Kind::kSet, std::string(setting.deprecated), "", "{\"device\": \"cpu\"}"});
    }
  }

  void take_value(const Setting& setting, const std::string& path, const Member& member) {
    auto value = coerce(setting, member.value);
    if (value && setting.path.starts_with("fp16.") && is_bool_where_number(setting, member.value)) value.reset();
    if (!value) return report_type(setting, path, member);
    const bool in_range = !value->is_number() || setting.range.holds(value->number());
    if (!in_range) return report_range(setting, path, member);
    if (setting.standing == Standing::kRefused || setting.standing == Standing::kIgnored)
      say_standing(setting, member, *value);
    set_value(reading_, setting.path, std::move(*value), {Origin::Kind::kFile, member.value.span, {}});
  }

  // DeepSpeed looks at these itself before pydantic would turn true into 1.
  static bool is_bool_where_number(const Setting& setting, const Value& value) {
    const bool looked_at =
        setting.key == "loss_scale" || setting.key == "loss_scale_window" || setting.key == "min_loss_scale";
    return looked_at && value.kind == Kind::kBool;
  }

  void say_standing(const Setting& setting, const Member& member, const Value& value) {
    if (setting.section->standing == Standing::kRefused || setting.section->standing == Standing::kIgnored) return;
    if (setting.dead) return;  // the doctor has a rule for those
    bool active = to_json(value) != to_json(reading_.defaults[index_of(setting)]);
    if (value.is_object()) {
      const Value* enabled = value.find("enabled");
      active = enabled != nullptr ? is_true(*enabled) : !value.members.empty();
    }
    report_out_of_scope(reading_, setting.path, member, active, setting.standing == Standing::kRefused, setting.doc);
  }

  void report_type(const Setting& setting, const std::string& path, const Member& member) {
    const std::string written = reading_.document.source->brief(member.value.span);
    const auto meant = meant_value(setting, member.value);
    Words message = {
        cat(path, " must be ", describe_type(setting), ", not ", kind_name(member.value.kind), " ", written),
        cat(path, " 应为 ", describe_type(setting), "，而不是 ", written)};
    const std::string_view rule = is_python_literal(member.value) ? "types/python-literal" : "types/wrong";
    if (is_python_literal(member.value)) {
      message.en += cat("; Python's ", member.value.text.substr(0, member.value.text.find(',')),
                        " is not JSON, and HJSON reads the rest of the line as a text");
      message.zh += "；这是 Python 的写法而不是 JSON，HJSON 会把这一行剩下的内容读成字符串";
    } else if (member.value.kind == Kind::kReal && setting.type == Type::kInt) {
      message.en += "; a fraction of an element cannot be";
      message.zh += "；元素个数不能是小数";
    }
    Problem& problem = report(reading_, rule, setting.path, member.value.span, message);
    problem.current = written;
    problem.suggested = meant;
    problem.deepspeed_refuses = is_strict(*setting.section) || refused_at_read(setting);
    if (!meant.empty()) {
      problem.edits = {{Edit::Kind::kSet, path, "", meant}};
      problem.fix = {cat("write ", meant), cat("写成 ", meant)};
    }
  }

  // Top-level and plain-section values that DeepSpeed checks by hand while it reads.
  static bool refused_at_read(const Setting& setting) {
    constexpr std::string_view kChecked[] = {"communication_data_type",
                                             "gradient_allreduce_op",
                                             "checkpoint.tag_validation",
                                             "checkpoint.writer.type",
                                             "checkpoint.writer.data_parallel",
                                             "torch_autocast.dtype",
                                             "seq_parallel_communication_data_type"};
    return std::find(std::begin(kChecked), std::end(kChecked), setting.path) != std::end(kChecked);
  }

  static bool is_python_literal(const Value& value) {
    if (value.kind != Kind::kString) return false;
    const std::string word = value.text.substr(0, value.text.find(','));
    return word == "True" || word == "False" || word == "None";
  }

  // What the author most likely meant, as JSON; empty when that is anybody's guess.
  std::string meant_value(const Setting& setting, const Value& value) const {
    if (is_python_literal(value)) {
      const std::string word = lower(value.text.substr(0, value.text.find(',')));
      const std::string json = word == "none" ? "null" : word;
      if (setting.type == Type::kBool && word != "none") return json;
      return word == "none" && setting.nullable ? json : "";
    }
    if (setting.type == Type::kInt && value.kind == Kind::kReal && std::abs(value.real) < 9e18)
      return cat(static_cast<int64_t>(value.real));
    if (value.kind != Kind::kString) return "";
    if (setting.type == Type::kInt || setting.type == Type::kFloat) {
      const auto number = float_of_text(value.text);
      if (number && std::abs(*number) < 9e18 && *number == static_cast<double>(static_cast<int64_t>(*number)))
        return cat(static_cast<int64_t>(*number));
      return number && setting.type == Type::kFloat ? cat(*number) : "";
    }
    if (setting.values.empty()) return "";
    const std::string near =
        nearest(value.text, std::vector<std::string>(setting.values.begin(), setting.values.end()));
    return near.empty() ? "" : cat('"', near, '"');
  }

  void report_range(const Setting& setting, const std::string& path, const Member& member) {
    const std::string written = reading_.document.source->brief(member.value.span);
    Problem& problem = report(reading_, "types/range", setting.path, member.value.span,
                              {cat(path, " must be ", describe_type(setting), "; ", written, " is not"),
                               cat(path, " 应为 ", describe_type(setting), "，", written, " 超出范围")});
    problem.current = written;
    const bool checked_by_deepspeed = is_strict(*setting.section) && !setting.path.starts_with("weft.");
    const bool is_batch = setting.path == "train_batch_size" || setting.path == "train_micro_batch_size_per_gpu" ||
                          setting.path == "gradient_accumulation_steps";
    problem.deepspeed_refuses = checked_by_deepspeed || is_batch;
  }

  Reading& reading_;
  std::unordered_map<const Setting*, const Member*> seen_;
  std::vector<AutoSetting> autos_;
};

}  // namespace

std::vector<AutoSetting> read_members(Reading& reading) { return Walker(reading).walk(); }

}  // namespace weft::config
