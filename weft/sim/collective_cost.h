// What a collective costs on links of one latency and one rate: every algorithm as an explicit list of messages, each with
// its sender, receiver, bytes and times. Drawings, times and tests all read that list.
//
//   const Schedule tree = make_schedule(Algorithm::kTreeBroadcast, {.world = 8, .bytes = 5'000'000},
//                                       {.latency_s = 0, .bytes_per_s = 1e6});
//   tree.time_s();   // 15: three steps of 5 s, where one rank sending to seven others takes 35
//
// The model: a message takes latency_s + bytes / bytes_per_s; a rank sends one message at a time and receives one at a
// time, both at once if it likes; it sends a part on only once it has it whole; adding costs nothing. So times are a lower
// bound for real links of that latency and rate.
//
// Values and pure functions: any thread. Failure: what cannot be (no ranks, a root outside the world, a rate that is not
// above zero) is an Error(kInput). No bytes is fine: empty messages still cost their latency.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace weft::sim {

enum class Algorithm {
  kSerialBroadcast,      // the root sends to one rank after the other
  kTreeBroadcast,        // whoever has the data sends it on: binomial tree
  kTreeReduce,           // the same tree upwards, sums to the root
  kReduceThenBroadcast,  // an all-reduce made of the two trees
  kRingReduceScatter,    // parts travel round the ring and collect sums; rank r ends with part r
  kRingAllGather,        // rank r starts with part r; parts travel round the ring
  kRingAllReduce,        // the two rings one after the other
};

inline constexpr Algorithm kAllAlgorithms[] = {
    Algorithm::kSerialBroadcast,   Algorithm::kTreeBroadcast, Algorithm::kTreeReduce,   Algorithm::kReduceThenBroadcast,
    Algorithm::kRingReduceScatter, Algorithm::kRingAllGather, Algorithm::kRingAllReduce};

std::string_view name_of(Algorithm algorithm);  // "tree_broadcast"
// Broadcasts and the reduce have one; its data goes to, or comes from, all others.
bool has_root(Algorithm algorithm);
// Whether the data is cut into one part for each rank.
bool has_parts(Algorithm algorithm);

struct Link {
  double latency_s = 0;
  double bytes_per_s = 1e9;
};

struct Problem {
  int world = 1;
  uint64_t bytes = 0;  // of the whole: what a broadcast sends, what all-gather ends with, what the reductions add up
  int root = 0;        // where there is one
};

// One message.
struct Transfer {
  int step = 0;  // from 0; messages of one step do not wait for each other
  int from = 0, to = 0;
  int part = 0;
  uint64_t bytes = 0;
  bool adds = false;  // the receiver adds it to what it has; else it replaces that
  double start_s = 0, end_s = 0;
};

struct Schedule {
  Algorithm algorithm = Algorithm::kSerialBroadcast;
  Problem problem;
  Link link;
  int num_parts = 1;
  std::vector<Transfer> transfers = {};  // by step

  int num_steps() const;
  double time_s() const;
  // Of the rank that sends most, and of all together.
  uint64_t busiest_bytes() const;
  uint64_t total_bytes() const;
};

Schedule make_schedule(Algorithm algorithm, const Problem& problem, const Link& link);

// The time in closed form, for worlds that divide the bytes; what time_s() is held against.
double formula_time_s(Algorithm algorithm, const Problem& problem, const Link& link);

// Part `part` of `bytes` cut into `num_parts`: sizes differ by one at most, the first ones are larger.
uint64_t part_bytes(uint64_t bytes, int num_parts, int part);

}  // namespace weft::sim
