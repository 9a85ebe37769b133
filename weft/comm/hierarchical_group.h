// Several ranks on several hosts: shared memory inside a host, the network between them, one rank per host talking.
//
// all_reduce, reduce, broadcast, reduce_scatter, all_gather and barrier go by way of the hosts' first ranks (the leaders), so
// the wire carries each host's data once, whatever its number of ranks. Large ones go in chunks: while the leaders exchange
// one, the host sums the next. all_to_all, gather, scatter, send and recv gain nothing from leaders and use the network group
// of all ranks. Memory of allocate_common() is one for the ranks of a host: what is gathered into it nobody copies. Sums are per
// host in rank order, then over hosts in order: the same bits in every rank and every run with this layout, but not those of one
// host (for half types the hosts' sums are rounded once more).
//
// Ownership: shares the groups it is made of. Threads: as Group. Failure: as Group; a roll call of all ranks names the lost one,
// also when a leader only gave up because one of its own was lost.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "weft/comm/c10d/roll_call.h"
#include "weft/comm/group.h"

namespace weft::comm {

// `flat` has all ranks over the network, `local` those of this host in the same order; host_of[r] numbers rank r's host, from
// 0 in order of first appearance; `watch` is a roll call of all ranks for this alone. A collective. Requires: more than one
// host.
std::shared_ptr<Group> make_hierarchical_group(std::shared_ptr<Group> flat, std::shared_ptr<Group> local,
                                               const std::vector<int>& host_of, std::shared_ptr<RollCall> watch);

}  // namespace weft::comm
