// What a bucket of gradients is called when people are told about it: by the modules whose parameters it holds.
//
//   bucket_names({{"model.layers.4.mlp.weight", "model.layers.3.mlp.weight"}, {"model.embed.weight"}});
//                                                             // "layers.3 to layers.4", "embed"
//
// Pure function, any thread, no failure.
#pragma once

#include <string>
#include <vector>

namespace weft {

// By bucket, from the names of its parameters in the order they lie there. What stands before all numbered modules alike ("model.") is
// left out; a module in a list keeps its number.
std::vector<std::string> bucket_names(const std::vector<std::vector<std::string>>& parameters);

}  // namespace weft
