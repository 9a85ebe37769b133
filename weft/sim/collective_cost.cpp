#include "weft/sim/collective_cost.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "weft/base/error.h"
#include "weft/base/text.h"

namespace weft::sim {
namespace {

int ceil_log2(int world) { return static_cast<int>(std::bit_width(static_cast<unsigned>(world - 1))); }

[[noreturn]] void refuse(std::string title, std::string what) {
  throw Error(ErrorKind::kInput, {.title = std::move(title), .what = std::move(what), .where = "", .fix = ""});
}

void check(const Problem& problem, const Link& link) {
  if (problem.world < 1) refuse("a collective needs a rank", cat("world is ", problem.world));
  if (problem.root < 0 || problem.root >= problem.world)
    refuse("the root is no rank of the world", cat("root ", problem.root, ", world ", problem.world));
  if (!(link.bytes_per_s > 0) || !std::isfinite(link.bytes_per_s))
    refuse("a link needs a rate above zero", cat(link.bytes_per_s, " bytes/s"));
  if (!(link.latency_s >= 0) || !std::isfinite(link.latency_s))
    refuse("a latency cannot be negative", cat(link.latency_s, " s"));
}

// Puts messages down one by one; each starts as soon as its sender, its receiver and its content are there.
class Builder {
 public:
  explicit Builder(Schedule& schedule)
      : schedule_(schedule),
        sends_until_(ranks(), 0.0),
        receives_until_(ranks(), 0.0),
        has_since_(ranks() * static_cast<size_t>(schedule.num_parts), 0.0) {}

  void next_step() { ++step_; }

  void send(int from, int to, int part, bool adds) {
    const Problem& problem = schedule_.problem;
    Transfer message{.step = step_, .from = from, .to = to, .part = part, .adds = adds};
    message.bytes = part_bytes(problem.bytes, schedule_.num_parts, part);
    message.start_s = std::max({sends_until_[at(from)], receives_until_[at(to)], has_since(from, part)});
    message.end_s = message.start_s + duration_s(message.bytes);
    sends_until_[at(from)] = receives_until_[at(to)] = has_since(to, part) = message.end_s;
    schedule_.transfers.push_back(message);
  }

 private:
  static size_t at(int rank) { return static_cast<size_t>(rank); }
  size_t ranks() const { return at(schedule_.problem.world); }
  double& has_since(int rank, int part) { return has_since_[at(rank) * at(schedule_.num_parts) + at(part)]; }
  double duration_s(uint64_t bytes) const {
    return schedule_.link.latency_s + static_cast<double>(bytes) / schedule_.link.bytes_per_s;
  }

  Schedule& schedule_;
  int step_ = 0;
  std::vector<double> sends_until_, receives_until_, has_since_;
};

// Ranks counted from the root: the algorithms below are written for root 0.
int from_root(const Problem& problem, int rank) { return (problem.root + rank) % problem.world; }

void serial_broadcast(const Problem& problem, Builder& out) {
  for (int rank = 1; rank < problem.world; ++rank) {
    out.send(problem.root, from_root(problem, rank), 0, false);
    out.next_step();
  }
}

// The pairs of one level: `distance` apart, the lower one a multiple of twice that.
template <typename Body>
void for_each_pair(const Problem& problem, int distance, Body body) {
  for (int low = 0; low + distance < problem.world; low += 2 * distance)
    body(from_root(problem, low), from_root(problem, low + distance));
}

void tree_broadcast(const Problem& problem, Builder& out) {
  for (int level = ceil_log2(problem.world) - 1; level >= 0; --level) {
    for_each_pair(problem, 1 << level, [&](int low, int high) { out.send(low, high, 0, false); });
    out.next_step();
  }
}

void tree_reduce(const Problem& problem, Builder& out) {
  for (int level = 0; level < ceil_log2(problem.world); ++level) {
    for_each_pair(problem, 1 << level, [&](int low, int high) { out.send(high, low, 0, true); });
    out.next_step();
  }
}

// One trip round the ring: in step s rank r sends part (r + first - s) to its right neighbour.
void ring(const Problem& problem, int first, bool adds, Builder& out) {
  const int world = problem.world;
  for (int step = 0; step + 1 < world; ++step) {
    for (int rank = 0; rank < world; ++rank)
      out.send(rank, (rank + 1) % world, (rank + first - step + 2 * world) % world, adds);
    out.next_step();
  }
}

void build(Algorithm algorithm, const Problem& problem, Builder& out) {
  // A part ends its trip of sums one rank before it comes home, so it starts one rank behind: rank r then ends with part r.
  constexpr int kScatterFirst = -1, kGatherFirst = 0;
  switch (algorithm) {
    case Algorithm::kSerialBroadcast: return serial_broadcast(problem, out);
    case Algorithm::kTreeBroadcast: return tree_broadcast(problem, out);
    case Algorithm::kTreeReduce: return tree_reduce(problem, out);
    case Algorithm::kReduceThenBroadcast: tree_reduce(problem, out); return tree_broadcast(problem, out);
    case Algorithm::kRingReduceScatter: return ring(problem, kScatterFirst, true, out);
    case Algorithm::kRingAllGather: return ring(problem, kGatherFirst, false, out);
    case Algorithm::kRingAllReduce:
      ring(problem, kScatterFirst, true, out);
      return ring(problem, kGatherFirst, false, out);
  }
}

}  // namespace

std::string_view name_of(Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::kSerialBroadcast: return "serial_broadcast";
    case Algorithm::kTreeBroadcast: return "tree_broadcast";
    case Algorithm::kTreeReduce: return "tree_reduce";
    case Algorithm::kReduceThenBroadcast: return "reduce_then_broadcast";
    case Algorithm::kRingReduceScatter: return "ring_reduce_scatter";
    case Algorithm::kRingAllGather: return "ring_all_gather";
    case Algorithm::kRingAllReduce: return "ring_all_reduce";
  }
  return "";
}

bool has_root(Algorithm algorithm) { return !has_parts(algorithm); }

bool has_parts(Algorithm algorithm) {
  return algorithm == Algorithm::kRingReduceScatter || algorithm == Algorithm::kRingAllGather ||
         algorithm == Algorithm::kRingAllReduce;
}

int Schedule::num_steps() const { return transfers.empty() ? 0 : transfers.back().step + 1; }

double Schedule::time_s() const {
  double last_s = 0;
  for (const Transfer& message : transfers) last_s = std::max(last_s, message.end_s);
  return last_s;
}

uint64_t Schedule::busiest_bytes() const {
  std::vector<uint64_t> sent(static_cast<size_t>(problem.world), 0);
  for (const Transfer& message : transfers) sent[static_cast<size_t>(message.from)] += message.bytes;
  return *std::ranges::max_element(sent);
}

uint64_t Schedule::total_bytes() const {
  uint64_t sum = 0;
  for (const Transfer& message : transfers) sum += message.bytes;
  return sum;
}

Schedule make_schedule(Algorithm algorithm, const Problem& problem, const Link& link) {
  check(problem, link);
  Schedule schedule{.algorithm = algorithm, .problem = problem, .link = link};
  schedule.num_parts = has_parts(algorithm) ? problem.world : 1;
  Builder builder(schedule);
  build(algorithm, problem, builder);
  return schedule;
}

double formula_time_s(Algorithm algorithm, const Problem& problem, const Link& link) {
  check(problem, link);
  const int others = problem.world - 1, levels = ceil_log2(problem.world);
  const auto bytes = static_cast<double>(problem.bytes);
  const double whole_s = link.latency_s + bytes / link.bytes_per_s;
  const double part_s = link.latency_s + bytes / problem.world / link.bytes_per_s;
  switch (algorithm) {
    case Algorithm::kSerialBroadcast: return others * whole_s;
    case Algorithm::kTreeBroadcast:
    case Algorithm::kTreeReduce: return levels * whole_s;
    case Algorithm::kReduceThenBroadcast: return 2 * levels * whole_s;
    case Algorithm::kRingReduceScatter:
    case Algorithm::kRingAllGather: return others * part_s;
    case Algorithm::kRingAllReduce: return 2 * others * part_s;
  }
  return 0;
}

uint64_t part_bytes(uint64_t bytes, int num_parts, int part) {
  const auto parts = static_cast<uint64_t>(num_parts);
  return bytes / parts + (static_cast<uint64_t>(part) < bytes % parts ? 1 : 0);
}

}  // namespace weft::sim
