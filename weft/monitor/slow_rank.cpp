#include "weft/monitor/slow_rank.h"

#include <algorithm>
#include <cmath>

#include "weft/base/quantile.h"
#include "weft/base/text.h"
#include "weft/monitor/numbers.h"

namespace weft {
namespace {

struct Phase {
  const char* name;
  double RankNumbers::* part;
};

constexpr Phase kPhases[] = {{"data", &RankNumbers::data_ms},
                             {"forward", &RankNumbers::forward_ms},
                             {"backward", &RankNumbers::backward_ms},
                             {"optimizer", &RankNumbers::optimizer_ms}};
constexpr size_t kBackward = 2;

// How many times its own standard error a median must be above 0. Five: one false look in millions, were the steps independent.
constexpr double kClear = 5;
constexpr double kErrorOfMedian = 1.2533;  // of a normal's mean
constexpr double kSigmaOfMad = 1.4826;
// What began is over when it is below this part of the threshold: no flicker.
constexpr double kOverPart = 0.6;

double finite(double value) { return std::isfinite(value) ? value : 0; }

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  return nearest_rank(values, 0.5);
}

double median_deviation(const std::vector<double>& values, double middle) {
  std::vector<double> away;
  for (const double value : values) away.push_back(std::abs(value - middle));
  return median(std::move(away));
}

bool is_clear(const std::vector<double>& values, double middle) {
  const double error =
      kErrorOfMedian * kSigmaOfMad * median_deviation(values, middle) / std::sqrt(static_cast<double>(values.size()));
  return middle > kClear * error;
}

}  // namespace

std::string text_of(const SlowRank& slow) {
  const std::string who = slow.rank < 0 ? "the link between ranks" : cat("rank ", slow.rank);
  if (slow.is_over) return cat(who, " is no longer slow in ", slow.phase);
  std::string out = cat(who, " is slow: ", slow.phase == "link" ? "reductions take " : cat(slow.phase, " takes "),
                        fixed_text(slow.ms, 1), " ms (", fixed_text(slow.percent, 1), " % of a step) longer than ",
                        slow.rank < 0 ? "they did" : "on other ranks", ", since step ", slow.since_step);
  if (!slow.where.empty()) out += cat(", at ", slow.where);
  return out;
}

std::vector<SlowRank> SlowRanks::add(int64_t step, std::span<const RankNumbers> ranks) {
  if (ranks.size() < 2) return {};
  if (!steps_.empty() && steps_.back().ranks.size() != ranks.size()) steps_.clear();
  steps_.push_back({step, {ranks.begin(), ranks.end()}});
  if (steps_.size() > kWindow) steps_.pop_front();
  if (steps_.size() < kWindow || step % kEvery != 0) return {};
  std::vector<SlowRank> found = look(), news;
  for (const SlowRank& one : found) {
    if (std::ranges::none_of(now_, [&](const auto& other) { return other.is_same(one); })) news.push_back(one);
  }
  for (SlowRank one : now_) {
    if (std::ranges::any_of(found, [&](const auto& other) { return other.is_same(one); })) continue;
    one.is_over = true;
    news.push_back(one);
  }
  now_ = std::move(found);
  const double link = link_ms(steps_.back());
  if (link >= 0) {
    std::vector<double> all;
    for (const Step& past : steps_) all.push_back(link_ms(past));
    const double middle = median(std::move(all));
    quickest_link_ms_ = quickest_link_ms_ < 0 ? middle : std::min(quickest_link_ms_, middle);
  }
  return news;
}

std::vector<SlowRank> SlowRanks::look() const {
  std::vector<SlowRank> out;
  for (size_t rank = 0; rank < steps_.back().ranks.size(); ++rank) {
    for (size_t phase = 0; phase < std::size(kPhases); ++phase) look_at_phase(rank, phase, out);
  }
  look_at_link(out);
  std::ranges::sort(out, std::greater(), &SlowRank::ms);
  return out;
}

void SlowRanks::look_at_phase(size_t rank, size_t phase, std::vector<SlowRank>& out) const {
  const std::vector<double> more = excess(rank, kPhases[phase].part);
  const double middle = median(more), whole_ms = step_ms();
  if (whole_ms <= 0) return;
  SlowRank slow{.rank = static_cast<int>(rank), .phase = kPhases[phase].name};
  const bool was = std::ranges::any_of(now_, [&](const auto& other) { return other.is_same(slow); });
  const double percent = 100 * middle / whole_ms;
  if (percent < options_.threshold_percent * (was ? kOverPart : 1) || !is_clear(more, middle)) return;
  slow.ms = middle;
  slow.percent = percent;
  slow.since_step = since(rank, phase, middle);
  for (const SlowRank& other : now_) {
    if (other.is_same(slow)) slow.since_step = other.since_step;
  }
  if (phase == kBackward) slow.where = where_in_backward(rank);
  out.push_back(std::move(slow));
}

// By how much the rank's part was longer than the median of the others', step by step.
std::vector<double> SlowRanks::excess(size_t rank, double RankNumbers::* part) const {
  std::vector<double> out;
  for (const Step& step : steps_) {
    std::vector<double> others;
    for (size_t other = 0; other < step.ranks.size(); ++other) {
      if (other != rank) others.push_back(finite(step.ranks[other].*part));
    }
    out.push_back(finite(step.ranks[rank].*part) - median(std::move(others)));
  }
  return out;
}

// What a step takes a rank that waits for nobody: the middle of all.
double SlowRanks::step_ms() const {
  std::vector<double> all;
  for (const Step& step : steps_) {
    for (const RankNumbers& rank : step.ranks) all.push_back(finite(rank.busy_ms));
  }
  return median(std::move(all));
}

// The first step from which on most are above half of what they are now.
int64_t SlowRanks::since(size_t rank, size_t phase, double ms) const {
  const std::vector<double> more = excess(rank, kPhases[phase].part);
  size_t best = 0;
  double most = 0, sum = 0;
  for (size_t i = more.size(); i-- > 0;) {
    sum += std::clamp(more[i], -ms, 2 * ms) - ms / 2;
    if (sum >= most) {
      most = sum;
      best = i;
    }
  }
  return steps_[best].number;
}

// Buckets come one after the other: the one before which most time went is where the rank lost it.
std::string SlowRanks::where_in_backward(size_t rank) const {
  constexpr double kMostBuckets = 1e6;
  const auto num_buckets =
      static_cast<size_t>(std::clamp(finite(steps_.back().ranks[rank].num_buckets), 0.0, kMostBuckets));
  const size_t num = std::min(num_buckets, kNumReadyTimes);
  if (num < 2) return "";
  size_t worst = 0;
  double most_ms = 0;
  for (size_t bucket = 0; bucket < num; ++bucket) {
    std::vector<double> more;
    for (const Step& step : steps_) {
      const auto gap = [&](const RankNumbers& of) {
        return finite(of.ready_ms[bucket]) - (bucket == 0 ? 0 : finite(of.ready_ms[bucket - 1]));
      };
      std::vector<double> others;
      for (size_t other = 0; other < step.ranks.size(); ++other) {
        if (other != rank) others.push_back(gap(step.ranks[other]));
      }
      more.push_back(gap(step.ranks[rank]) - median(std::move(others)));
    }
    const double middle = median(std::move(more));
    if (middle <= most_ms) continue;
    most_ms = middle;
    worst = bucket;
  }
  return most_ms > 0 ? name_of(buckets_of_place(worst, num_buckets)) : "";
}

// "layers.7 to layers.9" for several of them.
std::string SlowRanks::name_of(const BucketRange& buckets) const {
  constexpr std::string_view kTo = " to ";
  const auto& names = options_.bucket_names;
  const bool is_one = buckets.first == buckets.last;
  if (buckets.last >= names.size())
    return is_one ? cat("bucket ", buckets.first) : cat("buckets ", buckets.first, kTo, buckets.last);
  if (is_one) return names[buckets.first];
  const std::string &first = names[buckets.first], &last = names[buckets.last];
  const size_t at = last.find(kTo);
  return cat(first.substr(0, first.find(kTo)), kTo, at == std::string::npos ? last : last.substr(at + kTo.size()));
}

// The rank that came last waited for nobody: its reductions are the transfer itself. -1: nothing was reduced.
double SlowRanks::link_ms(const Step& step) const {
  double least = -1;
  for (const RankNumbers& rank : step.ranks) {
    if (rank.num_buckets > 0 && (least < 0 || finite(rank.reduce_ms) < least)) least = finite(rank.reduce_ms);
  }
  return least;
}

void SlowRanks::look_at_link(std::vector<SlowRank>& out) const {
  if (quickest_link_ms_ < 0) return;
  std::vector<double> more;
  for (const Step& step : steps_) more.push_back(link_ms(step) - quickest_link_ms_);
  const double middle = median(more), whole_ms = step_ms();
  if (whole_ms <= 0) return;
  SlowRank slow{.rank = -1,
                .phase = "link",
                .ms = middle,
                .percent = 100 * middle / whole_ms,
                .since_step = steps_.front().number};
  const bool was = std::ranges::any_of(now_, [&](const auto& other) { return other.is_same(slow); });
  // Reductions behind the computation may take longer without harm: it counts where training waits for them.
  std::vector<double> waits;
  for (const Step& step : steps_) {
    waits.push_back(finite(std::ranges::min_element(step.ranks, {}, &RankNumbers::exposed_comm_ms)->exposed_comm_ms));
  }
  const double waited_ms = median(std::move(waits));
  const double limit_ms = options_.threshold_percent * (was ? kOverPart : 1) / 100 * whole_ms;
  if (middle < limit_ms || waited_ms < limit_ms || !is_clear(more, middle)) return;
  for (const SlowRank& other : now_) {
    if (other.is_same(slow)) slow.since_step = other.since_step;
  }
  out.push_back(std::move(slow));
}

}  // namespace weft
