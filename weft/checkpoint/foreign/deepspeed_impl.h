// What the readers of DeepSpeed's stages share (deepspeed.h).
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weft/checkpoint/foreign/deepspeed.h"

namespace weft::checkpoint::foreign {

// Kinds of optimizer state that an engine saves too, under the same names.
inline constexpr std::string_view kStateKinds[] = {"exp_avg", "exp_avg_sq", "momentum_buffer", "sum"};

[[noreturn]] void refuse_layout(std::string what, const std::string& path);

using Entry = std::pair<std::string_view, const Value*>;
// Of a dict with text keys, in its order; those with other keys are left out. Nothing for a value that is no dict.
std::vector<Entry> entries_of(const Value* dict);
std::map<std::string_view, const Value*> by_name(const Value* dict);
// The elements of a list or tuple; nothing for others.
std::vector<const Value*> items_of(const Value* list);
// The shape that is said of a parameter, and how many elements that is.
std::vector<int64_t> checked_shape(const Value& value, std::string_view name, const TorchFile& file);
uint64_t checked_size(const std::vector<int64_t>& shape);
// A tensor of a file that can be read.
FilePart part_of(const std::shared_ptr<TorchFile>& file, const Value& value, std::string_view name);
DeepSpeedTensor whole_tensor(DeepSpeedTensor::Role role, std::string name, const FilePart& part);

// Updates that an optimizer's state says it has made: its parameters' "step", its groups', nothing.
std::optional<int64_t> steps_in(const TorchFile& file, const Value* optimizer_state);
// By parameter, or by flat group: 0, 1, 2, ...; a list, or a dict "state".
std::map<int64_t, const Value*> states_in(const Value* optimizer_state);

// Stages 1 to 3. Fills parameters, optimizer state, the stage and the number of ranks.
void read_partitions(const DeepSpeedFiles& files, DeepSpeedCheckpoint& out);
// Stage 0: the same out of the one file there is. `names` are those of the parameters, in the model's order, with their tensors.
void read_whole_optimizer(const std::shared_ptr<TorchFile>& file,
                          const std::vector<std::pair<std::string, FilePart>>& names, DeepSpeedCheckpoint& out);

}  // namespace weft::checkpoint::foreign
