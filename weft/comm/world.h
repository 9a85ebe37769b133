// The first call of a training program: finds out who we are, meets the other ranks, and returns the group of all of them.
//
//   auto world = weft::init();
//   world.group->all_reduce(tensor);
//
// Reads the environment of torchrun, `weft run`, Slurm or Open MPI (environment.h) and says in one log line what it found and
// what it chose: shared memory among the ranks of one host on CPU, NCCL on CUDA, Gloo else, and shared memory inside hosts
// with Gloo between them when several ranks are on several hosts. Calls are kept in a flight recorder, which is written to
// `flight_dir` when one fails; `weft blame` reads it.
//
// Ownership: the caller's; the group ends with the last copy. Threads: once per rank. Failure: Error(kInput) for an
// environment that cannot be right, PeerLost for a rank that does not come by the join deadline, IoError.
#pragma once

#include <c10/core/Device.h>

#include <memory>
#include <string>

#include "weft/comm/environment.h"
#include "weft/comm/group.h"
#include "weft/config/resolved.h"

namespace weft {

struct InitOptions {
  config::Transport transport = config::Transport::kAuto;  // WEFT_TRANSPORT overrides
  double deadline_s = 600;                                 // of each collective; WEFT_DEADLINE_S overrides
  double join_deadline_s = 300;                            // for all ranks to come; WEFT_JOIN_DEADLINE_S overrides
  c10::DeviceType device = c10::DeviceType::CPU;           // where the tensors will be
  bool check_calls = false;       // compare every call with the peers' before it is made; WEFT_CHECK_CALLS=1 as well
  std::string flight_dir = {};    // "": weft_flight/RUN below the working folder; WEFT_FLIGHT_DIR overrides
  comm::Lookup environment = {};  // getenv when empty
};

struct World {
  std::shared_ptr<comm::Group> group;
  int rank = 0, size = 1;
  int local_rank = 0, local_size = 1;  // among the ranks of this host
  int num_hosts = 1;
  c10::Device device = c10::DeviceType::CPU;
  std::string run_id;
};

World init(const InitOptions& options = {});

}  // namespace weft
