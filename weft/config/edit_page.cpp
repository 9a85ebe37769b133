#include <algorithm>
#include <cctype>

#include "weft/base/text.h"
#include "weft/config/edit_impl.h"
#include "weft/config/hjson_impl.h"

namespace weft::config::detail {
namespace {

bool is_break(char c) { return c == '\n' || c == '\r'; }
bool is_blank_char(char c) { return c == ' ' || c == '\t'; }

std::string newline_of(std::string_view text) {
  const size_t at = text.find_first_of("\r\n");
  if (at == std::string_view::npos || text[at] == '\n') return "\n";
  return text.substr(at, 2) == "\r\n" ? "\r\n" : "\r";
}

// Plain scalars that YAML 1.1 reads as something other than a string.
bool is_yaml_word(std::string key) {
  static constexpr std::string_view kWords[] = {"y", "n", "yes", "no", "on", "off", "true", "false", "null"};
  std::ranges::transform(key, key.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return std::ranges::find(kWords, key) != std::end(kWords);
}

bool is_plain_key(const std::string& key, bool yaml) {
  const auto plain = [](unsigned char c) { return std::isalnum(c) || c == '_' || c == '-'; };
  if (key.empty() || !std::ranges::all_of(key, plain)) return false;
  return !yaml || (!is_yaml_word(key) && (std::isalpha(static_cast<unsigned char>(key[0])) || key[0] == '_'));
}

std::string json_string(const std::string& text) {
  Value value;
  value.kind = Kind::kString;
  value.text = text;
  return to_json(value);
}

}  // namespace

Page::Page(const Document& document)
    : text_(document.source->text()),
      yaml_(document.form == Form::kYaml),
      quotes_keys_(!yaml_),
      newline_(newline_of(text_)) {
  detect_unit(document.root);
  if (document.root.members.empty()) return;
  const char first = at(document.root.members[0].key_span.begin);
  quotes_keys_ = first == '"' || first == '\'';
}

bool Page::at_line_end(size_t offset) const { return offset >= text_.size() || is_break(text_[offset]); }

size_t Page::line_start(size_t offset) const {
  while (offset > 0 && !is_break(text_[offset - 1])) --offset;
  return offset == 0 && text_.starts_with(kUtf8ByteOrderMark) ? kUtf8ByteOrderMark.size() : offset;
}

size_t Page::line_end(size_t offset) const { return std::min(text_.find_first_of("\r\n", offset), text_.size()); }

size_t Page::after_break(size_t line_end) const {
  if (line_end >= text_.size()) return text_.size();
  return line_end + (text_.substr(line_end, 2) == "\r\n" ? 2 : 1);
}

std::string_view Page::indent(size_t offset) const {
  const size_t start = line_start(offset);
  return text_.substr(start, skip_blanks(start) - start);
}

// Not by way of line_start: a file may be one line of megabytes, and every member asks.
bool Page::first_on_line(size_t offset) const {
  const size_t before = back_over_blanks(offset);
  return before == 0 || is_break(text_[before - 1]) || text_.substr(0, before) == kUtf8ByteOrderMark;
}

size_t Page::skip_blanks(size_t offset) const {
  while (offset < text_.size() && is_blank_char(text_[offset])) ++offset;
  return offset;
}

size_t Page::back_over_blanks(size_t offset) const {
  while (offset > 0 && is_blank_char(text_[offset - 1])) --offset;
  return offset;
}

std::optional<size_t> Page::skip_comment(size_t offset) const {
  const std::string_view rest = text_.substr(std::min(offset, text_.size()));
  if (rest.starts_with('#') || (!yaml_ && rest.starts_with("//"))) return line_end(offset);
  if (yaml_ || !rest.starts_with("/*")) return std::nullopt;
  const size_t close = text_.find("*/", offset + 2);
  return close == std::string_view::npos ? text_.size() : close + 2;
}

size_t Page::skip_space(size_t offset) const {
  for (;;) {
    while (offset < text_.size() && (is_blank_char(text_[offset]) || is_break(text_[offset]))) ++offset;
    const auto after = skip_comment(offset);
    if (!after) return offset;
    offset = *after;
  }
}

size_t Page::skip_line_rest(size_t offset) const {
  for (;;) {
    const auto after = skip_comment(skip_blanks(offset));
    if (!after) return skip_blanks(offset);
    offset = *after;
  }
}

bool Page::quoteless(const Value& value) const {
  return !yaml_ && value.kind == Kind::kString && at(value.span.begin) != '"' && at(value.span.begin) != '\'';
}

bool Page::block_collection(const Value& value) const {
  if (!yaml_ || (value.kind != Kind::kObject && value.kind != Kind::kArray)) return false;
  return std::string_view("{[*").find(at(value.span.begin)) == std::string_view::npos;
}

size_t Page::after_colon(const Member& member) const {
  const size_t colon = skip_space(member.key_span.end);
  return at(colon) == ':' ? colon + 1 : member.key_span.end;
}

size_t Page::value_end(const Member& member) const {
  const Span span = member.value.span;
  // What an alias stands for lies elsewhere in the text.
  if (span.end <= span.begin || span.begin < member.key_span.end) return after_colon(member);
  return span.end;
}

std::string Page::key_text(const std::string& key, bool quoted) const {
  return !quoted && is_plain_key(key, yaml_) ? key : json_string(key);
}

std::optional<std::string> Page::splice(const std::optional<Splices>& splices) const {
  if (!splices) return std::nullopt;
  std::string out;
  size_t done = 0;
  for (const auto& [span, text] : *splices) {
    if (span.begin < done || span.end < span.begin) return std::nullopt;
    out += cat(text_.substr(done, span.begin - done), text);
    done = span.end;
  }
  return out += text_.substr(done);
}

// The first object whose members stand on lines of their own tells.
bool Page::detect_unit(const Value& value) {
  if (!value.is_object()) return false;
  for (const auto& member : value.members) {
    const size_t key = member.key_span.begin;
    if (first_on_line(key)) {
      const std::string_view outer = braced(value) ? indent(value.span.begin) : "", inner = indent(key);
      if (inner.size() > outer.size() && inner.starts_with(outer)) {
        unit_ = inner.substr(outer.size());
        return true;
      }
    }
    if (detect_unit(member.value)) return true;
  }
  return false;
}

std::string reindented(const NewValue& value, std::string_view indent, std::string_view newline) {
  std::string out;
  std::string_view rest = value.text;
  for (bool first = true; first || !rest.empty(); first = false) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!first) out += newline;
    const bool move = (!first || value.block) && line.starts_with(value.indent) && !is_blank(line);
    if (move) line.remove_prefix(value.indent.size());
    out += cat(move ? indent : "", line);
  }
  return out;
}

bool is_blank(std::string_view text) { return text.find_first_not_of(" \t\r\n") == std::string_view::npos; }

}  // namespace weft::config::detail
