#include "weft/launcher/first_failure.h"

#include <algorithm>
#include <chrono>
#include <csignal>

#include "weft/base/env.h"
#include "weft/base/error.h"
#include "weft/base/text.h"
#include "weft/base/units.h"

namespace weft::launcher {
namespace {

constexpr int kSignalBase = 128;
constexpr uint64_t kTailBytes = 128 << 10;

std::string duration_of(double seconds) {
  return format_duration(std::chrono::nanoseconds(static_cast<int64_t>(seconds * 1e9)));
}

const char* likely_cause(int signal) {
  switch (signal) {
    case SIGKILL: return "often the kernel's out-of-memory killer";
    case SIGBUS: return "often a full /dev/shm";
    case SIGSEGV: return "a wrong memory access";
    case SIGABRT: return "an assertion or an exception that nobody caught";
    case SIGILL: return "an instruction this CPU does not have";
    default: return nullptr;
  }
}

std::string cause_of(const ExitStatus& status) {
  const char* cause = likely_cause(status.signal);
  return cause == nullptr ? status.describe() : cat(status.describe(), ": ", cause);
}

std::string fix_of(const ExitStatus& status) {
  if (status.signal == SIGKILL)
    return "  do:    look for its pid in the kernel's log: dmesg -T | grep -i 'killed process'\n";
  if (status.signal == SIGBUS) return "  do:    look at the room left there: df -h /dev/shm\n";
  return "";
}

}  // namespace

std::string ending_the_others(const LaunchSpec& spec) {
  const std::string when = spec.linger.count() > 0 ? cat(" in ", format_duration(spec.linger)) : "";
  return cat("ending the other ranks", when);
}

int exit_code_of(const ExitStatus& status) { return status.signal != 0 ? kSignalBase + status.signal : status.code; }

std::string describe(const Failure& failure) {
  const RankEnd& end = failure.end;
  const std::string place = end.host.empty() ? "" : cat(" on host ", end.host);
  std::string out = cat("error: rank ", end.rank, " of ", failure.world, place, " failed: ");
  out += cat(cause_of(*end.status), "\n");
  out += cat("  what:  pid ", end.pid, " ended after ", duration_of(end.seconds));
  if (failure.max_restarts > 0) out += cat(", in attempt ", failure.attempt + 1, " of ", failure.max_restarts + 1);
  out += failure.world > 1 ? "; the other ranks were ended\n" : "\n";
  if (!failure.log.empty()) out += cat("  where: ", failure.log, place, "\n");
  out += fix_of(*end.status);
  if (failure.last_lines.empty()) return out;
  out += failure.log.empty() ? "  its last lines on standard error:\n" : "  the last lines of its log:\n";
  for (const auto& line : failure.last_lines) out += cat("    ", line, "\n");
  return out;
}

std::optional<size_t> first_of(std::span<const RankEnd> ends, std::span<const size_t> ended) {
  std::optional<size_t> first;
  for (const size_t i : ended) {
    const ExitStatus& status = *ends[i].status;
    const bool is_better = !first || (status.signal != 0 && ends[*first].status->signal == 0);
    if (!status.ok() && is_better) first = i;
  }
  return first;
}

std::vector<std::string> last_lines_of_file(const std::string& path) {
  LastLines last;
  try {
    const auto file = Env::posix().open(path, OpenMode::kRead);
    const uint64_t size = file->size(), begin = size - std::min(size, kTailBytes);
    std::string text(size - begin, '\0');
    text.resize(file->read_at(begin, std::as_writable_bytes(std::span(text))));
    // The first line may have lost its beginning.
    const std::string_view whole = begin == 0 ? text : std::string_view(text).substr(text.find('\n') + 1);
    const auto add = [&](std::string_view line) { last.add(safe_line(line, false)); };
    LineCutter cutter;
    cutter.feed(whole, add);
    cutter.finish(add);
  } catch (const Error&) {
    return {};
  }
  return last.lines();
}

}  // namespace weft::launcher
