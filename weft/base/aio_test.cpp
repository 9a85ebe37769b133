// One contract, every backend: the kernel's ring, the pool of threads, and the fake disk's.
#include "weft/base/aio.h"

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <mutex>
#include <thread>

#include "tests/support/temp_dir.h"
#include "weft/base/aio_impl.h"
#include "weft/base/crash_env.h"
#include "weft/base/error.h"
#include "weft/base/text.h"

namespace weft {
namespace {

std::string pattern(size_t size, int salt) {
  std::string text(size, '\0');
  for (size_t i = 0; i < size; ++i) text[i] = static_cast<char>(i * 7 + i / 257 + static_cast<size_t>(salt) * 13);
  return text;
}

std::span<std::byte> room_in(std::string& text) { return std::as_writable_bytes(std::span(text)); }

template <typename Body>
std::optional<IoError> io_error_of(Body body) {
  try {
    body();
  } catch (const IoError& error) {
    return error;
  }
  return std::nullopt;
}

enum class Kind { kUring, kThreads, kFakeDisk };

class Aio : public testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    if (GetParam() != Kind::kUring) return;
    std::string why_not;
    if (!detail::make_uring_aio({}, why_not)) GTEST_SKIP() << why_not;
  }

  bool is_fake() const { return GetParam() == Kind::kFakeDisk; }
  Env& env() { return is_fake() ? static_cast<Env&>(fake_) : Env::posix(); }
  std::string path(const std::string& name) const { return is_fake() ? name : folder_ / name; }
  std::unique_ptr<File> create(const std::string& name) { return env().open(path(name), OpenMode::kCreate); }

  std::unique_ptr<AsyncIo> make(int depth = 32) {
    const auto backend = GetParam() == Kind::kUring ? AsyncBackend::kUring : AsyncBackend::kThreads;
    return env().async_io({.backend = backend, .depth = depth});
  }

 private:
  test::TempDir folder_;
  CrashEnv fake_;
};

std::string name_of(const testing::TestParamInfo<Kind>& backend) {
  return backend.param == Kind::kUring ? "Uring" : backend.param == Kind::kThreads ? "Threads" : "FakeDisk";
}

INSTANTIATE_TEST_SUITE_P(Backends, Aio, testing::Values(Kind::kUring, Kind::kThreads, Kind::kFakeDisk), name_of);

TEST_P(Aio, NamesItself) {
  EXPECT_EQ(make()->backend_name(), GetParam() == Kind::kUring ? "io_uring" : is_fake() ? "late" : "threads");
}

TEST_P(Aio, WritesThenReads) {
  const auto file = create("f");
  const auto io = make();
  EXPECT_EQ(io->wait(io->submit_write(*file, 3, bytes_of("hello"))), 5u);
  EXPECT_EQ(io->wait(io->submit_sync(*file)), 0u);
  std::string back(5, '?');
  EXPECT_EQ(io->wait(io->submit_read(*file, 3, room_in(back))), 5u);
  EXPECT_EQ(back, "hello");
  EXPECT_EQ(file->size(), 8u);
}

TEST_P(Aio, ReadsAreShortOnlyAtTheEnd) {
  const auto file = create("f");
  file->write_at(0, bytes_of("hello"));
  const auto io = make();
  std::string back(100, '?');
  EXPECT_EQ(io->wait(io->submit_read(*file, 2, room_in(back))), 3u);
  EXPECT_EQ(back.substr(0, 4), "llo?");
  EXPECT_EQ(io->wait(io->submit_read(*file, 5, room_in(back))), 0u);
  EXPECT_EQ(io->wait(io->submit_read(*file, 1 << 20, room_in(back))), 0u);
}

TEST_P(Aio, EmptyOperationsMoveNothing) {
  const auto file = create("f");
  const auto io = make();
  EXPECT_EQ(io->wait(io->submit_write(*file, 9, {})), 0u);
  EXPECT_EQ(io->wait(io->submit_read(*file, 0, {})), 0u);
  EXPECT_EQ(file->size(), 0u);
}

TEST_P(Aio, LargeOperationsArriveWhole) {
  const auto file = create("f");
  const auto io = make();
  const std::string text = pattern(8'000'001, 1);
  EXPECT_EQ(io->wait(io->submit_write(*file, 0, bytes_of(text))), text.size());
  std::string back(text.size() + 10, '?');
  EXPECT_EQ(io->wait(io->submit_read(*file, 0, room_in(back))), text.size());
  EXPECT_TRUE(back.substr(0, text.size()) == text);
}

TEST_P(Aio, ManyInFlightThroughANarrowQueue) {
  constexpr size_t kBlock = 4096 + 17;
  constexpr int kBlocks = 500;
  const auto file = create("f");
  const auto io = make(4);
  std::vector<std::string> blocks;
  for (int i = 0; i < kBlocks; ++i) blocks.push_back(pattern(kBlock, i));
  for (size_t i = 0; i < blocks.size(); ++i) io->submit_write(*file, i * kBlock, bytes_of(blocks[i]));
  EXPECT_TRUE(io->wait_all());
  EXPECT_EQ(file->size(), kBlock * kBlocks);

  std::vector<std::string> back(kBlocks, std::string(kBlock, '?'));
  std::vector<AsyncIo::Ticket> tickets;
  for (size_t i = 0; i < back.size(); ++i) tickets.push_back(io->submit_read(*file, i * kBlock, room_in(back[i])));
  // Newest first: tickets may be collected in any order.
  for (size_t i = back.size(); i-- > 0;) ASSERT_EQ(io->wait(tickets[i]), kBlock);
  EXPECT_TRUE(back == blocks);
}

TEST_P(Aio, SeveralThreadsShareOne) {
  constexpr size_t kBlock = 1000;
  constexpr int kThreads = 4, kEach = 100;
  const auto file = create("f");
  const auto io = make(8);
  std::atomic<int> wrong = 0;
  const auto body = [&](int thread) {
    for (int i = 0; i < kEach; ++i) {
      const std::string text = pattern(kBlock, thread * kEach + i);
      const uint64_t offset = static_cast<uint64_t>(thread * kEach + i) * kBlock;
      std::string back(kBlock, '?');
      if (io->wait(io->submit_write(*file, offset, bytes_of(text))) != kBlock) ++wrong;
      if (io->wait(io->submit_read(*file, offset, room_in(back))) != kBlock || back != text) ++wrong;
    }
  };
  std::vector<std::jthread> threads;
  for (int t = 0; t < kThreads; ++t) threads.emplace_back(body, t);
  threads.clear();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(file->size(), kBlock * kThreads * kEach);
}

TEST_P(Aio, ErrorsComeAtTheWaitWithThePath) {
  {
    create("f");
  }
  const auto file = env().open(path("f"), OpenMode::kRead);
  const auto io = make();
  const auto ticket = io->submit_write(*file, 0, bytes_of("x"));
  const auto error = io_error_of([&] { io->wait(ticket); });
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->code(), EBADF);
  EXPECT_EQ(error->text().where, path("f"));
  EXPECT_EQ(error->text().title, "cannot write the file");
}

// The fake disk has no descriptors.
class AioOnDescriptors : public Aio {};
INSTANTIATE_TEST_SUITE_P(Backends, AioOnDescriptors, testing::Values(Kind::kUring, Kind::kThreads), name_of);

TEST_P(AioOnDescriptors, AClosedOneIsAnError) {
  // The kernel gives out the lowest free number: a thread that starts and opens something of its own takes one of these
  // and not the file's.
  std::vector<std::unique_ptr<File>> lower;
  for (int i = 0; i < 8; ++i) lower.push_back(create(cat("lower_", i)));
  const auto file = create("f");
  lower.clear();
  const auto io = make();
  ASSERT_EQ(::close(file->fd()), 0);
  std::string back(4, '?');
  const AsyncIo::Ticket tickets[] = {io->submit_read(*file, 0, room_in(back)),
                                     io->submit_write(*file, 0, bytes_of("x")), io->submit_sync(*file)};
  for (const auto ticket : tickets) {
    const auto error = io_error_of([&] { io->wait(ticket); });
    ASSERT_TRUE(error.has_value());
    EXPECT_EQ(error->code(), EBADF);
    EXPECT_EQ(error->text().where, path("f"));
  }
}

TEST_P(AioOnDescriptors, AShortWriteIsContinuedUntilItFails) {
  // At the limit of the file's size the kernel first writes what fits, and only the continuation is refused.
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  const auto file = create("f");
  const auto io = make();
  const std::string text(3000, 'x');
  const rlimit small{.rlim_cur = 1000, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto error = io_error_of([&] { io->wait(io->submit_write(*file, 0, bytes_of(text))); });
  ::setrlimit(RLIMIT_FSIZE, &before);
  ::signal(SIGXFSZ, handler);
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->code(), EFBIG);
  EXPECT_EQ(file->size(), 1000u);
}

TEST_P(Aio, OneFailureDoesNotSpoilTheOthers) {
  const auto good = create("good");
  {
    create("bad");
  }
  const auto bad = env().open(path("bad"), OpenMode::kRead);
  const auto io = make();
  const auto first = io->submit_write(*good, 0, bytes_of("one"));
  const auto failing = io->submit_write(*bad, 0, bytes_of("two"));
  const auto last = io->submit_write(*good, 3, bytes_of("three"));
  EXPECT_EQ(io->wait(last), 5u);
  EXPECT_TRUE(io_error_of([&] { io->wait(failing); }).has_value());
  EXPECT_EQ(io->wait(first), 3u);
  EXPECT_EQ(read_file(env(), path("good"), 100), "onethree");
}

TEST_P(Aio, WaitAllThrowsTheOldestErrorAndIsThenEmpty) {
  {
    create("first"), create("second");
  }
  const auto first = env().open(path("first"), OpenMode::kRead), second = env().open(path("second"), OpenMode::kRead);
  const auto io = make();
  io->submit_write(*first, 0, bytes_of("x"));
  io->submit_write(*second, 0, bytes_of("x"));
  const auto error = io_error_of([&] { io->wait_all(); });
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->text().where, path("first"));
  EXPECT_TRUE(io->wait_all());
}

TEST_P(Aio, ATicketIsGoodOnce) {
  const auto file = create("f");
  const auto io = make();
  const auto ticket = io->submit_write(*file, 0, bytes_of("x"));
  io->wait(ticket);
  EXPECT_THROW(io->wait(ticket), Error);
  EXPECT_THROW(io->wait({999}), Error);
}

TEST_P(Aio, TheDestructorFinishesWhatIsInFlight) {
  const auto file = create("f");
  const std::string text = pattern(1 << 20, 3);
  {
    const auto io = make();
    for (uint64_t i = 0; i < 16; ++i) io->submit_write(*file, i << 20, bytes_of(text));
  }
  EXPECT_EQ(file->size(), uint64_t{16} << 20);
  EXPECT_TRUE(read_file(env(), path("f"), 1 << 30).substr(15 << 20) == text);
}

// A File whose reads wait for permission: shows depth and deadlines without a clock.
class GatedFile : public File {
 public:
  GatedFile() : File("gated") {}
  ~GatedFile() override { open_gate(); }
  size_t read_at(uint64_t, std::span<std::byte> into) override {
    std::unique_lock lock(mutex_);
    opened_.wait(lock, [&] { return open_; });
    return into.size();
  }
  void write_at(uint64_t, std::span<const std::byte>) override {}
  void sync() override {}
  uint64_t size() override { return 0; }
  void truncate(uint64_t) override {}
  int fd() const override { return -1; }
  void open_gate() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    opened_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable opened_;
  bool open_ = false;
};

TEST(ThreadAio, ADeadlineLeavesTheTicketGood) {
  GatedFile file;
  const auto io = make_async_io({.backend = AsyncBackend::kThreads});
  std::string into(3, '?');
  const auto ticket = io->submit_read(file, 0, room_in(into));
  EXPECT_EQ(io->wait(ticket, Deadline::after(0)), std::nullopt);
  EXPECT_FALSE(io->wait_all(Deadline::after(0.001)));
  file.open_gate();
  EXPECT_EQ(io->wait(ticket), 3u);
}

TEST(ThreadAio, SubmitBlocksWhenFull) {
  GatedFile file;
  const auto io = make_async_io({.backend = AsyncBackend::kThreads, .depth = 2});
  std::string into(3, '?');
  std::atomic<int> submitted = 0;
  std::jthread submitter([&] {
    for (int i = 0; i < 3; ++i, ++submitted) io->submit_read(file, 0, room_in(into).first(0));
  });
  while (submitted < 2) std::this_thread::yield();
  // The third cannot get in while the gate is shut. A wrong build passes it in almost every one of these turns.
  for (int i = 0; i < 1000; ++i) std::this_thread::yield();
  EXPECT_EQ(submitted, 2);
  file.open_gate();
  submitter.join();
  EXPECT_TRUE(io->wait_all());
}

class AioChoice : public testing::Test {
 protected:
  ~AioChoice() override { unsetenv("WEFT_AIO"); }
};

TEST_F(AioChoice, TheEnvironmentChoosesThreads) {
  setenv("WEFT_AIO", "threads", 1);
  EXPECT_EQ(make_async_io({})->backend_name(), "threads");
}

TEST_F(AioChoice, AnUnknownNameIsRefused) {
  setenv("WEFT_AIO", "magic", 1);
  EXPECT_THROW(make_async_io({}), Error);
}

TEST_F(AioChoice, WithoutAWishThereIsAlwaysOne) {
  unsetenv("WEFT_AIO");
  std::string why_not;
  const bool has_ring = detail::make_uring_aio({}, why_not) != nullptr;
  EXPECT_EQ(make_async_io({})->backend_name(), has_ring ? "io_uring" : "threads");
  EXPECT_EQ(why_not.empty(), has_ring);
}

// Makes io_uring_setup fail with `code` in this process and for ever after, as a sandbox does.
void forbid_io_uring(int code) {
  sock_filter rules[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<unsigned>(code)),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{.len = 4, .filter = rules};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) ::_exit(2);
  if (::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) ::_exit(3);
}

bool writes_by_threads() {
  const test::TempDir folder;
  const auto file = Env::posix().open(folder / "f", OpenMode::kCreate);
  const auto io = make_async_io({});
  return io->wait(io->submit_write(*file, 0, bytes_of("x"))) == 1u && io->backend_name() == "threads";
}

// Runs in a process of its own, where the kernel refuses the ring with `code`.
[[noreturn]] void report_choice_without_ring(int code) {
  forbid_io_uring(code);
  std::string why_not;
  if (detail::make_uring_aio({}, why_not) || why_not.empty()) ::_exit(4);
  ::_exit(writes_by_threads() ? 0 : 5);
}

TEST_F(AioChoice, ThreadsTakeOverWhenTheKernelRefusesTheRing) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  for (const int code : {ENOSYS, EPERM, ENOMEM}) {
    EXPECT_EXIT(report_choice_without_ring(code), testing::ExitedWithCode(0), "") << code;
  }
}

TEST_F(AioChoice, ARingAskedForByNameAndRefusedIsAnError) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto ask = [] {
    forbid_io_uring(EPERM);
    try {
      make_async_io({.backend = AsyncBackend::kUring});
    } catch (const Error& error) {
      ::_exit(error.kind() == ErrorKind::kEnvironment ? 0 : 6);
    }
    ::_exit(7);
  };
  EXPECT_EXIT(ask(), testing::ExitedWithCode(0), "");
}

TEST(AioOptions, SenselessOnesAreOurBug) {
  EXPECT_THROW(make_async_io({.depth = 0}), Error);
  EXPECT_THROW(make_async_io({.depth = 5000}), Error);
  EXPECT_THROW(make_async_io({.threads = 0}), Error);
}

}  // namespace
}  // namespace weft
