#include "weft/config/hjson.h"

#include <optional>
#include <utility>

#include "weft/base/text.h"
#include "weft/config/hjson_impl.h"
#include "weft/config/members_impl.h"
#include "weft/config/secret.h"

namespace weft::config {
namespace {

constexpr int kEnd = HjsonScanner::kEnd;

class Parser {
 public:
  explicit Parser(SourcePtr source) : source_(std::move(source)), scan_(source_) {}

  Value root();

 private:
  Value value();
  Value object();
  Value array();
  Value bare_object();
  Value checked_bare_object();
  void member(MemberList& members);
  void take_comma();
  // Fails for what can be no value: a stray bracket, comma or colon, or the end of the text.
  void expect_value();
  // `span` is where the key stands.
  void expect_colon(const std::string& key, Span span);
  [[noreturn]] void fail_unclosed() const;
  [[noreturn]] void fail_stray() const;

  SourcePtr source_;
  HjsonScanner scan_;
  std::vector<Span> open_;  // the braces and brackets around the position
};

[[noreturn]] void refuse_root(const SourcePtr& source, const Value& value) {
  throw ReadError(
      "syntax/root", source, value.span,
      {cat("a config is an object, and this is ", kind_name(value.kind)), "配置的最外层必须是对象（键值对）"},
      {"write { \"key\": value, ... }", "请写成 { \"键\": 值, ... }"});
}

Value Parser::root() {
  const int first = scan_.skip_blank();
  const size_t end = source_->text().size();
  if (first == kEnd) return {.kind = Kind::kObject, .span = {end, end}};
  Value root = first == '{' || first == '[' ? value() : checked_bare_object();
  if (!root.is_object()) refuse_root(source_, root);
  if (scan_.skip_blank() != kEnd) {
    scan_.fail_structure(
        scan_.found_span(), {"text follows the end of the config", "配置结束之后还有多余的内容"},
        {"remove it, or remove the '}' above it that came too early", "请删除多余的内容，或删除前面过早出现的 '}'"});
  }
  return root;
}

// What is no list of members may be one plain value. hjson reads that, and DeepSpeed refuses it: it is named as such.
Value Parser::checked_bare_object() {
  const HjsonScanner start = scan_;
  try {
    return bare_object();
  } catch (const ReadError& error) {
    if (error.rule() != "syntax/hjson") throw;
    HjsonScanner again = start;
    std::optional<Value> plain;
    try {
      if (std::string_view("{}[],:").find(static_cast<char>(again.peek())) == std::string_view::npos) {
        plain = again.scalar();
        if (again.skip_blank() != kEnd) plain.reset();
      }
    } catch (const ReadError&) {
      plain.reset();  // the first error is the better one
    }
    // With a ':' in it, it was meant to be members.
    const bool is_word = plain && source_->at(plain->span).find(':') == std::string_view::npos;
    if (is_word) refuse_root(source_, *plain);
    throw;
  }
}

Value Parser::bare_object() {
  MemberList members(source_, scan_.position());
  while (scan_.peek() != kEnd) {
    if (scan_.peek() == '}' || scan_.peek() == ']') fail_stray();
    member(members);
    take_comma();
  }
  Value root = members.take();
  root.span.end = root.members.back().value.span.end;
  return root;
}

Value Parser::value() {
  if (scan_.peek() != '{' && scan_.peek() != '[') {
    expect_value();
    return scan_.scalar();
  }
  const Span opening = scan_.found_span();
  if (open_.size() == static_cast<size_t>(kMaxDepth)) {
    throw ReadError("syntax/too-deep", source_, opening,
                    {cat("more than ", kMaxDepth, " objects and lists inside one another"),
                     cat("对象和列表的嵌套超过了 ", kMaxDepth, " 层")});
  }
  open_.push_back(opening);
  Value value = scan_.peek() == '{' ? object() : array();
  open_.pop_back();
  return value;
}

Value Parser::object() {
  MemberList members(source_, scan_.position());
  scan_.step();
  for (int c = scan_.skip_blank(); c != '}'; c = scan_.peek()) {
    if (c == kEnd) fail_unclosed();
    if (c == ']') fail_stray();
    member(members);
    take_comma();
  }
  scan_.step();
  Value object = members.take();
  object.span.end = scan_.position();
  return object;
}

void Parser::member(MemberList& members) {
  auto [key, span] = scan_.key();
  members.check(key, span);
  expect_colon(key, span);
  members.add({std::move(key), span, value()});
}

void Parser::expect_colon(const std::string& key, Span span) {
  if (scan_.skip_blank() != ':') {
    const std::string name = cited(*source_, span, key);
    const std::string found = scan_.peek() == kEnd ? "" : cat("'", scan_.found(), "'");
    scan_.fail_structure(scan_.found_span(),
                         {cat("a ':' is missing after the key \"", name,
                              "\": ", found.empty() ? "the file ends here" : "found " + found),
                          cat("键 \"", name, "\" 之后缺少 ':'：", found.empty() ? "文件在此结束" : "此处是 " + found)},
                         {cat("write \"", name, "\": value"), cat("请写成 \"", name, "\": 值")});
  }
  scan_.step();
  scan_.skip_blank();
}

Value Parser::array() {
  Value array{.kind = Kind::kArray, .span = scan_.found_span()};
  scan_.step();
  for (int c = scan_.skip_blank(); c != ']'; c = scan_.peek()) {
    if (c == kEnd) fail_unclosed();
    array.items.push_back(value());
    take_comma();
  }
  scan_.step();
  array.span.end = scan_.position();
  return array;
}

// One comma may follow a value, or none. Leaves the position at what comes next.
void Parser::take_comma() {
  if (scan_.skip_blank() != ',') return;
  scan_.step();
  scan_.skip_blank();
}

void Parser::expect_value() {
  const int c = scan_.peek();
  if (c == kEnd && open_.empty()) {
    scan_.fail_structure(scan_.found_span(), {"the file ends where a value should be", "文件在应有值的地方结束了"});
  }
  if (c == kEnd) fail_unclosed();
  if (c == '}' && !open_.empty() && source_->at(open_.back()) == "[") fail_stray();
  if (c != '}' && c != ']' && c != ',' && c != ':') return;
  scan_.fail_structure(
      scan_.found_span(),
      {cat("found '", scan_.found(), "' where a value should be"), cat("应有值的地方是 '", scan_.found(), "'")},
      {"write the value, or remove what was left over", "请补上值，或删除多余的字符"});
}

void Parser::fail_unclosed() const {
  const std::string_view opening = source_->at(open_.back());
  const char closing = opening == "{" ? '}' : ']';
  scan_.fail_structure(open_.back(), {cat("this '", opening, "' is never closed"), cat("此 '", opening, "' 没有闭合")},
                       {cat("add the '", closing, "' that is missing"), cat("请补上缺少的 '", closing, "'")});
}

void Parser::fail_stray() const {
  Words message{cat("this '", scan_.found(), "' closes nothing"), cat("此 '", scan_.found(), "' 没有与之对应的开头")};
  if (!open_.empty()) {
    const Place place = source_->place(open_.back().begin);
    const std::string_view opening = source_->at(open_.back());
    message.en += cat(": the '", opening, "' of line ", place.line, ", column ", place.column, " is still open");
    message.zh += cat("：第 ", place.line, " 行第 ", place.column, " 列的 '", opening, "' 尚未闭合");
  }
  scan_.fail_structure(scan_.found_span(), std::move(message));
}

}  // namespace

Value parse_hjson(const SourcePtr& source) { return Parser(source).root(); }

}  // namespace weft::config
