#include "weft/monitor/slow_rank.h"

#include <algorithm>
#include <cmath>
#include <utility>

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
constexpr size_t kData = 0, kBackward = 2;
constexpr const char* kProcessor = "processor";
// Beyond this it is no processor's pace but a moment in which the rank was interrupted.
constexpr double kMostPace = 2;

// How many times its own standard error a median must be above 0. Five: one false look in millions, were the steps independent.
constexpr double kClear = 5;
constexpr double kErrorOfMedian = 1.2533;  // of a normal's mean
constexpr double kSigmaOfMad = 1.4826;
// Less than this is the host's scheduler, not a rank: what ranks of a step of 10 ms differ by when nobody is slow.
constexpr double kLeastMs = 0.7;
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

std::vector<double> values_of(const std::vector<RankNumbers>& ranks, const auto& value_of) {
  std::vector<double> out;
  for (const RankNumbers& rank : ranks) out.push_back(finite(value_of(rank)));
  return out;
}

// For each of them the median of all but it. Sorted once: there may be thousands of ranks. Requires: at least two.
std::vector<double> medians_of_others(const std::vector<double>& values) {
  std::vector<double> sorted = values, out;
  std::ranges::sort(sorted);
  const size_t middle = (values.size() - 2) / 2;
  for (const double value : values) {
    const auto own = static_cast<size_t>(std::ranges::lower_bound(sorted, value) - sorted.begin());
    out.push_back(sorted[middle < own ? middle : middle + 1]);
  }
  return out;
}

// By rank: how many times as long the same work takes its processor as the others'. 1 where nobody measured it.
std::vector<double> paces_of(const std::vector<double>& us) {
  const std::vector<double> others = medians_of_others(us);
  std::vector<double> out;
  for (size_t rank = 0; rank < us.size(); ++rank) {
    const bool is_known = us[rank] > 0 && others[rank] > 0;
    out.push_back(is_known ? std::clamp(us[rank] / others[rank], 1 / kMostPace, kMostPace) : 1);
  }
  return out;
}

double computed_ms(const RankNumbers& of) {
  return finite(of.forward_ms) + finite(of.backward_ms) + finite(of.optimizer_ms);
}

// The first from which on most are above half of what they are now.
size_t begin_of(const std::vector<double>& more, double ms) {
  size_t best = 0;
  double most = 0, sum = 0;
  for (size_t i = more.size(); i-- > 0;) {
    sum += std::clamp(more[i], -ms, 2 * ms) - ms / 2;
    if (sum < most) continue;
    most = sum;
    best = i;
  }
  return best;
}

std::string longer_part(const SlowRank& slow) {
  if (slow.phase == "link") return "reductions take ";
  return slow.phase == kProcessor ? "for the same work its processor takes " : cat(slow.phase, " takes ");
}

}  // namespace

std::string text_of(const SlowRank& slow) {
  const std::string who = slow.rank < 0 ? "the link between ranks" : cat("rank ", slow.rank);
  if (slow.is_over) return cat(who, " is no longer slow in ", slow.phase);
  std::string out = cat(who, " is slow: ", longer_part(slow), fixed_text(slow.ms, 1), " ms (",
                        fixed_text(slow.percent, 1), " % of a step) longer than ",
                        slow.rank < 0              ? "they did"
                        : slow.phase == kProcessor ? "those of other ranks"
                                                   : "on other ranks",
                        ", since step ", slow.since_step);
  if (!slow.where.empty()) out += cat(", at ", slow.where);
  return out;
}

std::vector<SlowRank> SlowRanks::add(int64_t step, std::span<const RankNumbers> ranks) {
  if (ranks.size() < 2) return {};
  if (!steps_.empty() && steps_.back().ranks.size() != ranks.size()) {
    steps_.clear();
    paces_.clear();
    seen_.clear();
  }
  take_in(step, ranks);
  if (steps_.size() > kWindow) steps_.pop_front();
  if (paces_.size() > kLongWindow) paces_.pop_front();
  if (steps_.size() < kWindow || step % kEvery != 0) return {};
  std::vector<SlowRank> found = seen_twice(look()), news;
  for (const SlowRank& one : found) {
    if (before(one) == nullptr) news.push_back(one);
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

void SlowRanks::take_in(int64_t number, std::span<const RankNumbers> ranks) {
  Step step{.number = number, .ranks = {ranks.begin(), ranks.end()}};
  Paces paces{.number = number, .us = values_of(step.ranks, [](const RankNumbers& of) { return of.pace_us; })};
  step.paces = paces_of(paces.us);
  const std::vector<double> computed = medians_of_others(values_of(step.ranks, computed_ms));
  for (size_t rank = 0; rank < ranks.size(); ++rank) paces.more_ms.push_back((step.paces[rank] - 1) * computed[rank]);
  for (size_t phase = 0; phase < std::size(kPhases); ++phase) step.more_ms.push_back(excess(step, phase));
  steps_.push_back(std::move(step));
  paces_.push_back(std::move(paces));
}

// By rank: how much longer its part was than the median of the others' would be at its own pace. Data may come from a disk: that has no
// pace.
std::vector<double> SlowRanks::excess(const Step& step, size_t phase) {
  std::vector<double> out =
      values_of(step.ranks, [part = kPhases[phase].part](const RankNumbers& of) { return of.*part; });
  const std::vector<double> others = medians_of_others(out);
  for (size_t rank = 0; rank < out.size(); ++rank) out[rank] -= (phase == kData ? 1 : step.paces[rank]) * others[rank];
  return out;
}

// What goes on is there at the next look too; what a few odd steps made is not.
std::vector<SlowRank> SlowRanks::seen_twice(std::vector<SlowRank> seen) {
  const std::vector<SlowRank> earlier = std::exchange(seen_, seen);
  std::erase_if(seen, [&](const SlowRank& one) {
    return std::ranges::none_of(earlier, [&](const SlowRank& other) { return other.is_same(one); });
  });
  return seen;
}

std::vector<SlowRank> SlowRanks::look() {
  std::vector<SlowRank> out;
  step_ms_ = middle_step_ms();
  for (size_t rank = 0; rank < steps_.back().ranks.size(); ++rank) {
    for (size_t phase = 0; phase < std::size(kPhases); ++phase) look_at_phase(rank, phase, out);
    look_at_processor(rank, out);
  }
  look_at_link(out);
  std::ranges::sort(out, std::greater(), &SlowRank::ms);
  std::erase_if(out, [&](const SlowRank& one) { return is_knock_on(one, out); });
  return out;
}

// Who comes late reduces inside its own backward, where the others' wait for it is over; they reduced, or waited, in theirs. So a backward
// that follows a longer delay of the same rank may be longer by its reductions.
bool SlowRanks::is_knock_on(const SlowRank& slow, const std::vector<SlowRank>& all) const {
  if (slow.phase != kPhases[kBackward].name) return false;
  const bool is_late = std::ranges::any_of(all, [&](const SlowRank& other) {
    return other.rank == slow.rank && other.phase != kProcessor && other.ms > slow.ms;
  });
  std::vector<double> reduced;
  for (const Step& step : steps_) reduced.push_back(finite(step.ranks[static_cast<size_t>(slow.rank)].reduce_ms));
  return is_late && 100 * (slow.ms - median(std::move(reduced))) < threshold_percent(slow) * step_ms_;
}

// Fills in by how much, where it is.
bool SlowRanks::is_slow(SlowRank& slow, const std::vector<double>& more) const {
  const double middle = median(more);
  if (step_ms_ <= 0) return false;
  slow.ms = middle;
  slow.percent = 100 * middle / step_ms_;
  const bool is_enough = slow.percent >= threshold_percent(slow) && slow.ms >= kLeastMs * part_to_reach(slow);
  return is_enough && is_clear(more, middle);
}

const SlowRank* SlowRanks::before(const SlowRank& slow) const {
  const auto found = std::ranges::find_if(now_, [&](const SlowRank& other) { return other.is_same(slow); });
  return found == now_.end() ? nullptr : &*found;
}

double SlowRanks::threshold_percent(const SlowRank& slow) const {
  return options_.threshold_percent * part_to_reach(slow);
}

double SlowRanks::part_to_reach(const SlowRank& slow) const { return before(slow) != nullptr ? kOverPart : 1; }

// What goes on has begun when it was found first.
void SlowRanks::say(SlowRank slow, std::vector<SlowRank>& out) const {
  if (const SlowRank* earlier = before(slow)) slow.since_step = earlier->since_step;
  out.push_back(std::move(slow));
}

void SlowRanks::look_at_phase(size_t rank, size_t phase, std::vector<SlowRank>& out) const {
  SlowRank slow{.rank = static_cast<int>(rank), .phase = kPhases[phase].name};
  std::vector<double> more;
  for (const Step& step : steps_) more.push_back(step.more_ms[phase][rank]);
  if (!is_slow(slow, more)) return;
  slow.since_step = steps_[begin_of(more, slow.ms)].number;
  if (phase == kBackward) slow.where = where_in_backward(rank);
  say(std::move(slow), out);
}

// Of the whole window: where cores change places with each other, each is as fast as the other in the end.
double SlowRanks::long_pace_of(size_t rank) const {
  std::vector<double> mine, others;
  for (size_t of = 0; of < paces_.back().us.size(); ++of) {
    std::vector<double> all;
    for (const Paces& step : paces_) all.push_back(step.us[of]);
    (of == rank ? mine : others).push_back(median(std::move(all)));
  }
  const double usual = median(std::move(others));
  return usual > 0 ? mine.front() / usual : 1;
}

void SlowRanks::look_at_processor(size_t rank, std::vector<SlowRank>& out) const {
  if (paces_.size() < kLongWindow) return;
  std::vector<double> more;
  for (const Paces& step : paces_) more.push_back(step.more_ms[rank]);
  SlowRank slow{.rank = static_cast<int>(rank), .phase = kProcessor};
  if (!is_slow(slow, more) || 100 * (long_pace_of(rank) - 1) < threshold_percent(slow)) return;
  slow.since_step = paces_[begin_of(more, slow.ms)].number;
  say(std::move(slow), out);
}

// What a step takes a rank that waits for nobody: the middle of all.
double SlowRanks::middle_step_ms() const {
  std::vector<double> all;
  for (const Step& step : steps_) {
    for (const RankNumbers& rank : step.ranks) all.push_back(finite(rank.busy_ms));
  }
  return median(std::move(all));
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
      more.push_back(gap(step.ranks[rank]) - step.paces[rank] * medians_of_others(values_of(step.ranks, gap))[rank]);
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
  SlowRank slow{.rank = -1, .phase = "link", .since_step = steps_.front().number};
  if (!is_slow(slow, more)) return;
  // Reductions behind the computation may take longer without harm: it counts where training waits for them.
  std::vector<double> waits;
  for (const Step& step : steps_) {
    waits.push_back(finite(std::ranges::min_element(step.ranks, {}, &RankNumbers::exposed_comm_ms)->exposed_comm_ms));
  }
  if (100 * median(std::move(waits)) >= threshold_percent(slow) * step_ms_) say(std::move(slow), out);
}

}  // namespace weft
