// What init() goes by: the caller's options, with the environment's word over them. Internal to init().
#pragma once

#include <string>

#include "weft/comm/environment.h"
#include "weft/comm/world.h"

namespace weft {

struct InitSettings {
  config::Transport transport = config::Transport::kAuto;
  double deadline_s = 600, join_deadline_s = 300;
  c10::DeviceType device = c10::DeviceType::CPU;
  bool check_calls = false;
  std::string flight_dir, faults;
  std::string attempt;           // of a run that is restarted: "0", "1", ...
  bool agent_has_store = false;  // torchrun's own process serves the store
};

// getenv as a Lookup.
comm::Lookup read_environment();

InitSettings read_init_settings(const InitOptions& options, const comm::Lookup& lookup, const comm::RankIdentity& self);

}  // namespace weft
