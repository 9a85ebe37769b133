// The inside of a RollCall: joining and leaving are in roll_call.cpp, the thread that looks and judges in
// roll_call_watch.cpp.
#pragma once

#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "weft/comm/c10d/roll_call.h"
#include "weft/comm/c10d/roll_call_records_impl.h"
#include "weft/comm/fabric/liveness.h"

namespace weft::comm {

// What the verdict's key holds until there is one: all that the watch reads is then always there.
inline constexpr char kNoVerdict[] = "none";

class RollCall::Impl {
 public:
  Impl(const GroupIdentity& self, const Store& store, Deadline deadline);
  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void begin(const Doing& what);
  void done(const Doing& what);
  bool has_ended() const;
  [[noreturn]] void throw_cause() const;
  [[noreturn]] void throw_cause(const Failure& failure);
  void on_end(std::function<void()> callback);

 private:
  // What was read of one peer.
  struct Seen {
    Beat beat;
    int num_unchanged = 0;  // reads in a row, a beat apart, that showed nothing new
    int num_gone = 0;       // the same for one that had left
  };

  void join(Deadline deadline);
  void refuse(const std::string& why);
  void await_members(Deadline deadline);
  void check_member(int rank);
  void leave() noexcept;
  void linger();
  bool all_were_told();

  void watch();
  void beat();
  void look();
  std::vector<bool> neighbours_alive() const;
  std::vector<Beat> read_beats();
  void note(const std::vector<Beat>& beats);
  std::optional<Verdict> judge(const std::vector<bool>& alive) const;
  std::optional<Verdict> judge_one(int rank, bool alive) const;
  std::optional<Verdict> death_before_leaving();
  bool leaving_matters(int rank) const;
  Verdict blame(const Failure& failure, const std::vector<Beat>& beats) const;
  bool waits_for_message_of(int rank) const;
  std::string waiting_in() const;
  Loss loss_of(LossKind kind, int rank, const Beat& beat, std::string detail) const;

  // Writes the verdict unless another stands there, and ends the group with the one that does.
  void conclude(const Verdict& verdict);
  void end_with(const Verdict& verdict);
  void end_with(std::exception_ptr cause);
  void store_is_gone(const StoreLost& lost);

  const GroupIdentity self_;
  const double interval_s_;
  const Store store_;
  const Member own_member_;
  std::vector<Member> members_;
  std::vector<fabric::PeerWatch> neighbours_;  // by rank; of other hosts, and of ourselves: not watching
  std::vector<std::string> keys_;              // the verdict's, then every rank's beat
  bool is_member_ = false;                     // our number is ours alone
  int server_rank_ = -1;                       // who serves the store; -1: none of us

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  Beat own_;
  std::vector<Doing> messages_;  // send and recv under way
  std::vector<Seen> seen_;
  bool stop_ = false, store_left_ = false;
  std::exception_ptr cause_;
  int lost_rank_ = -1;
  std::function<void()> callback_;
  std::thread thread_;
};

}  // namespace weft::comm
