// Makes optimizer settings from the `optimizer` section of a config, with DeepSpeed's names and defaults. Plain values,
// any thread. Failure: Error(kInput) with everything that is wrong about the section, or with the names weft knows.
#pragma once

#include <string_view>
#include <variant>

#include "weft/config/resolved.h"
#include "weft/optim/core/kernels.h"

namespace weft::optim {

// Which update, and its numbers: those of one parameter group.
using UpdateSettings = std::variant<AdamSettings, SgdSettings, LionSettings, AdagradSettings, LambSettings>;

// Adagrad, Adam, AdamW, Lamb and Lion in any case, SGD as torch writes it. "Adam" is AdamW unless adam_w_mode is false:
// DeepSpeed's rule. Its classes' names (FusedAdam, CPUAdam, DeepSpeedCPUAdam, FusedLamb, FusedLion and so on) are taken too, as what
// the class computes.
UpdateSettings read_optimizer(const config::Optimizer& section);
// What DeepSpeed's configs call it: "Adam" for "FusedAdam".
std::string_view config_name(std::string_view type);

double lr_of(const UpdateSettings& settings);
void set_lr(UpdateSettings& settings, double lr);

}  // namespace weft::optim
