// Reads HJSON as Python's hjson 3.1 does, which is what DeepSpeed reads its config with: comments (# // /* */), trailing
// commas, unquoted keys, newlines for commas, ''' strings, no braces around the root, quoteless strings up to the line's end.
// Plain JSON is a part of it.
//
// Where it differs from hjson (docs/config_differences.md): duplicate keys are refused as DeepSpeed refuses them; nesting
// stops at kMaxDepth where Python's recursion limit would stop it; integers must fit 64 bits.
//
// Pure functions, any thread. Time and memory are linear in the text.
#pragma once

#include "weft/config/value.h"

namespace weft::config {

constexpr int kMaxDepth = 200;

// Throws ReadError with the place.
Value parse_hjson(const SourcePtr& source);

}  // namespace weft::config
