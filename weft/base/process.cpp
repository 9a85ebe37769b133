#include "weft/base/process.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "weft/base/check.h"
#include "weft/base/error.h"
#include "weft/base/process_impl.h"
#include "weft/base/text.h"

namespace weft {
namespace {

// By number: <sys/pidfd.h> came late, and glibc 2.36's declares these without C linkage.
int open_pidfd(pid_t pid) { return static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)); }
int signal_pidfd(int pidfd, int number) {
  return static_cast<int>(::syscall(SYS_pidfd_send_signal, pidfd, number, nullptr, 0));
}

struct Pipe {
  UniqueFd read, write;
};

// Moves a descriptor away from the three standard ones; it would otherwise be overwritten while they are set up.
UniqueFd above_standard(UniqueFd fd) {
  if (fd.get() > STDERR_FILENO) return fd;
  UniqueFd higher(::fcntl(fd.get(), F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  if (!higher) throw IoError("duplicate a descriptor", "", errno);
  return higher;
}

Pipe make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw IoError("make a pipe", "", errno);
  Pipe pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
  pipe.read = above_standard(std::move(pipe.read));
  pipe.write = above_standard(std::move(pipe.write));
  return pipe;
}

UniqueFd open_stream(const std::string& path, bool is_input) {
  // Append: two streams may write to one file without overwriting each other.
  const int flags = is_input ? O_RDONLY : O_WRONLY | O_CREAT | O_TRUNC | O_APPEND;
  UniqueFd fd(retry_interrupted([&] { return ::open(path.c_str(), flags | O_CLOEXEC, 0666); }));
  if (!fd) throw IoError(is_input ? "open the input of a program" : "open the output of a program", path, errno);
  return above_standard(std::move(fd));
}

// The child's end; our own, if it is a pipe, goes to `ours`.
UniqueFd connect(const Stream& stream, bool is_input, UniqueFd& ours) {
  switch (stream.kind) {
    case Stream::Kind::kInherit: return UniqueFd();
    case Stream::Kind::kNull: return open_stream("/dev/null", is_input);
    case Stream::Kind::kFile: return open_stream(stream.path, is_input);
    case Stream::Kind::kPipe: break;
  }
  Pipe pipe = make_pipe();
  ours = std::move(is_input ? pipe.write : pipe.read);
  return std::move(is_input ? pipe.read : pipe.write);
}

std::map<std::string, std::string> child_environment(const ProcessSpec& spec) {
  std::map<std::string, std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const size_t equals = text.find('=');
    if (equals != std::string_view::npos) all.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  for (const auto& [name, value] : spec.env) {
    if (value) all[name] = *value;
    if (!value) all.erase(name);
  }
  return all;
}

std::vector<std::string> candidates(const std::string& program, const std::map<std::string, std::string>& environment) {
  if (program.find('/') != std::string::npos) return {program};
  const auto path = environment.find("PATH");
  const std::string folders = path == environment.end() ? "/usr/local/bin:/usr/bin:/bin" : path->second;
  std::vector<std::string> found;
  for (size_t at = 0; at <= folders.size();) {
    const size_t end = std::min(folders.find(':', at), folders.size());
    const std::string folder = folders.substr(at, end - at);
    found.push_back(cat(folder.empty() ? "." : folder, "/", program));
    at = end + 1;
  }
  return found;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (auto& text : texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

// As sched_setaffinity wants it; cpu_set_t itself ends at CPU 1023.
std::vector<cpu_set_t> cpu_mask(const std::vector<int>& cpus) {
  if (cpus.empty()) return {};
  const int highest = *std::ranges::max_element(cpus);
  std::vector<cpu_set_t> mask(static_cast<size_t>(highest) / CPU_SETSIZE + 1);
  for (const int cpu : cpus) CPU_SET_S(static_cast<size_t>(cpu), mask.size() * sizeof(cpu_set_t), mask.data());
  return mask;
}

// Forks with every signal held back, so that no handler of ours runs in the child before it has shed them.
pid_t fork_quietly(const detail::ChildPlan& plan) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t pid = ::fork();
  if (pid == 0) detail::become_program(plan);
  const int code = errno;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (pid < 0) throw IoError("start another process", plan.argv[0], code);
  return pid;
}

IoError start_error(const detail::ChildFailure& failure, const ProcessSpec& spec) {
  const std::string& program = spec.argv[0];
  switch (failure.stage) {
    case detail::ChildStage::kGroup: return IoError("give a process group to " + program, program, failure.code);
    case detail::ChildStage::kCpus: return IoError("bind " + program + " to its CPUs", program, failure.code);
    case detail::ChildStage::kStreams: return IoError("connect the streams of " + program, program, failure.code);
    case detail::ChildStage::kFolder: return IoError("start " + program + " in its folder", spec.cwd, failure.code);
    case detail::ChildStage::kExec: break;
  }
  return IoError("start the program " + program, program, failure.code);
}

// End of file means that exec closed the pipe: the program runs.
std::optional<detail::ChildFailure> read_failure(int fd) {
  detail::ChildFailure failure;
  const ssize_t got = retry_interrupted([&] { return ::read(fd, &failure, sizeof failure); });
  if (got == static_cast<ssize_t>(sizeof failure)) return failure;
  return std::nullopt;
}

ExitStatus status_of(const siginfo_t& info) {
  if (info.si_code == CLD_EXITED) return {.code = info.si_status, .signal = 0};
  return {.code = 0, .signal = info.si_status};
}

bool wait_readable(int fd, Deadline deadline) {
  for (;;) {
    pollfd one{.fd = fd, .events = POLLIN, .revents = 0};
    const int ready = ::poll(&one, 1, deadline.poll_ms());
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) throw IoError("wait for a process or its pipe", "", errno);
    if (deadline.expired()) return false;
  }
}

}  // namespace

std::string ExitStatus::describe() const {
  if (signal == 0) return cat("exit code ", code);
  const char* name = ::sigabbrev_np(signal);
  return name == nullptr ? cat("killed by signal ", signal) : cat("killed by SIG", name);
}

Process Process::spawn(const ProcessSpec& spec) {
  WEFT_CHECK(!spec.argv.empty());
  Process child;
  const std::array<UniqueFd, 3> ends{connect(spec.in, true, child.in_), connect(spec.out, false, child.out_),
                                     connect(spec.err, false, child.err_)};
  Pipe failure = make_pipe();

  const auto environment = child_environment(spec);
  std::vector<std::string> argv = spec.argv, programs = candidates(spec.argv[0], environment), variables;
  for (const auto& [name, value] : environment) variables.push_back(cat(name, "=", value));
  const auto argv_pointers = pointers(argv), program_pointers = pointers(programs), env_pointers = pointers(variables);

  const auto cpus = cpu_mask(spec.cpus);
  const detail::ChildPlan plan{.programs = program_pointers.data(),
                               .argv = argv_pointers.data(),
                               .envp = env_pointers.data(),
                               .cwd = spec.cwd.empty() ? nullptr : spec.cwd.c_str(),
                               .streams = {ends[0].get(), ends[1].get(), ends[2].get()},
                               .failure_fd = failure.write.get(),
                               .cpus = cpus.empty() ? nullptr : cpus.data(),
                               .cpus_bytes = cpus.size() * sizeof(cpu_set_t),
                               .new_group = spec.new_group,
                               .die_with_parent = spec.die_with_parent,
                               .parent = ::getpid()};
  child.pid_ = fork_quietly(plan);
  failure.write.reset();
  const auto failed = read_failure(failure.read.get());
  // From here on the destructor of `child` reaps. No race: nobody else waits for it, so the pid is still its own.
  child.pidfd_.reset(open_pidfd(child.pid_));
  const int code = errno;
  if (failed) throw start_error(*failed, spec);
  if (!child.pidfd_) throw IoError("hold on to the process of " + spec.argv[0], spec.argv[0], code);
  child.leads_group_ = spec.new_group;
  return child;
}

Process::~Process() { end_it(); }

Process::Process(Process&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      leads_group_(other.leads_group_),
      pidfd_(std::move(other.pidfd_)),
      in_(std::move(other.in_)),
      out_(std::move(other.out_)),
      err_(std::move(other.err_)),
      status_(std::exchange(other.status_, std::nullopt)) {}

Process& Process::operator=(Process&& other) noexcept {
  if (this == &other) return *this;
  end_it();
  pid_ = std::exchange(other.pid_, -1);
  leads_group_ = other.leads_group_;
  pidfd_ = std::move(other.pidfd_);
  in_ = std::move(other.in_);
  out_ = std::move(other.out_);
  err_ = std::move(other.err_);
  status_ = std::exchange(other.status_, std::nullopt);
  return *this;
}

void Process::end_it() noexcept {
  if (pid_ < 0) return;
  // By pid is safe here: it is our own child, not reaped yet, so the number cannot have gone to another.
  if (!status_ && leads_group_) ::kill(-pid_, SIGKILL);
  if (!status_) ::kill(pid_, SIGKILL);
  siginfo_t info{};
  retry_interrupted([&] { return ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED); });
  pid_ = -1;
}

std::optional<ExitStatus> Process::wait(Deadline deadline) {
  WEFT_CHECK(pid_ > 0);
  if (status_) return status_;
  if (!wait_readable(pidfd_.get(), deadline)) return std::nullopt;
  siginfo_t info{};
  // WNOWAIT: the child stays a zombie until we go, so that kill_group never meets a reused pid or group.
  const auto id = static_cast<id_t>(pidfd_.get());
  const int result = retry_interrupted([&] { return ::waitid(P_PIDFD, id, &info, WEXITED | WNOWAIT); });
  if (result != 0) throw IoError("learn how a process ended", "", errno);
  status_ = status_of(info);
  return status_;
}

void Process::signal(int number) const {
  if (signal_pidfd(pidfd_.get(), number) != 0 && errno != ESRCH) {
    throw IoError(cat("send signal ", number, " to process ", pid_), "", errno);
  }
}

void Process::kill_group(int number) const {
  WEFT_CHECK(leads_group_ && pid_ > 0);
  if (::kill(-pid_, number) != 0 && errno != ESRCH) {
    throw IoError(cat("send signal ", number, " to process group ", pid_), "", errno);
  }
}

std::optional<size_t> read_pipe(int fd, std::span<char> into, Deadline deadline) {
  for (;;) {
    if (!wait_readable(fd, deadline)) return std::nullopt;
    const ssize_t got = retry_interrupted([&] { return ::read(fd, into.data(), into.size()); });
    if (got >= 0) return static_cast<size_t>(got);
    if (errno != EAGAIN) throw IoError("read from a program", "", errno);
  }
}

}  // namespace weft
