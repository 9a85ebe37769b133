#include "weft/base/log.h"

#include <fcntl.h>
#include <spdlog/logger.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>

#include "weft/base/clock.h"
#include "weft/base/error.h"
#include "weft/base/log_copy.h"

namespace weft {
namespace {

std::atomic<int> rank{-1};

spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug: return spdlog::level::debug;
    case LogLevel::kInfo: return spdlog::level::info;
    case LogLevel::kWarn: return spdlog::level::warn;
    case LogLevel::kError: return spdlog::level::err;
  }
  return spdlog::level::info;
}

// One write(2) per line: several processes share the terminal, and stdio would split lines between them.
class StderrSink : public spdlog::sinks::base_sink<std::mutex> {
 public:
  void set_prelude(std::function<void()> prelude) {
    const std::lock_guard lock(mutex_);
    prelude_ = std::move(prelude);
  }
  void set_copy(int fd, spdlog::level::level_enum at_least) {
    const std::lock_guard lock(mutex_);
    if (copy_fd_ >= 0) ::close(copy_fd_);
    copy_fd_ = fd;
    copied_ = at_least;
  }

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    if (prelude_) prelude_();
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
    if (copy_fd_ >= 0 && message.level >= copied_) copy({line.data(), line.size()});
  }
  void flush_() override {}

 private:
  void copy(std::string_view line) const {
    const std::string stamped = cat(iso_stamp(), " ", line);
    [[maybe_unused]] const auto written = ::write(copy_fd_, stamped.data(), stamped.size());
  }

  std::function<void()> prelude_;
  int copy_fd_ = -1;
  spdlog::level::level_enum copied_ = spdlog::level::info;
};

class RankFlag : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg&, const std::tm&, spdlog::memory_buf_t& out) override {
    const int now = rank.load(std::memory_order_relaxed);
    if (now < 0) return;
    const std::string text = cat(" rank ", now);
    out.append(text.data(), text.data() + text.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override { return std::make_unique<RankFlag>(); }
};

class WarningFlag : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&, spdlog::memory_buf_t& out) override {
    const std::string_view label = message.level == spdlog::level::warn  ? "[WARN] "
                                   : message.level == spdlog::level::err ? "[ERROR] "
                                                                         : "";
    out.append(label.data(), label.data() + label.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override { return std::make_unique<WarningFlag>(); }
};

std::optional<spdlog::level::level_enum> level_named(std::string_view name) {
  if (name == "debug") return spdlog::level::debug;
  if (name == "info") return spdlog::level::info;
  if (name == "warn") return spdlog::level::warn;
  if (name == "error") return spdlog::level::err;
  return std::nullopt;
}

struct Log {
  std::shared_ptr<StderrSink> sink = std::make_shared<StderrSink>();
  spdlog::logger logger{"weft", sink};

  Log() {
    auto formatter = std::make_unique<spdlog::pattern_formatter>();
    formatter->add_flag<RankFlag>('R').add_flag<WarningFlag>('W').set_pattern("[weft%R] %W%v");
    logger.set_formatter(std::move(formatter));
    const char* wanted = std::getenv("WEFT_LOG");
    const auto level = level_named(wanted == nullptr || *wanted == '\0' ? "info" : wanted);
    logger.set_level(level.value_or(spdlog::level::info));
    if (!level) logger.warn("WEFT_LOG={} is none of debug, info, warn, error; info is used", wanted);
  }
};

// Never destroyed: threads of a dying process may still log.
Log& the_log() {
  static Log& log = *new Log;
  return log;
}

}  // namespace

void log_line(LogLevel level, std::string_view message) {
  the_log().logger.log(to_spdlog(level), spdlog::string_view_t(message.data(), message.size()));
}

bool log_enabled(LogLevel level) { return the_log().logger.should_log(to_spdlog(level)); }

void set_log_rank(int new_rank) { rank.store(new_rank, std::memory_order_relaxed); }
int log_rank() { return rank.load(std::memory_order_relaxed); }

void copy_log_to(const std::string& path, LogLevel at_least) {
  int fd = -1;
  if (!path.empty()) {
    fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (fd < 0) throw IoError("open the log of the run", path, errno);
  }
  the_log().sink->set_copy(fd, to_spdlog(at_least));
}

void set_log_prelude(std::function<void()> prelude) { the_log().sink->set_prelude(std::move(prelude)); }

}  // namespace weft
