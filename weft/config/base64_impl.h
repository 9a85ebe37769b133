// Base64 as launchers pass a config on the command line. Internal to the room; free functions, any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace weft::config {

// The bytes of padded base64, urlsafe or standard; nothing for anything else.
std::optional<std::string> decode_base64(std::string_view text);

// Whether the text looks like the base64 of an object, whole or damaged: the letters are right and it begins as '{' does.
bool looks_like_base64_object(std::string_view text);

}  // namespace weft::config
