// What every reader owes, whatever it was given: places inside the text, and errors that say something. Aborts otherwise,
// which is how a fuzz target fails.
#pragma once

#include <cstdlib>

#include "weft/config/value.h"

namespace weft::fuzz {

inline void check_span(const config::Source& source, config::Span span) {
  if (span.begin > span.end || span.end > source.text().size()) std::abort();
}

inline void check_spans(const config::Source& source, const config::Value& value) {
  check_span(source, value.span);
  for (const auto& item : value.items) check_spans(source, item);
  for (const auto& member : value.members) {
    check_span(source, member.key_span);
    check_spans(source, member.value);
  }
}

inline void check_error(const config::ReadError& error) {
  check_span(*error.source(), error.span());
  if (error.rule().empty() || error.message().en.empty() || error.message().zh.empty()) std::abort();
  if (error.fix().en.empty() != error.fix().zh.empty()) std::abort();
  error.source()->where(error.span());
}

}  // namespace weft::fuzz
