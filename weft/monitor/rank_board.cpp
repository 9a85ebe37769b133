#include "weft/monitor/rank_board.h"

#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>

#include "weft/base/clock.h"
#include "weft/base/error.h"
#include "weft/base/text.h"
#include "weft/monitor/write_trouble.h"

namespace weft {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr int64_t kEveryNs = 1'000'000'000;

struct RankField {
  const char* name;
  double RankNumbers::* value;
};

constexpr RankField kTimes[] = {{"step_ms", &RankNumbers::step_ms},
                                {"busy_ms", &RankNumbers::busy_ms},
                                {"data_ms", &RankNumbers::data_ms},
                                {"forward_ms", &RankNumbers::forward_ms},
                                {"backward_ms", &RankNumbers::backward_ms},
                                {"optimizer_ms", &RankNumbers::optimizer_ms},
                                {"exposed_comm_ms", &RankNumbers::exposed_comm_ms},
                                {"checkpoint_ms", &RankNumbers::checkpoint_ms}};
// What is not known is 0 or less.
constexpr RankField kLevels[] = {{"rss_bytes", &RankNumbers::rss_bytes},
                                 {"device_bytes", &RankNumbers::device_bytes},
                                 {"device_reserved_bytes", &RankNumbers::device_reserved_bytes},
                                 {"peak_rss_bytes", &RankNumbers::peak_rss_bytes},
                                 {"host_bytes", &RankNumbers::host_bytes},
                                 {"peak_device_bytes", &RankNumbers::peak_device_bytes},
                                 {"peak_device_reserved_bytes", &RankNumbers::peak_device_reserved_bytes},
                                 {"cpu_percent", &RankNumbers::cpu_percent},
                                 {"gpu_percent", &RankNumbers::gpu_percent}};

OrderedJson json_of(const SlowRank& slow) {
  return {{"rank", slow.rank}, {"phase", slow.phase},     {"where", slow.where},
          {"ms", slow.ms},     {"percent", slow.percent}, {"since_step", slow.since_step}};
}

}  // namespace

void RankBoard::add(int64_t step, std::span<const RankNumbers> ranks, const std::vector<SlowRank>& slow) {
  sums_.resize(ranks.size());
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    for (const RankField& field : kTimes) sums_[rank].*field.value += ranks[rank].*field.value;
  }
  last_.assign(ranks.begin(), ranks.end());
  slow_ = slow;
  step_ = step;
  ++num_steps_;
  if (now_ns() - written_ns_ >= kEveryNs) write();
}

void RankBoard::close() {
  if (num_steps_ > 0) write();
}

std::string RankBoard::text() const {
  const double unix_s = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  OrderedJson out = {
      {"schema", 1}, {"step", step_}, {"unix_s", unix_s}, {"world", last_.size()}, {"ranks", OrderedJson::array()}};
  for (size_t rank = 0; rank < last_.size(); ++rank) {
    OrderedJson one = {{"rank", rank}};
    if (rank < hosts_.size()) one["host"] = hosts_[rank];
    for (const RankField& field : kTimes) one[field.name] = sums_[rank].*field.value / static_cast<double>(num_steps_);
    for (const RankField& field : kLevels) {
      const double value = last_[rank].*field.value;
      if (value > 0 || (value == 0 && field.value == &RankNumbers::gpu_percent)) one[field.name] = value;
    }
    out["ranks"].push_back(std::move(one));
  }
  out["slow"] = OrderedJson::array();
  for (const SlowRank& slow : slow_) out["slow"].push_back(json_of(slow));
  return out.dump(-1, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

// Not durably: nobody needs it after a power cut, and waiting for the disk would stop the training.
void RankBoard::write() {
  written_ns_ = now_ns();
  try {
    write_file(env_, path_ + ".tmp", bytes_of(text()));
    env_.rename(path_ + ".tmp", path_);
  } catch (const Error& error) {
    tell_write_trouble(path_, error);
  }
  sums_.assign(sums_.size(), {});
  num_steps_ = 0;
}

}  // namespace weft
