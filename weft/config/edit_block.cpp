#include <algorithm>

#include "weft/base/text.h"
#include "weft/config/edit_impl.h"

namespace weft::config::detail {
namespace {

size_t subtree_end(const Page& page, const Member& member);

// Never before `floor`: an alias, or what a merge brought in, lies elsewhere in the text.
size_t subtree_end(const Page& page, const Value& value, size_t floor) {
  size_t end = floor;
  if (page.block_collection(value)) {
    for (const auto& member : value.members) end = std::max(end, subtree_end(page, member));
    for (const auto& item : value.items) end = std::max(end, subtree_end(page, item, floor));
  } else if (value.span.begin >= floor) {
    // A block scalar ends after its line break, and the blank lines behind it are not its own.
    const std::string_view text = page.text().substr(0, value.span.end);
    end = std::max(end, text.find_last_not_of(" \t\r\n") + 1);
  }
  return end;
}

size_t subtree_end(const Page& page, const Member& member) {
  return subtree_end(page, member.value, page.after_colon(member));
}

std::string render(const Page& page, std::string indent, bool quoted, Keys keys, const NewValue& value) {
  std::string out;
  for (const auto& parent : keys.first(keys.size() - 1)) {
    out += cat(page.key_text(parent, quoted), ":");
    indent += page.unit();
    out += cat(page.newline(), indent);
  }
  out += cat(page.key_text(keys.back(), quoted), ":");
  if (value.block) return out += cat(page.newline(), reindented(value, indent + page.unit(), page.newline()));
  return out += cat(" ", reindented(value, indent, page.newline()));
}

}  // namespace

std::optional<Splices> add_to_block(const Page& page, const Value& object, Keys keys, const NewValue& value) {
  if (object.members.empty()) return std::nullopt;
  const auto key_begin = [](const Member& member) { return member.key_span.begin; };
  const Member& last = *std::ranges::max_element(object.members, {}, key_begin);
  const size_t key = last.key_span.begin;
  if (!page.first_on_line(key)) return std::nullopt;
  const bool quoted = page.at(key) == '"' || page.at(key) == '\'';
  const std::string indent(page.indent(key));
  const size_t at = page.line_end(subtree_end(page, last));
  return Splices{{{at, at}, cat(page.newline(), indent, render(page, indent, quoted, keys, value))}};
}

std::optional<Splices> remove_from_block(const Page& page, const Value& object, size_t index) {
  const Member& member = object.members[index];
  const size_t key = member.key_span.begin;
  if (!page.first_on_line(key)) return std::nullopt;
  const size_t end = page.line_end(subtree_end(page, member));
  if (object.members.size() > 1) return Splices{{{page.line_start(key), page.after_break(end)}, ""}};
  // A mapping without members would read as null.
  const size_t before = page.text().substr(0, key).find_last_not_of(" \t\r\n");
  if (before != std::string_view::npos && page.at(before) == ':') return Splices{{{before + 1, end}, " {}"}};
  return Splices{{{key, end}, "{}"}};
}

Splices replace_block(const Page& page, const Member& member, const NewValue& value) {
  const size_t colon = page.after_colon(member);
  const std::string text = reindented(value, page.indent(member.key_span.begin), page.newline());
  const Span below{page.line_end(colon), page.line_end(subtree_end(page, member))};
  return {{{colon, colon}, cat(" ", text)}, {below, ""}};
}

std::optional<NewValue> source_text(const Page& page, const Member& member) {
  const Span span = member.value.span;
  const std::string indent(page.indent(member.key_span.begin));
  if (page.block_collection(member.value)) {
    if (!page.first_on_line(span.begin) || span.begin < member.key_span.end) return std::nullopt;
    // From the line below the key: comments above the first member go along.
    const size_t begin = page.after_break(page.line_end(page.after_colon(member)));
    const size_t end = page.line_end(subtree_end(page, member));
    return NewValue{std::string(page.text().substr(begin, end - begin)), std::string(page.indent(span.begin)), true};
  }
  const std::string text(page.text().substr(span.begin, page.value_end(member) - span.begin));
  const bool tied_to_its_lines =
      page.quoteless(member.value) || text.starts_with("'''") || text.starts_with('|') || text.starts_with('>');
  if (text.empty() || tied_to_its_lines || span.begin < member.key_span.end) return std::nullopt;
  return NewValue{text, indent};
}

}  // namespace weft::config::detail
