// Changes a config's text and nothing else about it: comments, order, indentation and line ends stay the author's.
//
// Works on HJSON/JSON and on YAML (block and flow). Pure functions, any thread.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "weft/config/document.h"
#include "weft/config/problem.h"

namespace weft::config {

// The document's text with one edit made, or nothing where it cannot be made (the path is not there, an ancestor is not an
// object, the key to move to exists already). The result parses, and differs from the old tree by exactly that edit.
std::optional<std::string> apply_edit(const Document& document, const Edit& edit);

// All of a problem's edits, one after the other; nothing unless all can be made.
std::optional<std::string> apply_edits(const Document& document, std::span<const Edit> edits);

// What the edit does to the tree alone, spans left as they were; false where it cannot be made. apply_edit() holds its text
// against this.
bool apply_edit_to_tree(Value& root, const Edit& edit);

// The same values under the same keys; places, the order of members and 1 against 1.0 do not count.
bool same_tree(const Value& a, const Value& b);

}  // namespace weft::config
