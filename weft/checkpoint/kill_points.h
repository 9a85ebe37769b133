// Places in a save, a commit, a removal and a load at which a process can be made to die, to try out what is left then:
//
//   WEFT_KILL_AT=1:commit.renamed:3     rank 1 dies when it passes this place the third time, in the first attempt of a run
//
// Without the variable a place costs a look at a flag. Threads: any.
#pragma once

namespace weft::checkpoint {

enum class KillPoint {
  kSaveBegin,      // save.begin: nothing is written
  kSaveOpened,     // save.opened: the file is made, and empty but for its header
  kSaveWritten,    // save.written: the file is durable
  kSaveNoted,      // save.noted: rank 0 can know, but for rank 0
  kPassHalf,       // pass.half: half of another host's file is here
  kPassDone,       // pass.done: all of it
  kCommitBegin,    // commit.begin: all parts are there
  kCommitSealed,   // commit.sealed: the manifest is durable
  kCommitRenamed,  // commit.renamed: the step counts
  kCommitPointed,  // commit.pointed: latest names it
  kPruneBegin,     // prune.begin
  kPruneRenamed,   // prune.renamed: an old step is out of the way, its files are there
  kLoadOpened,     // load.opened: the manifest is read
  kLoadRead,       // load.read: this rank has all its bytes
};

// As in WEFT_KILL_AT.
const char* name_of(KillPoint point);

void pass(KillPoint point);

}  // namespace weft::checkpoint
