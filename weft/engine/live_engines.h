// Which engine trains a parameter: a list of those alive in this process, by the parameters' own tensors.
//
// Listed holds an engine's place in it, and must not outlive the tensors it was given. Threads: any. Failure: trainer_of() throws
// Error(kBug) for a tensor that no engine trains.
#pragma once

#include "weft/engine/model_tensors.h"

namespace weft::engine {

class Training;

class Listed {
 public:
  Listed(Training& training, const ModelTensors& model);
  ~Listed();
  Listed(const Listed&) = delete;
  Listed& operator=(const Listed&) = delete;

 private:
  Training& training_;
  const ModelTensors& model_;
};

// Nobody: null.
Training* find_trainer(const at::Tensor& parameter);
// The youngest, where one model was given to several: it has laid out the parameters last.
Training& trainer_of(const at::Tensor& parameter);

}  // namespace weft::engine
