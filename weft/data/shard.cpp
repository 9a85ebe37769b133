#include "weft/data/shard.h"

#include <algorithm>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "weft/base/error.h"
#include "weft/base/text.h"

namespace weft::data {
namespace {

// Places run up to the samples plus one world: neither may come near the end of the numbers.
constexpr int64_t kMost = std::numeric_limits<int64_t>::max() / 4;

std::string_view on_off(bool value) { return value ? "on" : "off"; }

Error refused(std::string title, const std::vector<std::string>& problems, std::string where, std::string fix) {
  return Error(
      ErrorKind::kInput,
      {.title = std::move(title), .what = join(problems, "; "), .where = std::move(where), .fix = std::move(fix)});
}

std::vector<std::string> problems_of(const SamplerOptions& options) {
  std::vector<std::string> out;
  const auto [n, rank, world, seed, shuffle, drop_last] = options;
  if (n <= 0) out.push_back(cat("the dataset has ", n, " samples, at least 1 is needed"));
  if (n > kMost) out.push_back(cat("the dataset has ", n, " samples, ", kMost, " is the most"));
  if (world <= 0 || world > kMost) out.push_back(cat("the world is ", world, " ranks, at least 1 is needed"));
  if (world > 0 && (rank < 0 || rank >= world)) {
    out.push_back(cat("the rank is ", rank, ", a world of ", world, " has ranks 0 to ", world - 1));
  }
  if (seed < 0) out.push_back(cat("the seed is ", seed, ", 0 is the least"));
  if (drop_last && n > 0 && world > n) {
    out.push_back(cat("drop_last with ", n, " samples for ", world, " ranks leaves none"));
  }
  return out;
}

std::string fix_for(const SamplerOptions& options) {
  if (options.num_samples <= 0) return "give a dataset that has samples";
  if (options.drop_last && options.world > options.num_samples) return "turn drop_last off, or use fewer ranks";
  return "take rank and world from weft::init(), and a seed of 0 or more";
}

}  // namespace

void check(const SamplerOptions& options) {
  const auto problems = problems_of(options);
  if (problems.empty()) return;
  throw refused("the samples cannot be shared out", problems, cat("rank ", options.rank, " of ", options.world),
                fix_for(options));
}

void check(const SamplerState& state, const SamplerOptions& options) {
  std::vector<std::string> problems;
  if (state.num_samples != options.num_samples) {
    problems.push_back(cat("the dataset has ", options.num_samples, " samples now, it had ", state.num_samples));
  }
  if (state.seed != options.seed) problems.push_back(cat("the seed is ", options.seed, " now, it was ", state.seed));
  if (state.shuffle != options.shuffle) {
    problems.push_back(cat("shuffle is ", on_off(options.shuffle), " now, it was ", on_off(state.shuffle)));
  }
  if (state.epoch < 0) problems.push_back(cat("the saved epoch is ", state.epoch, ", 0 is the least"));
  if (state.consumed < 0 || state.consumed > 2 * kMost) {
    problems.push_back(cat("the saved position is ", state.consumed, ", outside every epoch"));
  }
  if (problems.empty()) return;
  throw refused("the saved position is another run's", problems,
                cat("epoch ", state.epoch, ", sample ", state.consumed),
                "resume with the dataset, seed and shuffle of the saved run, or start the epoch anew");
}

ShardPlaces::ShardPlaces(const SamplerOptions& options, int64_t consumed)
    : num_samples_(options.num_samples), rank_(options.rank), world_(options.world), begin_(consumed), end_(consumed) {
  // The epoch of a world that padded ends past num_samples: nothing is left of it then.
  const int64_t left = std::max<int64_t>(0, num_samples_ - consumed);
  const int64_t rounds = options.drop_last ? left / world_ : (left + world_ - 1) / world_;
  end_ += rounds * world_;
}

}  // namespace weft::data
