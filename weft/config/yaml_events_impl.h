// libyaml's events, one after the other, with places in bytes and errors as ReadErrors. Internal to the room; belongs to
// one parse.
#pragma once

#include <yaml.h>

#include <cstdint>
#include <string_view>
#include <vector>

#include "weft/config/value.h"

namespace weft::config {

class YamlEvents {
 public:
  explicit YamlEvents(SourcePtr source);
  ~YamlEvents();
  YamlEvents(const YamlEvents&) = delete;
  YamlEvents& operator=(const YamlEvents&) = delete;

  // Steps to the next event and returns its type. Throws ReadError for text that is not YAML.
  yaml_event_type_t next();
  // The event stepped to last; libyaml owns its texts until the next step.
  const yaml_event_t& event() const { return event_; }
  yaml_event_type_t type() const { return event_.type; }
  Span span() const { return {offset(event_.start_mark), offset(event_.end_mark)}; }

 private:
  size_t offset(const yaml_mark_t& mark) const;
  [[noreturn]] void fail() const;

  SourcePtr source_;
  std::vector<uint32_t> offsets_;  // of each character; empty for ASCII, where they are the same
  size_t skipped_ = 0;             // the byte-order mark, which libyaml does not count
  yaml_parser_t parser_;
  yaml_event_t event_;
};

}  // namespace weft::config
