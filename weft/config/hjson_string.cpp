// Quoted strings: "…", '…' and the ''' ones of several lines.
#include "weft/base/text.h"
#include "weft/base/utf8.h"
#include "weft/config/hjson_impl.h"

namespace weft::config {
namespace {

bool is_high_surrogate(char32_t c) { return c >= 0xD800 && c <= 0xDBFF; }
bool is_low_surrogate(char32_t c) { return c >= 0xDC00 && c <= 0xDFFF; }

void append_utf8(std::string& out, char32_t c) {
  const auto tail = [&](int shift) { out += static_cast<char>(0x80 | ((c >> shift) & 0x3F)); };
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xC0 | (c >> 6));
    tail(0);
  } else if (c < 0x10000) {
    out += static_cast<char>(0xE0 | (c >> 12));
    tail(6), tail(0);
  } else {
    out += static_cast<char>(0xF0 | (c >> 18));
    tail(12), tail(6), tail(0);
  }
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// What a letter after a backslash stands for, or 0.
char simple_escape(int c) {
  switch (c) {
    case '"':
    case '\'':
    case '\\':
    case '/': return static_cast<char>(c);
    case 'b': return '\b';
    case 'f': return '\f';
    case 'n': return '\n';
    case 'r': return '\r';
    case 't': return '\t';
    default: return 0;
  }
}

}  // namespace

Value HjsonScanner::quoted() {
  const size_t begin = at_;
  const int quote = peek();
  std::string out;
  for (++at_; peek() != quote;) {
    if (peek() < 0x20) fail_control(begin);
    if (peek() == '\\')
      decode_escape(out);
    else
      out += text_[at_++];
  }
  ++at_;
  return {.kind = Kind::kString, .span = {begin, at_}, .text = std::move(out)};
}

// The end of the text counts as a control character: peek() is negative there.
void HjsonScanner::fail_control(size_t quote) const {
  if (peek() == '\t') {
    fail({at_, at_ + 1}, {"a tab inside a quoted string", "引号内的字符串中含有制表符"}, {"write \\t", "请写成 \\t"});
  }
  if (peek() == kEnd || peek() == '\n' || peek() == '\r') {
    fail({quote, at_}, {"this string is not closed on its line", "此字符串在本行内没有闭合"},
         {cat("end it with ", text_[quote], "; a text of several lines stands between ''' and '''"),
          cat("请在行尾补上 ", text_[quote], "；多行文本请用 ''' 括起")});
  }
  fail({at_, at_ + 1}, {"a control character inside a quoted string", "引号内的字符串中含有控制字符"},
       {"remove it, or write it as \\uXXXX", "请删除它，或写成 \\uXXXX"});
}

void HjsonScanner::decode_escape(std::string& out) {
  const size_t backslash = at_++;
  if (peek() != 'u') {
    const char meant = simple_escape(peek());
    if (meant == 0) {
      fail({backslash, at_ + found().size()},
           {cat("\\", found(), " is not an escape"), cat("\\", found(), " 不是合法的转义")},
           {"write a backslash as \\\\", "反斜杠本身请写成 \\\\"});
    }
    out += meant;
    ++at_;
    return;
  }
  char32_t c = hex_escape(backslash);
  const size_t second = at_;
  if (is_high_surrogate(c) && text_.substr(at_, 2) == "\\u") {
    ++at_;
    const char32_t low = hex_escape(second);
    c = is_low_surrogate(low) ? 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00) : c;
  }
  if (is_high_surrogate(c) || is_low_surrogate(c)) {
    fail({backslash, second}, {"half of a surrogate pair is not a character", "单个代理项不是一个字符"},
         {"write both halves, or the character itself", "请写全两个代理项，或直接写出该字符"});
  }
  append_utf8(out, c);
}

// Requires: at the 'u'. Leaves the position behind the four digits.
char32_t HjsonScanner::hex_escape(size_t backslash) {
  char32_t value = 0;
  const size_t end = at_ + 5;
  for (++at_; at_ < end; ++at_) {
    const int digit = at_ < text_.size() ? hex_digit(text_[at_]) : -1;
    if (digit < 0) {
      fail({backslash, at_}, {"\\u takes four hexadecimal digits", "\\u 之后须有四位十六进制数字"},
           {"write for example \\u00e9", "例如 \\u00e9"});
    }
    value = value * 16 + static_cast<char32_t>(digit);
  }
  return value;
}

bool HjsonScanner::take_line_end() {
  if (peek() != '\n' && peek() != '\r') return false;
  at_ += text_.substr(at_, 2) == "\r\n" ? 2 : 1;
  return true;
}

void HjsonScanner::skip_indent(size_t most) {
  for (; most > 0 && (peek() == ' ' || peek() == '\t'); --most) ++at_;
}

// The characters before the opening ''' on its line: as much white space is taken off the lines that follow. Counted on
// from the last call, so that many strings on one line cost no more than the line. On the file's first line hjson counts
// on from the end of the file, because its index turns negative; the lines must come out as they do there.
size_t HjsonScanner::indent_here() {
  const auto count = [](std::string_view text) {
    size_t characters = 0;
    for (; !text.empty(); ++characters) take_code_point(text);
    return characters;
  };
  const std::string_view fresh = text_.substr(columns_at_, at_ - columns_at_);
  const size_t line_end = fresh.find_last_of("\r\n");
  columns_at_ = at_;
  if (line_end == std::string_view::npos) {
    columns_ += count(fresh);
  } else {
    columns_ = count(fresh.substr(line_end + 1));
    on_first_line_ = false;
  }
  if (!on_first_line_) return columns_;
  const size_t last = text_.find_last_of("\r\n");
  if (last == std::string_view::npos) {
    fail({at_, at_ + 3},
         {"hjson cannot read a ''' string in a file without a line end", "文件中没有换行时，hjson 无法读取 ''' 字符串"},
         {"use double quotes, or end the file with a line end", "请改用双引号，或在文件末尾加上换行"});
  }
  return columns_ + count(text_.substr(last + 1));
}

Value HjsonScanner::multiline() {
  const size_t begin = at_;
  const size_t indent = indent_here();
  at_ += 3;
  skip_indent(text_.size());
  if (take_line_end()) skip_indent(indent);
  std::string out;
  for (size_t quotes = 0; quotes < 3;) {
    if (peek() == kEnd) {
      fail({begin, begin + 3}, {"this ''' string is never closed", "此 ''' 字符串没有结束"},
           {"end it with '''", "请用 ''' 结束"});
    }
    if (peek() == '\'') {
      ++quotes;
      ++at_;
      continue;
    }
    out.append(std::exchange(quotes, 0), '\'');
    if (take_line_end()) {
      out += '\n';
      skip_indent(indent);
    } else {
      out += text_[at_++];
    }
  }
  if (out.ends_with('\n')) out.pop_back();
  return {.kind = Kind::kString, .span = {begin, at_}, .text = std::move(out)};
}

}  // namespace weft::config
