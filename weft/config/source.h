// One file of text and the places in it. Everything the config room says about a file it says with a place: line, column.
//
// A Source is immutable once made and shared by whoever points into it (std::shared_ptr<const Source>); any thread.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "weft/base/env.h"
#include "weft/base/error.h"
#include "weft/config/words.h"

namespace weft::config {

// Bytes [begin, end) of a source's text.
struct Span {
  size_t begin = 0;
  size_t end = 0;
  bool operator==(const Span&) const = default;
};

// Both count from 1. A column is a character (code point), not a byte: what an editor shows in its status line.
struct Place {
  int line = 1;
  int column = 1;
  bool operator==(const Place&) const = default;
};

class Source {
 public:
  // `name` is what messages call it: a path, or "<base64>".
  Source(std::string name, std::string text);

  const std::string& name() const { return name_; }
  std::string_view text() const { return text_; }
  // The characters of a span. Requires: within the text.
  std::string_view at(Span span) const { return text().substr(span.begin, span.end - span.begin); }

  // The same for a message: one line, at most 40 characters, "…" where something was left out.
  std::string brief(Span span) const;

  Place place(size_t offset) const;
  int line_count() const { return static_cast<int>(line_starts_.size()); }
  // Line `number` (from 1) without its line end.
  std::string_view line(int number) const;
  // "name:line:column".
  std::string where(Span span) const;

 private:
  std::string name_;
  std::string text_;
  std::vector<size_t> line_starts_;
};

using SourcePtr = std::shared_ptr<const Source>;

// A file that cannot be read as a config: exit code 2. Knows the place and the rule, so that `weft check` can show both.
class ReadError : public Error {
 public:
  ReadError(std::string rule, SourcePtr source, Span span, Words message, Words fix = {});

  const std::string& rule() const { return rule_; }
  const SourcePtr& source() const { return source_; }
  Span span() const { return span_; }
  const Words& message() const { return message_; }
  const Words& fix() const { return fix_; }

 private:
  std::string rule_;
  SourcePtr source_;
  Span span_;
  Words message_;
  Words fix_;
};

// Whether DeepSpeed fails on the same file: on broken text yes; on what only weft limits (sizes, depth, NaN as a text) no.
bool deepspeed_refuses(const ReadError& error);

// A config is a page or two; what is larger was given by mistake (a checkpoint, a log), and is refused before it is read.
constexpr size_t kMaxSourceBytes = size_t{4} << 20;

// Reads a file as UTF-8 text. Throws ReadError (a directory, too large, binary, not UTF-8: with the place of the first bad
// byte) or IoError. A UTF-8 byte-order mark stays in the text; the readers step over it as DeepSpeed does.
SourcePtr read_source(Env& env, const std::string& path);

// The same checks on text that is already here.
SourcePtr checked_source(std::string name, std::string text);

}  // namespace weft::config
