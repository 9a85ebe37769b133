#include "tests/support/file_store.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cctype>
#include <fstream>
#include <iterator>
#include <thread>

#include "tests/support/posix.h"

namespace weft::test {
namespace {

// Short beside the start of a process, long beside a stat(2): two cores carry eight waiting ranks without noticing.
constexpr auto kPollInterval = std::chrono::milliseconds(1);

// Keys may hold any character. A file of a key never holds a '.', which leaves names with one to the store itself.
std::string file_name_for(std::string_view key) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string out = "key_";
  for (const char c : key) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) || c == '_' || c == '-') {
      out += c;
    } else {
      out += {'%', kHex[byte >> 4], kHex[byte & 15]};
    }
  }
  return out;
}

bool is_there(const std::filesystem::path& file) { return ::access(file.c_str(), F_OK) == 0; }

}  // namespace

FileStore::FileStore(std::filesystem::path folder, int rank, int world, Seconds within)
    : folder_(std::move(folder)), rank_(rank), world_(world), within_(within) {
  std::filesystem::create_directories(folder_);
}

void FileStore::set(std::string_view key, std::string_view value) { write(folder_ / file_name_for(key), value); }

bool FileStore::has(std::string_view key) const { return is_there(folder_ / file_name_for(key)); }

std::string FileStore::get(std::string_view key, Seconds within) const {
  const auto file = folder_ / file_name_for(key);
  const Deadline deadline(within);
  while (!is_there(file)) {
    if (deadline.passed()) {
      throw TimedOut(concat("rank ", rank_, ": nobody set '", key, "' within ", within.count(), " s"));
    }
    std::this_thread::sleep_for(kPollInterval);
  }
  std::ifstream in(file, std::ios::binary);
  if (!in) throw_errno("read", file.string());
  return {std::istreambuf_iterator<char>(in), {}};
}

void FileStore::barrier(Seconds within) {
  const Deadline deadline(within);
  ++num_barriers_;
  write(arrival_file(rank_), "");
  for (int rank = 0; rank < world_; ++rank) wait_for_arrival(rank, deadline);
}

void FileStore::mark_ended(int rank) { write(ended_file(rank), ""); }

std::filesystem::path FileStore::arrival_file(int rank) const {
  return folder_ / concat("barrier.", num_barriers_, ".rank.", rank);
}

std::filesystem::path FileStore::ended_file(int rank) const { return folder_ / concat("ended.", rank); }

void FileStore::write(const std::filesystem::path& file, std::string_view value) {
  static std::atomic<int> num_written{0};
  const auto aside = folder_ / concat("new.", ::getpid(), ".", num_written++);
  std::ofstream out(aside, std::ios::binary);
  out << value << std::flush;
  if (!out) throw_errno("write", aside.string());
  std::filesystem::rename(aside, file);
}

void FileStore::wait_for_arrival(int rank, const Deadline& deadline) const {
  const auto file = arrival_file(rank);
  while (!is_there(file)) {
    // It may have arrived and ended since we looked.
    if (is_there(ended_file(rank)) && !is_there(file)) {
      throw PeerEnded(concat("rank ", rank_, ": rank ", rank, " ended without arriving at barrier ", num_barriers_));
    }
    if (deadline.passed()) {
      throw TimedOut(concat("rank ", rank_, ": rank ", rank, " did not arrive at barrier ", num_barriers_));
    }
    std::this_thread::sleep_for(kPollInterval);
  }
}

}  // namespace weft::test
