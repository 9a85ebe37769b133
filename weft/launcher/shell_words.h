// Words for a shell and back: what a POSIX shell reads as exactly one word, and a command line cut into its words.
//
// Free functions, no state, any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace weft::launcher {

// 'it'\''s' for it's; plain words stay as they are. Whatever bytes it holds, the shell sees one word and expands nothing.
std::string quote_for_shell(std::string_view word);

// {"ssh", "-J", "a b"} for: ssh -J 'a b'. Quotes and backslashes as in a shell; nothing else is special.
// Failure: Error(kInput) for a quote that does not end.
std::vector<std::string> split_words(std::string_view text);

}  // namespace weft::launcher
