// Blanks, comments, keys and unquoted values; hjson_string.cpp has the quoted ones.
#include <string_view>

#include "weft/base/text.h"
#include "weft/base/utf8.h"
#include "weft/config/hjson_impl.h"
#include "weft/config/number_impl.h"
#include "weft/config/secret.h"

namespace weft::config {
namespace {

bool is_blank(int c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool is_line_end(int c) { return c == '\n' || c == '\r'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Python's str.strip() takes these too: a no-break space from a web page after `true` does no harm there.
bool is_unicode_space(char32_t c) {
  return c == ' ' || (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x1F) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

size_t strip_end(std::string_view text, Span span) {
  size_t end = span.end;
  while (end > span.begin) {
    size_t start = end - 1;
    while (start > span.begin && (static_cast<unsigned char>(text[start]) & 0xC0) == 0x80) --start;
    std::string_view last = text.substr(start, end - start);
    if (!is_unicode_space(take_code_point(last).value)) break;
    end = start;
  }
  return end;
}

Span stripped(std::string_view text, Span span) {
  span.end = strip_end(text, span);
  while (span.begin < span.end) {
    std::string_view rest = text.substr(span.begin, span.end - span.begin);
    const CodePoint first = take_code_point(rest);
    if (!is_unicode_space(first.value)) break;
    span.begin += first.bytes.size();
  }
  return span;
}

// -?(0|[1-9][0-9]*)(.[0-9]+)?([eE][-+]?[0-9]+)? at the start of the text: how many bytes, or 0.
size_t number_length(std::string_view text) {
  size_t at = text.starts_with('-') ? 1 : 0;
  const auto digits = [&](size_t from) {
    while (from < text.size() && is_digit(text[from])) ++from;
    return from;
  };
  const size_t whole = digits(at);
  if (whole == at) return 0;
  at = text[at] == '0' ? at + 1 : whole;
  if (at < text.size() && text[at] == '.' && digits(at + 1) > at + 1) at = digits(at + 1);
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    const size_t sign = at + 1 < text.size() && (text[at + 1] == '-' || text[at + 1] == '+') ? 1 : 0;
    if (digits(at + 1 + sign) > at + 1 + sign) at = digits(at + 1 + sign);
  }
  return at;
}

// The first '}' or ']' whose opening is not in the text, or 0.
char unmatched_closer(std::string_view text) {
  int open = 0;
  for (const char c : text) {
    if (c == '{' || c == '[') ++open;
    if ((c == '}' || c == ']') && --open < 0) return c;
  }
  return 0;
}

bool is_structure(int c) { return c == '{' || c == '}' || c == '[' || c == ']' || c == ',' || c == ':'; }

}  // namespace

HjsonScanner::HjsonScanner(SourcePtr source) : source_(std::move(source)), text_(source_->text()) {
  if (text_.starts_with(kUtf8ByteOrderMark)) at_ = kUtf8ByteOrderMark.size();
}

bool HjsonScanner::at_comment(size_t at) const {
  const std::string_view two = text_.substr(at, 2);
  return two.starts_with('#') || two == "//" || two == "/*";
}

void HjsonScanner::skip_line() {
  while (at_ < text_.size() && !is_line_end(text_[at_])) ++at_;
}

void HjsonScanner::skip_block_comment() {
  const size_t end = text_.find("*/", at_ + 2);
  if (end == std::string_view::npos) {
    fail({at_, at_ + 2}, {"this comment is never closed", "此注释没有结束"}, {"end it with */", "请用 */ 结束注释"});
  }
  at_ = end + 2;
}

int HjsonScanner::skip_blank() {
  for (;;) {
    while (is_blank(peek())) ++at_;
    if (!at_comment(at_)) return peek();
    if (text_.substr(at_, 2) == "/*")
      skip_block_comment();
    else
      skip_line();
  }
}

HjsonScanner::Key HjsonScanner::key() {
  if (peek() != '"' && peek() != '\'') return unquoted_key();
  Value text = quoted();
  return {std::move(text.text), text.span};
}

HjsonScanner::Key HjsonScanner::unquoted_key() {
  const size_t begin = at_;
  while (at_ < text_.size() && !is_blank(text_[at_]) && !is_structure(text_[at_])) ++at_;
  Span span{begin, at_};
  while (is_blank(peek())) ++at_;
  const std::string_view name = source_->at(span);
  if (name.empty()) {
    fail_structure(found_span(),
                   {cat("found '", found(), "' where a key should be"), cat("应有键名的地方是 '", found(), "'")},
                   {"write \"key\": value", "请写成 \"键\": 值"});
  }
  if (peek() != ':') {
    const std::string said = cited(*source_, span, name);
    fail_structure(span,
                   {cat("'", said, "' stands where a key should be, but no ':' follows it"),
                    cat("'", said, "' 处应为键名，但其后没有 ':'")},
                   {"write \"key\": value; quote a key that contains spaces or any of {}[],:",
                    "请写成 \"键\": 值；含有空格或 {}[],: 的键名须加引号"});
  }
  // Only a key with white space behind it is stripped, and then of every kind of it.
  if (at_ != span.end) span.end = strip_end(text_, span);
  return {std::string(source_->at(span)), span};
}

Value HjsonScanner::scalar() {
  if (peek() == '"') return quoted();
  if (peek() == '\'') return text_.substr(at_, 3) == "'''" ? multiline() : quoted();
  return quoteless();
}

bool HjsonScanner::read_number(Span token, Value& value) const {
  const size_t length = number_length(source_->at(token));
  const std::string_view behind = text_.substr(token.begin + length, token.end - token.begin - length);
  if (length == 0 || behind.find_first_not_of(" \t") != std::string_view::npos) return false;
  const Span span{token.begin, token.begin + length};
  value = number_value(source_, span, source_->at(span));
  return true;
}

// A word that is a literal or a number ends at the first , } ] or comment; anything else is text up to the line's end, and
// those characters are part of it.
Value HjsonScanner::quoteless() {
  const size_t begin = at_;
  const auto ends_word = [&](size_t at) {
    const char c = text_[at];
    return is_line_end(c) || c == ',' || c == '}' || c == ']' || at_comment(at);
  };
  while (at_ < text_.size() && !ends_word(at_)) ++at_;
  const Span word{begin, strip_end(text_, {begin, at_})};
  const std::string_view name = source_->at(word);
  if (name == "null") return {.kind = Kind::kNull, .span = word};
  if (name == "true" || name == "false") return {.kind = Kind::kBool, .span = word, .boolean = name == "true"};
  if (is_no_number(name)) refuse_no_number(source_, word);
  Value value;
  if (read_number({begin, at_}, value)) return value;
  return rest_of_line(begin);
}

Value HjsonScanner::rest_of_line(size_t begin) {
  skip_line();
  const Span span = stripped(text_, {begin, at_});
  const std::string_view text = source_->at(span);
  if (swallowed_ == Span{} && unmatched_closer(text) != 0) swallowed_ = span;
  return {.kind = Kind::kString, .span = span, .text = std::string(text)};
}

std::string_view HjsonScanner::found() const {
  std::string_view rest = text_.substr(at_);
  return rest.empty() ? rest : take_code_point(rest).bytes;
}

void HjsonScanner::fail(Span span, Words message, Words fix) const {
  throw ReadError("syntax/hjson", source_, span, std::move(message), std::move(fix));
}

void HjsonScanner::fail_structure(Span span, Words message, Words fix) const {
  if (swallowed_ == Span{}) fail(span, std::move(message), std::move(fix));
  const char closer = unmatched_closer(source_->at(swallowed_));
  const Place place = source_->place(span.begin);
  fail(swallowed_,
       {cat("this unquoted text runs to the end of the line and swallows the '", closer, "' (line ", place.line,
            ", column ", place.column, ": ", message.en, ")"),
        cat("这段未加引号的文本一直延伸到行尾，把 '", closer, "' 也包含了进去（第 ", place.line, " 行第 ", place.column,
            " 列：", message.zh, "）")},
       {"put the text in double quotes; between values there must be a comma",
        "请用双引号括起这段文本；各个值之间要有逗号"});
}

}  // namespace weft::config
