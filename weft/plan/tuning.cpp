#include "weft/plan/tuning.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "weft/base/check.h"
#include "weft/base/error.h"
#include "weft/base/text.h"
#include "weft/plan/parameter_table.h"

namespace weft::plan {
namespace {

// Cuts that differ by less are equally good: rounding over many buckets stays below it, and no clock sees it.
constexpr double kTieFraction = 1e-9;
constexpr double kMaxSeconds = 1e9;
constexpr size_t kMaxTuned = 65'536;
constexpr int64_t kMostParts = 64;  // tried by tune_with_update()

[[noreturn]] void refuse_tuning(std::string title, std::string what) {
  throw Error(ErrorKind::kInput, {.title = std::move(title),
                                  .what = std::move(what),
                                  .where = "",
                                  .fix = "measure a backward again, or keep zero_optimization.reduce_bucket_size"});
}

bool is_time(double seconds) { return seconds >= 0 && seconds <= kMaxSeconds; }

void check_input(const TuningInput& input) {
  if (input.gradients.empty() || input.gradients.size() > kMaxTuned)
    refuse_tuning("buckets cannot be tuned",
                  cat(input.gradients.size(), " gradients, from 1 to ", kMaxTuned, " are possible"));
  if (!is_time(input.link.latency_s) || !(input.link.bytes_per_s >= 1) || !std::isfinite(input.link.bytes_per_s))
    refuse_tuning("a link needs a latency, and a rate of a byte per second at least",
                  cat(input.link.latency_s, " s, ", input.link.bytes_per_s, " bytes/s"));
  if (input.max_elements < 0)
    refuse_tuning("a bucket must hold something", cat(input.max_elements, " elements at most"));
  if (input.bytes_per_element < 1 || input.bytes_per_element > 8)
    refuse_tuning("an element has 1 to 8 bytes", cat(input.bytes_per_element, " bytes"));
  if (!is_time(input.backward_end_s)) refuse_tuning("not a time", cat("backward ends at ", input.backward_end_s, " s"));
  for (size_t i = 0; const ReadyGradient& gradient : input.gradients) {
    if (!is_time(gradient.ready_s))
      refuse_tuning("not a time", cat("gradient ", i, " is ready at ", gradient.ready_s, " s"));
    if (gradient.num_elements < 0 || gradient.num_elements > kMaxElements)
      refuse_tuning("not a number of elements", cat("gradient ", i, " has ", gradient.num_elements));
    ++i;
  }
}

// The input as the formulas read it: positions 0 to n, where i stands for the first i gradients.
class Model {
 public:
  explicit Model(const TuningInput& input) : latency_s_(input.link.latency_s), end_s_(input.backward_end_s) {
    const double s_per_element = static_cast<double>(input.bytes_per_element) / input.link.bytes_per_s;
    for (const ReadyGradient& gradient : input.gradients) {
      ready_s_.push_back(std::max(ready_s_.back(), gradient.ready_s));
      elements_.push_back(elements_.back() + static_cast<double>(gradient.num_elements));
    }
    for (double& sum : elements_) sum *= s_per_element;
    if (input.max_elements > 0) most_s_ = static_cast<double>(input.max_elements) * s_per_element;
  }

  size_t size() const { return ready_s_.size() - 1; }
  double ready_s(size_t i) const { return ready_s_[i]; }
  double backward_end_s() const { return end_s_; }
  bool may_be_one(size_t from, size_t to) const { return to - from == 1 || elements_[to] - elements_[from] <= most_s_; }
  double cost_s(size_t from, size_t to) const { return latency_s_ + (elements_[to] - elements_[from]); }
  double finish_s(double previous_s, size_t from, size_t to) const {
    return std::max(previous_s, ready_s_[to]) + cost_s(from, to);
  }
  // Of all elements, those between two positions.
  double share(size_t from, size_t to) const {
    return elements_.back() > 0 ? (elements_[to] - elements_[from]) / elements_.back() : 0;
  }

 private:
  double latency_s_, end_s_, most_s_ = std::numeric_limits<double>::infinity();
  std::vector<double> ready_s_ = {0.0};
  std::vector<double> elements_ = {0.0};  // then in seconds on the wire
};

double earliest_finish_s(const Model& model) {
  std::vector<double> finish_s(model.size() + 1, std::numeric_limits<double>::infinity());
  finish_s[0] = 0;
  for (size_t i = 1; i <= model.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (model.may_be_one(j, i)) finish_s[i] = std::min(finish_s[i], model.finish_s(finish_s[j], j, i));
    }
  }
  return finish_s.back();
}

// The fewest buckets that are done by a deadline, from the last one backwards. Each begins as early as the deadline lets it:
// a bucket must be ready, then sent, before the moment its successor has to start. An earlier beginning leaves the bucket
// before it fewer gradients and an earlier ready time, so it is never worse.
std::vector<int> fewest_boundaries(const Model& model, double deadline_s) {
  std::vector<int> boundaries;
  for (size_t end = model.size(); end > 0;) {
    size_t begin = end - 1;
    while (begin > 0 && model.may_be_one(begin - 1, end) &&
           model.ready_s(end) + model.cost_s(begin - 1, end) <= deadline_s)
      --begin;
    deadline_s -= model.cost_s(begin, end);
    if (begin > 0) boundaries.push_back(static_cast<int>(begin));
    end = begin;
  }
  std::ranges::reverse(boundaries);
  return boundaries;
}

// Calls back with each bucket's first and last position and the time at which it is there. Returns that of the last.
template <typename Arrived>
double send_all(const Model& model, const std::vector<int>& boundaries, const Arrived& arrived) {
  double finish_s = 0;
  size_t from = 0;
  const auto send_until = [&](size_t to) {
    WEFT_CHECK(from < to && to <= model.size());
    finish_s = model.finish_s(finish_s, from, to);
    arrived(from, to, finish_s);
    from = to;
  };
  for (const int boundary : boundaries) send_until(static_cast<size_t>(boundary));
  send_until(model.size());
  return finish_s;
}

double exposed_s(const Model& model, const std::vector<int>& boundaries) {
  const double finish_s = send_all(model, boundaries, [](size_t, size_t, double) {});
  return std::max(0.0, finish_s - model.backward_end_s());
}

double lower_bound_s(const Model& model) {
  double bound_s = 0;
  for (size_t i = 1; i <= model.size(); ++i)
    bound_s = std::max(bound_s, model.ready_s(i) + model.cost_s(i - 1, model.size()) - model.backward_end_s());
  return bound_s;
}

}  // namespace

Tuning tune_buckets(const TuningInput& input) {
  check_input(input);
  const Model model(input);
  const double best_s = std::max(earliest_finish_s(model), model.backward_end_s());
  Tuning out{.boundaries = fewest_boundaries(model, best_s * (1 + kTieFraction))};
  out.exposed_s = exposed_s(model, out.boundaries);
  out.lower_bound_s = std::min(lower_bound_s(model), out.exposed_s);
  return out;
}

double updated_at_s(const TuningInput& input, const std::vector<int>& boundaries, double update_s) {
  check_input(input);
  if (!is_time(update_s)) refuse_tuning("not a time", cat("an update takes ", update_s, " s"));
  const Model model(input);
  const double host_s = input.link.latency_s * static_cast<double>(boundaries.size() + 1);
  double updated_s = model.backward_end_s() + host_s;
  send_all(model, boundaries, [&](size_t from, size_t to, double arrived_s) {
    updated_s = std::max(updated_s, arrived_s) + update_s * model.share(from, to);
  });
  return updated_s;
}

Tuning tune_with_update(TuningInput input, double update_s) {
  check_input(input);
  int64_t num_elements = 0;
  for (const ReadyGradient& gradient : input.gradients) num_elements += gradient.num_elements;
  Tuning best;
  double best_s = std::numeric_limits<double>::infinity();
  for (int64_t least = 1; least <= kMostParts; least *= 2) {
    input.max_elements = num_elements / least;
    Tuning tuning = tune_buckets(input);
    const double updated_s = updated_at_s(input, tuning.boundaries, update_s);
    if (updated_s >= best_s) continue;
    best_s = updated_s;
    best = std::move(tuning);
  }
  return best;
}

double exposed_time_s(const TuningInput& input, const std::vector<int>& boundaries) {
  check_input(input);
  return exposed_s(Model(input), boundaries);
}

}  // namespace weft::plan
