// Parameters with a learning rate or a weight decay of their own.
//
//   auto engine = weft::initialize(model, config, world,
//                                  {.groups = {weft::parameters_like("*.bias", {.weight_decay = 0}),
//                                              weft::vectors({.weight_decay = 0}), ...}});
//
// A parameter belongs to the first group that takes it; those nobody takes have the config's numbers. Values; any thread.
// Frozen ones belong to groups too: theirs are the numbers when they are unfrozen. Failure: Error(kInput) for a group that takes nothing
// or whose numbers cannot be.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/engine/model_tensors.h"
#include "weft/optim/core/optimizer_settings.h"
#include "weft/plan/plan.h"

namespace weft {

// What is absent is as in the config.
struct GroupNumbers {
  std::optional<double> lr = {}, weight_decay = {};
};

struct ParameterGroup {
  std::string name;  // for messages
  std::function<bool(const std::string& name, const at::Tensor& parameter)> takes;
  GroupNumbers numbers = {};
};

// By name: '*' stands for any text, '?' for one character.
ParameterGroup parameters_like(std::string pattern, GroupNumbers numbers);
// Biases, the weights of norms, and all else that has fewer than two dimensions.
ParameterGroup vectors(GroupNumbers numbers);

}  // namespace weft

namespace weft::engine {

struct ParameterGroups {
  std::vector<optim::UpdateSettings> settings;  // by group; the last is the config's own
  std::vector<GroupNumbers> numbers;            // by group, as they were asked for
  std::vector<int> of;                          // by parameter
};

// Error(kInput) for what is negative or not finite; `where`: the title's first words.
void check_number(const std::string& where, std::string_view name, double number);

ParameterGroups sort_out(const std::vector<ParameterGroup>& groups, const ModelTensors& model,
                         const plan::ParameterTable& table, const optim::UpdateSettings& base);

// Which parameter is in which group, and with what numbers: in words that must be equal on all ranks.
std::vector<std::string> describe(const ParameterGroups& groups);

// Elements of a rank's part of a bucket that are updated alike; padding goes with what is before it.
struct Run {
  int64_t first = 0, count = 0;
  int group = 0;
  int64_t joined = 0;
  bool operator==(const Run&) const = default;
};

struct Part {
  int parameter = 0;
  int64_t first = 0, count = 0;  // in this rank's part of the bucket
  int64_t parameter_first = 0;   // in the parameter
};

// By place. Of rank `rank`, or of the whole bucket.
std::vector<Part> parts_of(const plan::Plan& plan, int bucket, std::optional<int> rank);
// Together they are all `size` elements; there is one at least. `joined`: by parameter, the update it joined after; none: the first.
std::vector<Run> runs_of(const std::vector<Part>& parts, int64_t size, const std::vector<int>& group_of,
                         const std::vector<int64_t>& joined = {});

}  // namespace weft::engine
