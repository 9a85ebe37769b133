// What can be wrong about a call of the engine or about the model behind its back.
//
// Pure looks; any thread, one at a time. Failure: Error(kBug) with what was meant instead.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "weft/engine/model_tensors.h"
#include "weft/memory/flat_buckets.h"
#include "weft/plan/plan.h"

namespace weft::engine {

[[noreturn]] void misuse(std::string title, std::string fix);
[[noreturn]] void refuse_dead(const std::string& why, int rank);

void check_loss(const at::Tensor& loss);

// The table with what was frozen or unfrozen since; none: nothing was.
std::optional<plan::ParameterTable> table_now(const ModelTensors& model, const plan::ParameterTable& table);

// Why the parameters are no longer those that were laid out; "": they are.
std::string change_of(const ModelTensors& model, const plan::Plan& plan, const memory::FlatBuckets& buckets);

// Which of them, if any, have their memory in common with a tensor that is none of them: an alias made before initialize(), which will
// keep that memory and today's values when they are laid into buckets. By name.
std::vector<std::string> aliased(const ModelTensors& model);

// Lets go of the gradients that are there before an engine: no step of its own asked for them, and the first would apply them. The names
// of those that no other engine left behind.
std::vector<std::string> drop_earlier_gradients(const ModelTensors& model);

// Sees parameters that were written to by others than the engine.
class WriteWatch {
 public:
  // The first that was written to since the last call; "": none, or this is the first call.
  std::string look(const ModelTensors& model, const plan::Plan& plan);
  // What was written to this one so far is known of.
  void accept(const ModelTensors& model, int parameter);

 private:
  std::vector<uint32_t> versions_;
};

}  // namespace weft::engine
