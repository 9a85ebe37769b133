#include "weft/sim/collective_replay.h"

#include <algorithm>
#include <iterator>

namespace weft::sim {
namespace {

bool sums(Algorithm algorithm) {
  return algorithm != Algorithm::kSerialBroadcast && algorithm != Algorithm::kTreeBroadcast &&
         algorithm != Algorithm::kRingAllGather;
}

bool starts_with(const Schedule& schedule, int rank, int part) {
  if (sums(schedule.algorithm)) return true;
  return rank == (schedule.algorithm == Algorithm::kRingAllGather ? part : schedule.problem.root);
}

// Whether this rank must have this part at the end.
bool owes(const Schedule& schedule, int rank, int part) {
  if (schedule.algorithm == Algorithm::kTreeReduce) return rank == schedule.problem.root;
  return schedule.algorithm != Algorithm::kRingReduceScatter || rank == part;
}

Holdings at_the_start(const Schedule& schedule) {
  Holdings out{.num_parts = schedule.num_parts, .cells = {}};
  for (int rank = 0; rank < schedule.problem.world; ++rank) {
    for (int part = 0; part < schedule.num_parts; ++part)
      out.cells.push_back(starts_with(schedule, rank, part) ? Contributions{rank} : Contributions{});
  }
  return out;
}

// Messages of one step are sent from what was there before it.
void deliver(const Transfer& message, const Holdings& before, Holdings& after) {
  const Contributions& sent = before.of(message.from, message.part);
  Contributions& held = after.cells[after.index(message.to, message.part)];
  if (!message.adds) {
    held = sent;
    return;
  }
  Contributions sum;
  std::ranges::merge(held, sent, std::back_inserter(sum));
  held = std::move(sum);
}

}  // namespace

std::vector<Holdings> replay(const Schedule& schedule) {
  std::vector<Holdings> out{at_the_start(schedule)};
  for (const Transfer& message : schedule.transfers) {
    const auto step = static_cast<size_t>(message.step);
    if (out.size() < step + 2) out.push_back(out[step]);
    deliver(message, out[step], out[step + 1]);
  }
  return out;
}

bool is_final(const Schedule& schedule, const Contributions& held) {
  if (!sums(schedule.algorithm)) return held.size() == 1;
  if (held.size() != static_cast<size_t>(schedule.problem.world)) return false;
  // A rank counted twice would make the size right and the sum wrong.
  return std::ranges::adjacent_find(held) == held.end();
}

bool is_complete(const Schedule& schedule, const Holdings& holdings) {
  for (int rank = 0; rank < schedule.problem.world; ++rank) {
    for (int part = 0; part < schedule.num_parts; ++part) {
      if (owes(schedule, rank, part) && !is_final(schedule, holdings.of(rank, part))) return false;
    }
  }
  return true;
}

}  // namespace weft::sim
