// The saved state of a run: one safetensors file per save, DIR/step_00000100.safetensors, published whole and checked by hash
// when read. A run resumed from it goes on with the same bits.
//
// Failure: Error. A damaged newest file is reported in the log and the one before it is used.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "weft/base/env.h"
#include "weft/checkpoint/safetensors.h"

namespace weft::cli {

class TrainStateStore {
 public:
  // `identity` is what must not differ between the run that saved and the run that resumes (seed, data, batch, ...);
  // `machine` is what may, at the price of other bits (device, threads): a difference is reported in the log.
  TrainStateStore(Env& env, std::string folder, std::map<std::string, std::string> identity,
                  std::map<std::string, std::string> machine);

  void save(int64_t step, const checkpoint::NamedTensors& tensors);

  // Fills the tensors from the newest intact save and returns its step; nothing when the folder holds none.
  std::optional<int64_t> restore(const checkpoint::NamedTensors& tensors);

 private:
  void check_origin(const std::map<std::string, std::string>& found, const std::string& path) const;

  Env& env_;
  std::string folder_;
  std::map<std::string, std::string> identity_, machine_;
};

}  // namespace weft::cli
