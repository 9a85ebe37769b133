// Values of the wrong type or out of range: what is said about them, and what their author most likely meant.
#include <algorithm>
#include <cmath>

#include "weft/base/text.h"
#include "weft/config/coerce.h"
#include "weft/config/lower.h"
#include "weft/config/reading_impl.h"

namespace weft::config {
namespace {

bool refused_at_read(const Setting& setting, const Value& value) {
  switch (setting.checked) {
    case Checked::kNever: return false;
    case Checked::kAlways: return true;
    case Checked::kText: return value.kind == Kind::kString;
    case Checked::kNull: return value.kind == Kind::kNull;
  }
  return false;
}

bool is_python_literal(const Value& value) {
  if (value.kind != Kind::kString) return false;
  const std::string word = value.text.substr(0, value.text.find(','));
  return word == "True" || word == "False" || word == "None";
}

// What the author most likely meant, as JSON; empty when that is anybody's guess.
std::string meant_value(const Setting& setting, const Value& value) {
  if (is_python_literal(value)) {
    std::string word = lower(value.text.substr(0, value.text.find(',')));
    if (word == "none") return setting.nullable ? "null" : "";
    return setting.type == Type::kBool ? word : "";
  }
  if (setting.type == Type::kInt && value.kind == Kind::kReal && std::abs(value.real) < 9e18)
    return cat(static_cast<int64_t>(value.real));
  if (value.kind != Kind::kString) return "";
  if (setting.type == Type::kBool) {
    std::string word = lower(value.text);
    return word == "true" || word == "false" ? word : "";
  }
  if (setting.type == Type::kInt || setting.type == Type::kFloat) {
    const auto number = float_of_text(value.text);
    if (number && std::abs(*number) < 9e18 && *number == static_cast<double>(static_cast<int64_t>(*number)))
      return cat(static_cast<int64_t>(*number));
    return number && setting.type == Type::kFloat ? cat(*number) : "";
  }
  if (setting.values.empty()) return "";
  const std::string near = nearest(value.text, std::vector<std::string>(setting.values.begin(), setting.values.end()));
  return near.empty() ? "" : cat('"', near, '"');
}

}  // namespace

bool refuses_unknown(const Reading& reading, const Section& section) {
  return section.strict && section.strict_since <= reading.version;
}

bool fails_own_check(const Setting& setting, const Value& value) {
  const bool is_text = value.kind == Kind::kString;
  if (setting.path == "tensor_parallel.dtype") return true;
  if (setting.path.starts_with("autotuning.") && setting.key.ends_with("_dir")) return is_text && value.text.empty();
  if (setting.path == "fp16.loss_scale") return value.kind == Kind::kBool;
  if (setting.path != "fp16.loss_scale_window" && setting.path != "fp16.min_loss_scale") return false;
  return value.kind == Kind::kBool || (is_text && value.text.find('.') != std::string::npos);
}

void report_type(Reading& reading, const Setting& setting, const std::string& path, const Member& member) {
  const std::string written = reading.quoted(member.value.span);
  const auto meant = meant_value(setting, member.value);
  Words message = {cat(path, " must be ", describe_type(setting), ", not ", kind_name(member.value.kind), " ", written),
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
  Problem& problem = report(reading, rule, setting.path, member.value.span, message);
  problem.current = written;
  problem.suggested = meant;
  problem.deepspeed_refuses = refuses_unknown(reading, *setting.section) || refused_at_read(setting, member.value);
  if (!meant.empty()) {
    problem.edits = {{Edit::Kind::kSet, path, "", meant}};
    problem.fix = {cat("write ", meant), cat("写成 ", meant)};
  }
}

void report_range(Reading& reading, const Setting& setting, const std::string& path, const Member& member) {
  const std::string written = reading.quoted(member.value.span);
  Problem& problem = report(reading, "types/range", setting.path, member.value.span,
                            {cat(path, " must be ", describe_type(setting), "; ", written, " is not"),
                             cat(path, " 应为 ", describe_type(setting), "，", written, " 超出范围")});
  problem.current = written;
  const bool checked_by_deepspeed = refuses_unknown(reading, *setting.section);
  const bool is_batch = setting.path == "train_batch_size" || setting.path == "train_micro_batch_size_per_gpu" ||
                        setting.path == "gradient_accumulation_steps";
  problem.deepspeed_refuses = checked_by_deepspeed || is_batch;
}

}  // namespace weft::config
