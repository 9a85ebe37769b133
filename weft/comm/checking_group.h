// A Group that compares, before each call, what every rank is about to do: a branch that only some ranks take ends with an
// error in all of them that names both sides, not with a hang or with mixed-up bytes. For looking into a run, since
// each call costs a small all_gather more, and an asynchronous one waits for the other ranks to call it.
//
//   std::shared_ptr<Group> world = make_checking_group(make_shm_group(spec));
//
// Compared: the operation, the type, the reduction, the root, the size, the counts of all_gather and reduce_scatter, and
// how many calls there were. The parts of gather, scatter and all_to_all differ by nature; there the bytes that ranks give
// must add up to the bytes that ranks take. allocate() is compared too. send, recv, read and split are not: they are not
// for all ranks. A rank that sends while the others reduce is found by the deadline only.
//
// The comparison runs in a group of its own, so that calls under way are not held up and ranks that differ still meet.
// It moves host memory: give one that can (gloo, shm) as `companion` where `inner` cannot (nccl).
//
// Ownership, threads: as Group. Failure: Error(kBug) in every rank, with the same text; nobody has made the call then, and
// the group goes on. PeerLost as Group.
#pragma once

#include <memory>

#include "weft/comm/group.h"

namespace weft::comm {

// A collective where there is no companion: one is split off `inner` then.
std::shared_ptr<Group> make_checking_group(std::shared_ptr<Group> inner, std::shared_ptr<Group> companion = nullptr);

}  // namespace weft::comm
