// The shared-memory transport: the fabric, for tensors.
//
// Tensors of allocate() (and views of them) at the same place in every rank are worked on where they lie; others are staged.
// Sums are in rank order and carried in fp32 for half types, so every rank, both kinds and any chunking give the same bits.
// Threads, ownership: as Group. Failure: as Group; IoError in every rank when memory is refused, and the group goes on.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "weft/comm/group.h"

namespace weft::comm {

struct ShmGroupSpec {
  std::string run_id;  // the same in every rank of the group, and nowhere else on this host
  std::string name = "world";
  int rank = 0, world = 1;
  double deadline_s = 600;
  double join_deadline_s = 60;
};

// Shared memory that stands in this host because of this process: what it made for a group, whoever else has it mapped.
int64_t shared_bytes_made();

// Waits until all ranks are there.
std::shared_ptr<Group> make_shm_group(const ShmGroupSpec& spec);

}  // namespace weft::comm
