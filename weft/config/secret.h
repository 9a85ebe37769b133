// Where a config holds a secret: the values of the settings that the table marks, and of keys so like theirs that they are meant.
//
// A key that is misspelt or stands in the wrong place, or a text that does not parse, keeps nobody from seeing what is there. So this
// hides rather too much: "Token", "apikey", "hub_token" and "tokn" count, wherever they stand. Pure functions, any thread.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weft/config/document.h"

namespace weft::config {

// What is shown of a secret. Files of a run and its log are for more eyes than the config is.
inline constexpr std::string_view kNotShown = "(set, not shown)";

// The values that are secrets, in the order of the file; into `document.source`.
std::vector<Span> find_secrets(const Document& document);

// Of a text that nothing was read from: what follows each word that is like a secret's key, to the end of the value where that can
// be seen, else to the end of the line and of the lines indented below it.
std::vector<Span> find_secrets(const Source& source);

// `text`, which is what the span of a text that cannot be read says, for a message about it; kNotShown where it has of a secret.
std::string cited(const Source& source, Span span, std::string_view text);

bool overlaps(std::span<const Span> secrets, Span span);

}  // namespace weft::config
