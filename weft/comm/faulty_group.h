// A Group that misbehaves by a script, so that what a run does about a dead, slow or lying rank can be tried out.
//
//   auto faults = parse_faults("rank=1 at=5 op=all_reduce do=kill; rank=0 at=3 do=delay:0.2");
//   std::shared_ptr<Group> world = make_faulty_group(make_shm_group(spec), faults);
//
// A script is a list of faults with ';' between them, and a fault a list of NAME=VALUE with spaces between them:
//
//   do=    what happens:  kill       SIGKILL to this process, as a crash or the out-of-memory killer would
//                         stop       SIGSTOP to this process: alive, and silent
//                         delay:S    nothing for S seconds
//                         corrupt:B  inverts the bits of byte B of this rank's data: the input before, the output after
//                         drop       the call is never made, and seems to be done
//                         throw      an Error in place of the call, or after it
//   rank=  where; every rank when left out. Ranks are those of the group that was wrapped, also in its parts.
//   op=    which operation (all_reduce, ...); any when left out.
//   at=    which of the rank's calls that fit, counted from 1 over the group and its parts; 1 when left out.
//   when=  before (when left out) or after the call. A call with something to come after it is made a blocking one.
//
// Each fault happens once in a rank. Calls are collectives, send and recv; allocate, read and split are left alone.
//
// Ownership, threads: as Group. Failure: Error(kInput) for a script that cannot be read, with the word that is wrong, and for
// a rank or a byte that is not there; otherwise what the script asks for, and as Group.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "weft/comm/group.h"

namespace weft::comm {

enum class FaultAction { kKill, kStop, kDelay, kCorrupt, kDrop, kThrow };

struct Fault {
  FaultAction action = FaultAction::kThrow;
  double delay_s = 0;  // of kDelay
  int64_t byte = 0;    // of kCorrupt
  std::optional<int> rank = {};
  std::optional<Operation> operation = {};
  uint64_t at = 1;
  bool after = false;
};

// The variable that holds the script of a run.
inline constexpr const char* kFaultsVariable = "WEFT_FAULTS";

// An empty script has no faults.
std::vector<Fault> parse_faults(std::string_view script);

std::shared_ptr<Group> make_faulty_group(std::shared_ptr<Group> inner, const std::vector<Fault>& faults);

}  // namespace weft::comm
