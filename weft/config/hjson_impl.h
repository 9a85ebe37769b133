// The words of HJSON text: what stands between braces, brackets, colons and commas. hjson.cpp puts them together.
//
// A scanner belongs to one parse. Offsets only grow, so time is linear. Internal to the room.
#pragma once

#include <string>
#include <string_view>

#include "weft/config/value.h"

namespace weft::config {

constexpr std::string_view kUtf8ByteOrderMark = "\xEF\xBB\xBF";

class HjsonScanner {
 public:
  static constexpr int kEnd = -1;

  explicit HjsonScanner(SourcePtr source);

  size_t position() const { return at_; }
  void step() { ++at_; }
  // The byte here, or kEnd.
  int peek() const { return at_ < text_.size() ? static_cast<unsigned char>(text_[at_]) : kEnd; }
  // Steps over white space, line ends and comments, and returns the byte there, or kEnd.
  int skip_blank();

  // A key up to its ':' or, quoted, up to its closing quote; `text` is decoded. Requires: skip_blank() was not kEnd.
  struct Key {
    std::string text;
    Span span;
  };
  Key key();

  // A string, number, boolean or null. Requires: peek() is none of { } [ ] , : and not kEnd.
  Value scalar();

  [[noreturn]] void fail(Span span, Words message, Words fix = {}) const;
  // For what does not fit together. An unquoted text that swallowed a brace earlier is the likelier cause, and is named.
  [[noreturn]] void fail_structure(Span span, Words message, Words fix = {}) const;
  // The character at the position, for messages.
  std::string_view found() const;
  Span found_span() const { return {at_, at_ + found().size()}; }

 private:
  void skip_block_comment();
  void skip_line();
  bool at_comment(size_t at) const;

  Value quoted();
  void decode_escape(std::string& out);
  char32_t hex_escape(size_t backslash);
  [[noreturn]] void fail_control(size_t quote) const;

  Value multiline();
  size_t indent_here();
  void skip_indent(size_t most);
  bool take_line_end();

  Value quoteless();
  bool read_number(Span token, Value& value) const;
  Value rest_of_line(size_t begin);

  Key unquoted_key();

  SourcePtr source_;
  std::string_view text_;
  size_t at_ = 0;
  Span swallowed_ = {};  // the first unquoted text with an unmatched '}' or ']'; empty when there is none
  // How many characters of its line precede `columns_at_`; see indent_here.
  size_t columns_at_ = 0;
  size_t columns_ = 0;
  bool on_first_line_ = true;
};

}  // namespace weft::config
