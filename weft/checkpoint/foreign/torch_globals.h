// The names that a file of torch.save may hold, and what the types among them are. Nothing of it is ever called: what is not about
// tensors stays an object with a name (pickle.h).
//
// Pure functions, any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace weft::checkpoint::foreign {

bool is_known_global(std::string_view module, std::string_view name);

struct ElementType {
  std::string_view dtype;  // as safetensors spells it: F32, BF16, ...
  uint64_t bytes = 0;      // of one element
};
// "torch.FloatStorage", "torch.float32"; nothing for those that safetensors has no word for, and for other names.
std::optional<ElementType> element_type(std::string_view global);

}  // namespace weft::checkpoint::foreign
