// Small values exchanged between rank processes through files in one folder: written aside, then renamed, so a reader
// sees a whole value or none. The same idea as c10d's FileStore, without torch.
//
// Threads: one FileStore per thread or process; any number on one folder. Failure: a wait throws TimedOut at its
// deadline, barrier() throws PeerEnded when a missing rank has ended; file errors are std::system_error.
#pragma once

#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>

#include "tests/support/deadline.h"

namespace weft::test {

// A rank can never arrive, because it has ended. The text names it.
class PeerEnded : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

class FileStore {
 public:
  // For a rank. `within` is how long its waits may take unless a call says otherwise.
  FileStore(std::filesystem::path folder, int rank, int world, Seconds within);

  void set(std::string_view key, std::string_view value);
  bool has(std::string_view key) const;
  // Waits until some rank has set it.
  std::string get(std::string_view key) const { return get(key, within_); }
  std::string get(std::string_view key, Seconds within) const;
  // Every rank arrives or nobody leaves. May be used again and again. Requires: a rank of 0 or more.
  void barrier() { barrier(within_); }
  void barrier(Seconds within);

  // The parent says that a rank is no more, so that nobody waits for it in a barrier.
  void mark_ended(int rank);

 private:
  std::filesystem::path arrival_file(int rank) const;
  std::filesystem::path ended_file(int rank) const;
  void write(const std::filesystem::path& file, std::string_view value);
  void wait_for_arrival(int rank, const Deadline& deadline) const;

  std::filesystem::path folder_;
  int rank_, world_;
  Seconds within_;
  int num_barriers_ = 0;
};

}  // namespace weft::test
