// The config inside a training YAML: where it is, and what Accelerate's short form means. Internal to the room; pure
// functions, any thread.
#pragma once

#include <string>

#include "weft/config/value.h"

namespace weft::config {

// What a training YAML says about its DeepSpeed config. Pointers lead into the tree that was given.
struct YamlConfig {
  enum class Kind {
    kNone,
    kWhole,       // the YAML is the config
    kInline,      // `value` is the config
    kAccelerate,  // `value` is Accelerate's deepspeed_config
    kReference,   // `value` is the path, a string
  };
  Kind kind = Kind::kNone;
  const Value* value = nullptr;
};

// Requires: an object.
YamlConfig find_config(const Value& training);

// The ds_config that Accelerate makes of its own keys and of `mixed_precision` beside them. Requires: kAccelerate.
Value accelerate_config(const Value& training, const Value& config);

}  // namespace weft::config
