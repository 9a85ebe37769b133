// Direct reads and writes, and file systems that take the flag and refuse what follows.
#include "weft/checkpoint/direct_io.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <map>
#include <string>

#include "tests/support/temp_dir.h"
#include "weft/base/aio.h"
#include "weft/base/error.h"
#include "weft/checkpoint/store_example_impl.h"

namespace weft::checkpoint {
namespace {

// Does at once what it is given, and answers EINVAL for a file that is open for direct access.
class RefusingIo : public AsyncIo {
 public:
  explicit RefusingIo(int& num_refused) : num_refused_(num_refused) {}
  Ticket submit_read(File& file, uint64_t offset, std::span<std::byte> into) override {
    return keep(file, [&] { return file.read_at(offset, into); });
  }
  Ticket submit_write(File& file, uint64_t offset, std::span<const std::byte> bytes) override {
    return keep(file, [&] {
      file.write_at(offset, bytes);
      return bytes.size();
    });
  }
  Ticket submit_sync(File& file) override {
    return keep(file, [&] { return file.sync(), size_t{0}; });
  }
  std::optional<size_t> wait(Ticket ticket, Deadline /*deadline*/) override {
    const auto moved = results_.extract(ticket.id).mapped();
    if (!moved) throw IoError("write", "a file that is open for direct access", EINVAL);
    return moved;
  }
  bool wait_all(Deadline /*deadline*/) override {
    results_.clear();
    return true;
  }
  std::string_view backend_name() const override { return "refusing"; }

 private:
  template <typename Operation>
  Ticket keep(const File& file, const Operation& operation) {
    const bool is_direct = (::fcntl(file.fd(), F_GETFL) & O_DIRECT) != 0;
    num_refused_ += is_direct ? 1 : 0;
    results_[++last_] = is_direct ? std::nullopt : std::optional<size_t>(operation());
    return {last_};
  }

  int& num_refused_;
  uint64_t last_ = 0;
  std::map<uint64_t, std::optional<size_t>> results_;
};

// The real disk but for that.
class RefusingEnv : public Env {
 public:
  std::unique_ptr<File> open(const std::string& path, OpenMode mode) override { return disk_.open(path, mode); }
  std::optional<FileInfo> stat(const std::string& path) override { return disk_.stat(path); }
  std::vector<std::string> list(const std::string& folder) override { return disk_.list(folder); }
  void make_folders(const std::string& path) override { disk_.make_folders(path); }
  void rename(const std::string& from, const std::string& to) override { disk_.rename(from, to); }
  void remove_file(const std::string& path) override { disk_.remove_file(path); }
  void remove_folder(const std::string& path) override { disk_.remove_folder(path); }
  void sync_folder(const std::string& path) override { disk_.sync_folder(path); }
  uint64_t free_bytes(const std::string& path) override { return disk_.free_bytes(path); }
  std::unique_ptr<AsyncIo> async_io(const AsyncOptions& /*options*/) override {
    return std::make_unique<RefusingIo>(num_refused);
  }

  int num_refused = 0;

 private:
  Env& disk_ = Env::posix();
};

bool has_direct(const std::string& folder) {
  const auto file = Env::posix().open(folder + "/probe", OpenMode::kCreate);
  return set_direct(file->fd(), true);
}

TEST(DirectIo, WhatIsRefusedGoesThroughThePageCache) {
  const test::TempDir dir;
  const bool is_refused = has_direct(dir.path());  // tmpfs takes no flag: there nothing is left to refuse
  RefusingEnv env;
  const ExampleSave save{.step = 1, .world = 2};
  save_example(env, dir / "store", save);
  const int num_refused_writes = env.num_refused;
  EXPECT_EQ(num_refused_writes > 0, is_refused);
  const auto found = find_newest(Env::posix(), dir / "store", Check::kEveryBlock);
  ASSERT_TRUE(found);
  EXPECT_TRUE(holds_example(env, *found, save));
  EXPECT_EQ(env.num_refused > num_refused_writes, is_refused);
}

TEST(DirectIo, MemoryIsAlignedAndInWholeUnits) {
  for (const uint64_t count : {1, 4096, 4097}) {
    const AlignedBytes bytes = aligned_bytes(count);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(bytes.get()) % kDirectAlignment, 0U);
    EXPECT_EQ(rounded_up(count), count <= 4096 ? 4096U : 8192U);
  }
  EXPECT_FALSE(set_direct(-1, true));
}

}  // namespace
}  // namespace weft::checkpoint
