#include <algorithm>

#include "weft/base/text.h"
#include "weft/config/edit_impl.h"

namespace weft::config::detail {
namespace {

// How an object's members are written, learned from the last of them.
struct Style {
  bool own_lines = true;
  bool commas = true;
  bool quoted = true;
  std::string indent;     // of a member on a line of its own
  std::string gap = " ";  // after a comma on the same line
  std::string colon = ": ";
};

std::string colon_of(const Page& page, const Member& member) {
  const size_t begin = member.key_span.end, end = std::max(begin, member.value.span.begin);
  const std::string_view written = page.text().substr(begin, end - begin);
  return written == ":" || written == " : " ? std::string(written) : ": ";
}

bool quoted(const Page& page, const Member& member) {
  const char first = page.at(member.key_span.begin);
  return first == '"' || first == '\'';
}

// A comma between two members, or one that a quoteless string took for its own.
std::optional<size_t> comma_after(const Page& page, const Member& member) {
  if (page.quoteless(member.value)) {
    const size_t last = member.value.span.end - 1;
    return page.at(last) == ',' ? std::optional(last) : std::nullopt;
  }
  const size_t next = page.skip_space(page.value_end(member));
  return page.at(next) == ',' ? std::optional(next) : std::nullopt;
}

bool uses_commas(const Page& page, const Value& object, const Style& style) {
  const auto& members = object.members;
  if (page.yaml() || !style.own_lines) return true;
  if (members.size() == 1) return style.quoted || comma_after(page, members[0]);
  return std::any_of(members.begin(), members.end() - 1,
                     [&](const auto& member) { return comma_after(page, member).has_value(); });
}

std::string gap_before(const Page& page, const Member& member, const std::string& colon) {
  const size_t key = member.key_span.begin, blanks = page.back_over_blanks(key);
  if (blanks > 0 && page.at(blanks - 1) == ',') return std::string(page.text().substr(blanks, key - blanks));
  return colon == ":" ? "" : " ";
}

Style style_of(const Page& page, const Value& object) {
  const Member& last = object.members.back();
  const size_t key = last.key_span.begin;
  const bool first_on_line = page.first_on_line(key);
  Style style;
  style.own_lines = first_on_line || page.quoteless(last.value);
  style.quoted = quoted(page, last);
  style.indent = cat(page.indent(key), first_on_line ? "" : page.unit());
  style.colon = page.yaml() && !style.quoted ? ": " : colon_of(page, last);
  style.gap = gap_before(page, last, style.colon);
  style.commas = uses_commas(page, object, style);
  return style;
}

// "a": {"b": value}: the parents that are missing come with it.
std::string render(const Page& page, const Style& style, Keys keys, const NewValue& value) {
  std::string out, closing, indent = style.indent;
  for (const auto& parent : keys.first(keys.size() - 1)) {
    out += cat(page.key_text(parent, style.quoted), style.colon, "{");
    closing = cat(style.own_lines ? cat(page.newline(), indent) : "", "}", closing);
    if (!style.own_lines) continue;
    indent += page.unit();
    out += cat(page.newline(), indent);
  }
  out += cat(page.key_text(keys.back(), style.quoted), style.colon, reindented(value, indent, page.newline()));
  return out + closing;
}

// Behind the comments that belong to what stands at `from`: on the same line, or up to the line's end.
size_t insertion_point(const Page& page, size_t from, const Style& style) {
  const size_t rest = page.skip_line_rest(from);
  if (style.own_lines) return page.at_line_end(rest) ? rest : page.back_over_blanks(rest);
  return page.at_line_end(rest) ? from : std::max(from, page.back_over_blanks(rest));
}

Splices add_after_last(const Page& page, const Value& object, Keys keys, const NewValue& value) {
  const Member& last = object.members.back();
  const Style style = style_of(page, object);
  const size_t end = page.value_end(last), next = page.skip_space(end);
  const bool trailing_comma = page.at(next) == ',';
  const std::string before = style.own_lines ? cat(page.newline(), style.indent) : style.gap;
  const size_t at = insertion_point(page, trailing_comma ? next + 1 : end, style);
  Splices out;
  if (style.commas && !trailing_comma && !page.quoteless(last.value)) out.push_back({{end, end}, ","});
  out.push_back({{at, at}, cat(before, render(page, style, keys, value), trailing_comma ? "," : "")});
  return out;
}

// An empty HJSON file, or one of comments only, is an object too.
Splices add_to_nothing(const Page& page, Keys keys, const NewValue& value) {
  const size_t end = page.text().size();
  const bool open_line = page.line_start(end) != end;
  const std::string member = render(page, Style{.quoted = page.quotes_keys(), .indent = ""}, keys, value);
  return {{{end, end}, cat(open_line ? page.newline() : "", member, page.newline())}};
}

Splices add_first(const Page& page, const Value& object, Keys keys, const NewValue& value) {
  if (!page.braced(object)) return add_to_nothing(page, keys, value);
  const size_t open = object.span.begin, close = object.span.end - 1;
  const std::string_view inside = page.text().substr(open + 1, close - open - 1);
  const size_t content = open + 1 + (inside.find_last_not_of(" \t\r\n") + 1);
  const size_t after = page.skip_blanks(close + 1);
  const bool ends_line = page.at_line_end(page.skip_line_rest(page.at(after) == ',' ? after + 1 : after));
  Style style{.quoted = page.quotes_keys(), .indent = cat(page.indent(open), page.unit())};
  style.own_lines = inside.find_first_of("\r\n") != std::string_view::npos || (!page.yaml() && ends_line);
  const std::string before = style.own_lines ? cat(page.newline(), style.indent) : content > open + 1 ? " " : "";
  const std::string after_it = style.own_lines ? cat(page.newline(), page.indent(open)) : "";
  return {{{content, close}, cat(before, render(page, style, keys, value), after_it)}};
}

// What goes besides the member: its comma and the comment behind it, and the line where nothing else is on it.
Span removal(const Page& page, size_t begin, size_t end, bool has_comma) {
  const size_t rest = page.skip_line_rest(end);
  const bool first = page.first_on_line(begin);
  if (page.at_line_end(rest) && first) return {page.line_start(begin), page.after_break(rest)};
  if (page.at_line_end(rest)) return {page.back_over_blanks(begin), rest};
  if (has_comma || first) return {begin, page.skip_blanks(end)};
  return {page.back_over_blanks(begin), end};
}

// The comma or the comment that the author put behind a quoteless string, and that became a part of it.
std::string_view quoteless_tail(std::string_view raw) {
  const auto is_comment = [](std::string_view text) {
    text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
    if (text.starts_with("/*")) return text.find("*/") == text.size() - 2;
    return text.empty() || text.starts_with('#') || text.starts_with("//");
  };
  for (size_t at = raw.find_first_of(", \t"); at != std::string_view::npos; at = raw.find_first_of(", \t", at + 1))
    if (is_comment(raw.substr(raw[at] == ',' ? at + 1 : at))) return raw.substr(at);
  return "";
}

}  // namespace

std::optional<Splices> add_to_braces(const Page& page, const Value& object, Keys keys, const NewValue& value) {
  if (value.block) return std::nullopt;
  if (object.members.empty()) return add_first(page, object, keys, value);
  return add_after_last(page, object, keys, value);
}

Splices remove_from_braces(const Page& page, const Value& object, size_t index) {
  const Member& member = object.members[index];
  size_t begin = member.key_span.begin, end = page.value_end(member);
  const size_t next = page.skip_space(end);
  const bool has_comma = page.at(next) == ',';
  if (has_comma) end = next + 1;
  Splices out;
  const bool last = index + 1 == object.members.size();
  if (last && !has_comma && index > 0 && !page.quoteless(object.members[index - 1].value)) {
    const auto comma = comma_after(page, object.members[index - 1]);
    const bool beside = comma && page.skip_blanks(*comma + 1) == begin;
    if (beside) begin = *comma;
    if (comma && !beside) out.push_back({{*comma, *comma + 1}, ""});
  }
  Span gone = removal(page, begin, end, has_comma);
  if (object.members.size() == 1 && page.braced(object)) {
    const Span inside{object.span.begin + 1, object.span.end - 1};
    const auto blank = [&](size_t from, size_t to) {
      return from >= to || is_blank(page.text().substr(from, to - from));
    };
    if (blank(inside.begin, gone.begin) && blank(gone.end, inside.end)) gone = inside;
  }
  out.push_back({gone, ""});
  return out;
}

Splices replace_inline(const Page& page, const Member& member, const NewValue& value) {
  const Span span = member.value.span;
  const std::string text = reindented(value, page.indent(member.key_span.begin), page.newline());
  if (span.begin == span.end) {
    const size_t at = page.after_colon(member);
    return {{{at, at}, cat(" ", text)}};
  }
  if (page.quoteless(member.value))
    return {{span, cat(text, quoteless_tail(page.text().substr(span.begin, span.end - span.begin)))}};
  // HJSON needs no comma after a quote or a bracket; after a number it does, or the rest of the line becomes a string.
  const char next = page.at(page.skip_blanks(span.end));
  const bool comma = !page.yaml() && std::string_view(",}]#/\r\n\0", 8).find(next) == std::string_view::npos;
  return {{span, cat(text, comma ? "," : "")}};
}

}  // namespace weft::config::detail
