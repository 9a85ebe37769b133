// Reads YAML (libyaml's events) into the same tree as HJSON, with PyYAML's safe_load reading of plain scalars: YAML 1.1,
// so `yes`/`on` are true and `1e8` is a *string* (PyYAML wants a dot and a sign: 1.0e+8). Such a scalar is kept as a number,
// because that is what its author meant, and listed in `exponent_strings` so that the doctor can say what PyYAML would do.
// Anchors, aliases and `<<` merges are followed, within kMaxYamlNodes.
//
// Pure functions, any thread.
#pragma once

#include <vector>

#include "weft/config/value.h"

namespace weft::config {

constexpr size_t kMaxYamlNodes = 200'000;  // aliases expand: a page of text can describe billions of nodes

struct YamlTree {
  Value root;
  std::vector<Span> exponent_strings = {};
};

// One document. Throws ReadError with the place: syntax, duplicate keys, several documents, too deep (hjson.h's kMaxDepth),
// too many nodes.
YamlTree parse_yaml(const SourcePtr& source);

}  // namespace weft::config
