#include <algorithm>
#include <new>
#include <string>

#include "weft/base/text.h"
#include "weft/base/utf8.h"
#include "weft/config/hjson_impl.h"
#include "weft/config/yaml_events_impl.h"

namespace weft::config {
namespace {

// libyaml's marks count characters.
std::vector<uint32_t> character_offsets(std::string_view text) {
  const auto is_ascii = [](char c) { return static_cast<unsigned char>(c) < 0x80; };
  if (std::ranges::all_of(text, is_ascii)) return {};
  std::vector<uint32_t> offsets;
  for (std::string_view rest = text; !rest.empty(); take_code_point(rest)) {
    offsets.push_back(static_cast<uint32_t>(text.size() - rest.size()));
  }
  return offsets;
}

struct Explained {
  std::string_view problem;  // libyaml's words
  std::string_view en, zh;
  std::string_view fix, fix_zh;
};

constexpr Explained kExplained[] = {
    {"mapping values are not allowed in this context", "a ':' where no key can be", "此处不能出现 ':'",
     "align the keys of one object, and quote a text that contains ': '",
     "请对齐同一对象的键；含有 ': ' 的文本请加引号"},
    {"could not find expected ':'", "a key without ':'", "键名之后缺少 ':'",
     "write key: value, with a space after the ':'", "请写成 key: value，冒号之后要有空格"},
    {"did not find expected key", "this line is not aligned with the keys above it", "此行与上面的键没有对齐",
     "indent it as its neighbours are; quotes and brackets above must be closed",
     "请与相邻的键对齐缩进，并检查上面的引号和括号是否闭合"},
    {"did not find expected ',' or '}'", "a ',' or '}' is missing here", "此处缺少 ',' 或 '}'",
     "close the '{', or add the comma", "请闭合 '{'，或补上逗号"},
    {"did not find expected ',' or ']'", "a ',' or ']' is missing here", "此处缺少 ',' 或 ']'",
     "close the '[', or add the comma", "请闭合 '['，或补上逗号"},
    {"found unexpected end of stream", "a quoted text is never closed", "引号没有闭合", "add the closing quote",
     "请补上结束的引号"},
    {"control characters are not allowed", "a control character", "含有控制字符", "remove it", "请删除它"},
};

}  // namespace

YamlEvents::YamlEvents(SourcePtr source) : source_(std::move(source)), parser_{}, event_{} {
  std::string_view text = source_->text();
  if (text.starts_with(kUtf8ByteOrderMark)) skipped_ = kUtf8ByteOrderMark.size();
  text.remove_prefix(skipped_);
  offsets_ = character_offsets(text);
  if (yaml_parser_initialize(&parser_) == 0) throw std::bad_alloc();
  yaml_parser_set_encoding(&parser_, YAML_UTF8_ENCODING);
  yaml_parser_set_input_string(&parser_, reinterpret_cast<const unsigned char*>(text.data()), text.size());
}

YamlEvents::~YamlEvents() {
  yaml_event_delete(&event_);
  yaml_parser_delete(&parser_);
}

yaml_event_type_t YamlEvents::next() {
  yaml_event_delete(&event_);
  if (yaml_parser_parse(&parser_, &event_) == 0) fail();
  return event_.type;
}

size_t YamlEvents::offset(const yaml_mark_t& mark) const {
  const size_t text_end = source_->text().size();
  const bool inside = mark.index < offsets_.size();
  const size_t at = offsets_.empty() ? mark.index : inside ? offsets_[mark.index] : text_end;
  return std::min(at + skipped_, text_end);
}

void YamlEvents::fail() const {
  if (parser_.error == YAML_MEMORY_ERROR) throw std::bad_alloc();
  const size_t end = source_->text().size();
  const bool in_bytes = parser_.error == YAML_READER_ERROR;
  const size_t at = std::min(in_bytes ? parser_.problem_offset + skipped_ : offset(parser_.problem_mark), end);
  const Span span{at, std::min(at + 1, end)};
  const std::string_view problem = parser_.problem == nullptr ? "not YAML" : parser_.problem;
  if (source_->at(span) == "\t") {
    throw ReadError("syntax/yaml", source_, span, {"a tab cannot indent YAML", "YAML 不能用制表符缩进"},
                    {"use spaces", "请使用空格"});
  }
  const auto* known = std::ranges::find(kExplained, problem, &Explained::problem);
  if (known == std::end(kExplained)) {
    throw ReadError("syntax/yaml", source_, span,
                    {cat("this is not YAML: ", problem), cat("YAML 语法错误：", problem)});
  }
  throw ReadError("syntax/yaml", source_, span, {std::string(known->en), std::string(known->zh)},
                  {std::string(known->fix), std::string(known->fix_zh)});
}

}  // namespace weft::config
