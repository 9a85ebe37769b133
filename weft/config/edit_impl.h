// The parts of apply_edit. An edit becomes splices (bytes of the old text, and what stands there instead); objects with
// braces (HJSON, YAML flow) and YAML block mappings each have their own way to find them. Nothing here proves that the
// result means what it should: apply_edit reads it again and compares.
//
// Pure functions over a Page, which must not outlive its document; any thread.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weft/config/document.h"
#include "weft/config/problem.h"

namespace weft::config::detail {

struct Splice {
  Span span;
  std::string text;
};
using Splices = std::vector<Splice>;
using Keys = std::span<const std::string>;

// A value to be written: its text, and the indentation that its lines after the first were written with.
struct NewValue {
  std::string text;
  std::string indent = {};
  bool block = false;  // whole lines of a YAML block collection, which go below the key
};

// A document's text and the questions that every edit asks of it. Line breaks are \n, \r\n and \r.
class Page {
 public:
  explicit Page(const Document& document);

  std::string_view text() const { return text_; }
  bool yaml() const { return yaml_; }
  const std::string& newline() const { return newline_; }  // the file's own
  const std::string& unit() const { return unit_; }        // one step of indentation
  bool quotes_keys() const { return quotes_keys_; }        // as the first key of the file does

  char at(size_t offset) const { return offset < text_.size() ? text_[offset] : '\0'; }
  bool at_line_end(size_t offset) const;  // at a break, or at the end of the text

  size_t line_start(size_t offset) const;
  size_t line_end(size_t offset) const;
  size_t after_break(size_t line_end) const;
  std::string_view indent(size_t offset) const;  // of the line
  bool first_on_line(size_t offset) const;

  size_t skip_blanks(size_t offset) const;  // spaces and tabs
  size_t back_over_blanks(size_t offset) const;
  size_t skip_space(size_t offset) const;      // blanks, breaks and comments
  size_t skip_line_rest(size_t offset) const;  // blanks and the comments that start on this line

  // HJSON's strings without quotes: they end with the line, so nothing can follow them on it.
  bool quoteless(const Value& value) const;
  bool braced(const Value& object) const { return at(object.span.begin) == '{'; }
  bool block_collection(const Value& value) const;
  size_t after_colon(const Member& member) const;
  // Where the value's own text ends; a null that is not written ends at its colon.
  size_t value_end(const Member& member) const;

  std::string key_text(const std::string& key, bool quoted) const;
  // The text with the splices made. They come in its order; where an alias led backwards they do not: nothing.
  std::optional<std::string> splice(const std::optional<Splices>& splices) const;

 private:
  std::optional<size_t> skip_comment(size_t offset) const;
  bool detect_unit(const Value& value);

  std::string_view text_;
  bool yaml_;
  bool quotes_keys_;
  std::string newline_ = "\n";
  std::string unit_ = "  ";
};

// The lines after the first (of a block: all) moved from the value's indentation to another.
std::string reindented(const NewValue& value, std::string_view indent, std::string_view newline);
bool is_blank(std::string_view text);  // only spaces, tabs and breaks

// Objects with braces, and HJSON's root without them.
std::optional<Splices> add_to_braces(const Page& page, const Value& object, Keys keys, const NewValue& value);
Splices remove_from_braces(const Page& page, const Value& object, size_t index);
Splices replace_inline(const Page& page, const Member& member, const NewValue& value);

// YAML block mappings.
std::optional<Splices> add_to_block(const Page& page, const Value& object, Keys keys, const NewValue& value);
std::optional<Splices> remove_from_block(const Page& page, const Value& object, size_t index);
Splices replace_block(const Page& page, const Member& member, const NewValue& value);

// The value as its author wrote it, where that text can stand somewhere else.
std::optional<NewValue> source_text(const Page& page, const Member& member);

// Where a path leads in a tree: the deepest object that exists on the way, and the keys below it. One key, when nothing
// is missing but perhaps that.
struct Target {
  Value* object = nullptr;
  std::vector<std::string> keys = {};

  std::optional<size_t> index() const;  // of the member that the path names; nothing when it does not exist
};
// Nothing when the path is no path, or when something on the way is not an object.
std::optional<Target> find_target(Value& root, std::string_view path);

// Exactly one JSON value, or nothing.
std::optional<Value> parse_literal(const std::string& literal);
// A literal as YAML: numbers with exponents get the dot and the sign without which PyYAML reads a string.
std::string yaml_literal(std::string_view literal);

// What the edit means, on the tree alone. False where it cannot be made. `literal` is what kSet sets.
bool edit_tree(Value& root, const Edit& edit, const Value& literal);

// same_tree() (edit.h), but where `a` has the span `except_a` there `b` has `except_b`, whatever is in them.
bool same_tree_except(const Value& a, Span except_a, const Value& b, Span except_b);

}  // namespace weft::config::detail
