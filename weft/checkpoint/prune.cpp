#include "weft/checkpoint/prune.h"

#include <algorithm>
#include <set>
#include <utility>

#include "weft/base/error.h"
#include "weft/base/log.h"
#include "weft/checkpoint/store_writer.h"

namespace weft::checkpoint {
namespace {

std::vector<int64_t> best_steps(const std::vector<Manifest>& committed, const PrunePolicy& policy) {
  std::vector<std::pair<double, size_t>> scored;  // and the place in the order, so that of equals the newest is first
  for (size_t i = 0; i < committed.size(); ++i) {
    const auto metric = committed[i].metrics.find(policy.metric);
    if (metric == committed[i].metrics.end()) continue;
    scored.emplace_back(policy.lower_is_better ? metric->second : -metric->second, i);
  }
  std::ranges::sort(scored);
  std::vector<int64_t> best;
  for (const auto& [score, i] : scored) {
    if (std::cmp_less(best.size(), policy.keep_best)) best.push_back(committed[i].step);
  }
  return best;
}

std::vector<Manifest> committed_steps(Env& env, const std::vector<StepPlace>& places) {
  std::vector<Manifest> committed;
  for (const auto& place : places) {
    if (!committed.empty() && committed.back().step == place.step) continue;  // its ".old"
    try {
      committed.push_back(open_step(env, place));
    } catch (const Error& error) {
      log_warn("step ", place.step, " is not counted when pruning\n", error.what());
    }
  }
  return committed;
}

}  // namespace

std::vector<int64_t> steps_to_prune(const std::vector<Manifest>& committed, const PrunePolicy& policy) {
  std::set<int64_t> kept;
  for (size_t i = 0; i < committed.size(); ++i) {
    const int64_t step = committed[i].step;
    const bool is_last = std::cmp_less(i, std::max(1, policy.keep_last));
    const bool is_nth = policy.keep_every > 0 && step % policy.keep_every == 0;
    if (is_last || is_nth) kept.insert(step);
  }
  const auto best = best_steps(committed, policy);
  kept.insert(best.begin(), best.end());
  std::vector<int64_t> out;
  for (const auto& manifest : committed) {
    if (!kept.contains(manifest.step)) out.push_back(manifest.step);
  }
  return out;
}

std::vector<int64_t> prune_store(Env& env, const std::string& store, const PrunePolicy& policy) {
  const auto places = list_steps(env, store);
  auto steps = steps_to_prune(committed_steps(env, places), policy);
  for (const auto& place : places) {
    const bool goes = std::ranges::find(steps, place.step) != steps.end();
    if (goes) discard_folder(env, store, place.folder.substr(store.size() + 1));
  }
  return steps;
}

}  // namespace weft::checkpoint
