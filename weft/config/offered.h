// Which of the optimizers and schedules that a DeepSpeed config can name weft has, and what it says of the others. Constant data, any
// thread.
#pragma once

#include <span>
#include <string_view>

#include "weft/config/words.h"

namespace weft::config {

// As a config names them. Adagrad, Adam, AdamW, Lamb and Lion in any case, as DeepSpeed reads them; SGD is torch's name.
std::span<const std::string_view> offered_optimizers();
std::span<const std::string_view> offered_schedules();

// `of` is "optimizer" or "scheduler". The names of DeepSpeed's classes count as their types do.
bool is_offered(std::string_view of, std::string_view type);

// Why weft has not got it, and what to do. Requires: not is_offered(of, type).
struct Absence {
  Words why;
  Words instead;
};
Absence absence_of(std::string_view of, std::string_view type);

}  // namespace weft::config
