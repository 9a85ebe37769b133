// Times collectives on several groups in turn, and says what the memory or the link would allow.
//
// Every call starts from a barrier; its time is that of the slowest rank. Groups take turns call by call, so that what else
// the machine does falls on all of them alike. Threads: one. Failure: as Group.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "weft/comm/group.h"

namespace weft::cli {

struct BenchCase {
  std::string operation;
  uint64_t bytes = 0;  // of the whole: what a rank ends with, or for reduce_scatter and all_to_all begins with
};

struct BenchSubject {
  std::string transport;  // as the user named it
  std::shared_ptr<comm::Group> group;
  bool own_memory = true;  // tensors of Group::allocate(), else plain ones
  c10::Device device = c10::DeviceType::CPU;
  int num_talkers = 0;  // ranks between which a link lies: one of each host where hosts have one for all; 0: all ranks

  int talkers() const { return num_talkers > 0 ? num_talkers : group->world(); }
};

struct BenchRow {
  std::string operation, transport;
  uint64_t bytes = 0;
  int world = 1;
  int64_t num_calls = 0;
  double median_ms = 0, min_ms = 0;
  double algbw_gbs = 0, busbw_gbs = 0;  // 10^9 bytes a second; bus: what each talker's link carries
  double limit_gbs = 0;                 // of the bus bandwidth; 0: unknown
};

// Bytes a second that all ranks of this host together copy, read and write counted, on buffers far larger than the caches.
double measure_memory_rate(const BenchSubject& meeting);

std::vector<BenchRow> measure(const BenchCase& one, const std::vector<BenchSubject>& subjects, int64_t num_calls);

// A talker's share of bytes on the wire for each byte of the case: 2(n-1)/n for all_reduce, ...
double bus_factor(const std::string& operation, int num_talkers);
// The time below which memory of this rate cannot do it, every input read once and every result written once.
double memory_limit_s(const BenchCase& one, int world, double bytes_per_s);

}  // namespace weft::cli
