// The file as such: what other readers of the same file would make of it.
#include <nlohmann/json.hpp>

#include "weft/base/text.h"
#include "weft/doctor/rules/rule.h"

namespace weft::doctor {
namespace {

using config::Kind;
using config::Severity;
using config::Value;

void byte_order_mark(const Subject& subject, Reporter& reporter) {
  if (!subject.reading.document.has_byte_order_mark) return;
  config::Problem& problem = reporter.problem(
      "",
      {"the file begins with a byte-order mark; DeepSpeed steps over it, HF's strict JSON reader fails on it",
       "文件以 BOM 开头；DeepSpeed 会跳过，HF 的严格 JSON 解析会失败"},
      {"save it as UTF-8 without a mark", "另存为不带 BOM 的 UTF-8"});
  problem.span = {0, 3};
}

void exponent_strings(const Subject& subject, Reporter& reporter) {
  for (const config::Span span : subject.reading.document.exponent_strings) {
    const std::string written(subject.reading.document.source->at(span));
    config::Problem& problem = reporter.problem(
        "",
        {cat("PyYAML reads ", written,
             " as a text, not a number, and DeepSpeed then refuses it; weft reads the number"),
         cat("PyYAML 会把 ", written, " 读成字符串，DeepSpeed 随后会拒绝；weft 按数字读取")},
        {"write it out, or with a dot and a sign: 1.0e+8", "写成完整数字，或带小数点和正负号：1.0e+8"});
    problem.span = span;
    problem.current = written;
  }
}

bool says_auto(const Value& value) {
  if (value.is_auto()) return true;
  for (const config::Member& member : value.members) {
    if (says_auto(member.value)) return true;
  }
  return false;
}

void strict_json(const Subject& subject, Reporter& reporter) {
  const config::Document& document = subject.reading.document;
  if (document.form != config::Form::kHjson || !says_auto(document.root)) return;
  if (nlohmann::json::accept(document.source->text())) return;
  config::Problem& problem = reporter.problem(
      "",
      {"\"auto\" is for HF's Trainer or Accelerate, and these read the file as strict JSON: comments, trailing commas "
       "and bare words stop them",
       "\"auto\" 是给 HF Trainer 或 Accelerate 用的，它们按严格 JSON 读取：注释、尾随逗号和不带引号的词都会报错"},
      {"keep the file plain JSON, or replace \"auto\" by values", "保持纯 JSON，或把 \"auto\" 换成具体的值"});
  problem.span = {0, 1};
}

constexpr Rule kFileRules[] = {
    {{"file/byte-order-mark", Severity::kWarning, "the file begins with a byte-order mark", "文件以 BOM 开头",
      "DeepSpeed's reader skips it; Python's json, which HF uses, refuses it.",
      "DeepSpeed 会跳过；HF 用的 Python json 会拒绝。"},
     byte_order_mark},
    {{"file/yaml-exponent", Severity::kWarning, "a number such as 1e8 in YAML, which PyYAML reads as a text",
      "YAML 里的 1e8 会被 PyYAML 读成字符串",
      "YAML 1.1 wants a dot and a sign in a number with an exponent; DeepSpeed refuses the text.",
      "YAML 1.1 的指数形式需要小数点和正负号；DeepSpeed 会拒绝字符串。"},
     exponent_strings},
    {{"file/strict-json", Severity::kWarning, "\"auto\" in a file that is not plain JSON",
      "含 \"auto\" 的文件不是纯 JSON", "The tools that resolve \"auto\" read the file with a strict parser.",
      "解析 \"auto\" 的工具用严格解析器读取文件。"},
     strict_json},
};

}  // namespace

std::span<const Rule> file_rules() { return kFileRules; }

}  // namespace weft::doctor
