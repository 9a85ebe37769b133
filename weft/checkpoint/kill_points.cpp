#include "weft/checkpoint/kill_points.h"

#include <unistd.h>

#include <atomic>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <string>
#include <string_view>

#include "weft/base/error.h"
#include "weft/base/log.h"
#include "weft/base/text.h"

namespace weft::checkpoint {
namespace {

constexpr const char* kNames[] = {"save.begin",  "save.opened",   "save.written",  "save.noted",     "pass.half",
                                  "pass.done",   "commit.begin",  "commit.sealed", "commit.renamed", "commit.pointed",
                                  "prune.begin", "prune.renamed", "load.opened",   "load.read"};

struct Order {
  std::string point;  // "": nobody is to die
  int64_t count = 0;
};

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

[[noreturn]] void refuse_order(const std::string& text) {
  throw Error(ErrorKind::kInput, {.title = "WEFT_KILL_AT cannot be understood",
                                  .what = cat("'", text, "'"),
                                  .where = "",
                                  .fix = "RANK:POINT:COUNT, such as 1:commit.renamed:1"});
}

Order read_order() {
  const std::string text = variable("WEFT_KILL_AT");
  if (text.empty()) return {};
  const size_t first = text.find(':'), last = text.rfind(':');
  if (first == last) refuse_order(text);
  Order out{.point = text.substr(first + 1, last - first - 1)};
  const char* end = text.data() + text.size();
  if (std::from_chars(text.data() + last + 1, end, out.count).ptr != end) refuse_order(text);
  const std::string rank = variable("RANK"), attempt = variable("TORCHELASTIC_RESTART_COUNT");
  const bool is_meant = text.substr(0, first) == (rank.empty() ? "0" : rank) && (attempt.empty() || attempt == "0");
  return is_meant ? out : Order{};
}

}  // namespace

const char* name_of(KillPoint point) { return kNames[static_cast<size_t>(point)]; }

void pass(KillPoint point) {
  static const Order kOrder = read_order();
  if (kOrder.point.empty() || kOrder.point != name_of(point)) return;
  static std::atomic<int64_t> num_passed = 0;
  if (++num_passed != kOrder.count) return;
  log_warn("dying at ", kOrder.point, ", as WEFT_KILL_AT says");
  ::kill(::getpid(), SIGKILL);
}

}  // namespace weft::checkpoint
