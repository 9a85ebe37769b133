// A store in several folders: hosts with disks, or memory, of their own. Each folder holds the files of the ranks that see it, and the manifest
// of all; to load, ranks get from each other what they need and do not have.
//
//   SpreadStore store(group, device, env, "ckpt");                     // finds out who sees which folder
//   store.save(behind, request, fill, Passing::kNone);                 // instead of checkpoint::save_step()
//   for (const auto& name : store.step_names(group)) {
//     const auto found = store.bring(group, name, files_i_need);       // found.folder: all that this rank needs is there
//   }
//
// The first rank that sees a folder leads those who see it. A step counts where every file of its manifest is in some folder. Folders commit
// one by one, and older steps go only when all have.
//
// Every call is a collective of all ranks. Ownership: borrows the Env. Threads: one call at a time; save() may run in a thread of its own,
// with a group of its own. Failure: Error on all ranks, PeerLost.
#pragma once

#include <c10/core/Device.h>

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "weft/base/env.h"
#include "weft/base/error.h"
#include "weft/checkpoint/manifest.h"
#include "weft/checkpoint/save_step.h"
#include "weft/comm/group.h"

namespace weft::engine {

enum class Passing {
  kNone,  // a file lies where its rank is
  kNext,  // and in the next folder: one of them can be lost
};

class SpreadStore {
 public:
  // Makes the folder where it is missing. A rank that cannot write to its folder is alone with it.
  SpreadStore(comm::Group& group, c10::Device device, Env& env, std::string folder);

  int num_folders() const { return static_cast<int>(members_.size()); }
  // Whether this rank is the first of those that see its folder.
  bool leads() const { return members_[mine_].front() == rank_; }
  // Ranks by folder; and which of these is this rank's.
  const std::vector<std::vector<int>>& members() const { return members_; }
  size_t mine() const { return mine_; }
  const std::string& folder() const { return folder_; }

  // Of `request`, the head is rank 0's.
  void save(comm::Group& group, const checkpoint::SaveRequest& request,
            const std::function<void(checkpoint::RankFileWriter& writer)>& fill, Passing passing) const;

  // Names of steps' folders that some rank has, in the order to try them.
  std::vector<std::string> step_names(comm::Group& group) const;

  struct Found {
    std::string folder = {};            // of the step, here
    std::optional<Error> missing = {};  // why it cannot be used
  };
  using Needed = std::function<std::set<std::string>(const checkpoint::Manifest& manifest)>;
  // Throws, on all ranks, where what others have cannot be written here.
  Found bring(comm::Group& group, const std::string& name, const Needed& needed) const;

 private:
  struct Holding;
  struct Transfer;
  struct Choice;
  struct Moving;

  void look_around(comm::Group& group);
  std::vector<std::string> exchange(comm::Group& group, const std::string& mine) const;
  int receiver_of(int rank) const;
  std::string pass_files(comm::Group& group, const std::string& folder,
                         const std::vector<checkpoint::Part>& parts) const;
  std::vector<checkpoint::Part> write_parts(comm::Group& group, const checkpoint::SaveRequest& request,
                                            const std::function<void(checkpoint::RankFileWriter&)>& fill) const;
  std::string manifest_from_first(comm::Group& group, const checkpoint::SaveRequest& request,
                                  const std::vector<checkpoint::Part>& parts, const std::string& problem) const;
  bool is_in_mine(const checkpoint::StoredFile& file, const std::vector<checkpoint::Part>& parts,
                  Passing passing) const;

  std::string holding_text(const std::string& name) const;
  Choice choose(comm::Group& group, const std::string& name) const;
  std::vector<Transfer> plan_transfers(comm::Group& group, const Choice& choice, const Needed& needed) const;
  void carry_out(comm::Group& group, const std::vector<Transfer>& transfers, Moving& moving) const;

  const c10::Device device_;
  Env& env_;
  const std::string folder_, host_;
  const int rank_;
  std::vector<std::vector<int>> members_;
  size_t mine_ = 0;
};

}  // namespace weft::engine
