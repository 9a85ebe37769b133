// A config as it was found: which file it came from, what form it has, and what the training config around it says.
//
//   ds_config.json            HJSON or JSON
//   eyJ0cmFpbl9iYXRjaF…        urlsafe base64 of it (what launchers pass), given in place of a path
//   config.yaml               the YAML form of a ds_config (top-level zero_optimization, train_batch_size, …)
//   train.yaml                a training config that refers to one: `deepspeed: ds.json` (LLaMA-Factory, axolotl, HF),
//                             `deepspeed: {config_file: ds.json}`, `deepspeed_config: {deepspeed_config_file: ds.json}`
//                             (Accelerate); the path is taken relative to the YAML, then to the working folder
//   accelerate.yaml           `deepspeed_config: {zero_stage: 3, …}`: Accelerate's own keys, put in their ds_config places
//   train.yaml                `deepspeed: {zero_optimization: …}`: the config inline
//
// A plain value; any thread. Failure: ReadError (the place), IoError.
#pragma once

#include <string>
#include <vector>

#include "weft/base/env.h"
#include "weft/config/value.h"

namespace weft::config {

enum class Form { kHjson, kYaml, kBase64, kAccelerateYaml };

struct Document {
  Form form = Form::kHjson;
  SourcePtr source;  // the text that `root`'s spans point into
  Value root;        // always an object

  // The YAML that referred to the config, or that holds it among other things; else null. Its values resolve "auto".
  SourcePtr outer;
  Value training;  // the YAML's whole tree; kNull without one

  std::vector<Span> exponent_strings = {};  // see yaml.h; into `source`
  bool has_byte_order_mark = false;
};

// `path` is a file, or base64 text when no such file exists and it decodes to an object.
Document load_document(Env& env, const std::string& path);

// From text: `name` decides the form by its ending (.yaml, .yml: YAML). References are not followed (there is no folder).
Document parse_document(SourcePtr source);

}  // namespace weft::config
