#include "weft/cli/worker/bench_measure.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "weft/base/clock.h"
#include "weft/base/error.h"
#include "weft/base/text.h"

namespace weft::cli {
namespace {

using comm::Collective;
using comm::Group;

constexpr int64_t kMinCalls = 5, kMaxCalls = 200;
constexpr double kBudgetS = 0.5;
constexpr size_t kMemoryBytes = size_t{64} << 20;

int64_t elements(uint64_t bytes) { return static_cast<int64_t>(bytes / sizeof(float)); }

at::Tensor memory(const BenchSubject& subject, int64_t count) {
  at::Tensor tensor = subject.own_memory ? subject.group->allocate(count, at::kFloat)
                                         : at::zeros({count}, at::TensorOptions().device(subject.device));
  return tensor;
}

// The tensors of one case, and the call on them.
Collective call_of(const BenchCase& one, const BenchSubject& subject) {
  const int world = subject.group->world(), rank = subject.group->rank();
  const int64_t count = elements(one.bytes);
  const auto counts = comm::split_evenly(count, world);
  const int64_t own = counts[static_cast<size_t>(rank)];
  if (one.operation == "all_reduce") return comm::all_reduce(memory(subject, count));
  if (one.operation == "reduce") return comm::reduce(memory(subject, count), 0);
  if (one.operation == "broadcast") return comm::broadcast(memory(subject, count), 0);
  if (one.operation == "reduce_scatter")
    return comm::reduce_scatter(memory(subject, count), at::empty({own}, at::TensorOptions().device(subject.device)));
  if (one.operation == "all_gather") {
    // Where memory is the transport's own the shard lies in its place of the whole, as parameters do.
    const at::Tensor whole = memory(subject, count);
    int64_t first = 0;
    for (int r = 0; r < rank; ++r) first += counts[static_cast<size_t>(r)];
    const at::Tensor shard = whole.slice(0, first, first + own);
    return comm::all_gather(subject.own_memory ? shard : shard.clone(), whole);
  }
  if (one.operation == "all_to_all") {
    const int64_t even = count / world * world;
    return comm::all_to_all(memory(subject, even), at::empty({even}, at::TensorOptions().device(subject.device)));
  }
  throw Error(ErrorKind::kBug,
              {.title = cat("no such operation: ", one.operation), .what = "", .where = "", .fix = ""});
}

void finish_device(const at::Tensor& tensor) {
  // The copy to the host waits for the stream that the call was ordered with.
  if (!tensor.is_cpu() && tensor.numel() > 0) tensor.view({-1}).slice(0, 0, 1).cpu();
}

double time_once_s(Group& meeting, Group& group, const Collective& call) {
  meeting.barrier();
  const Stopwatch watch;
  group.run(call);
  finish_device(call.output);
  return watch.elapsed_s();
}

int64_t calls_for(double once_s, int64_t wanted) {
  if (wanted > 0) return wanted;
  return std::clamp(static_cast<int64_t>(kBudgetS / std::max(once_s, 1e-6)), kMinCalls, kMaxCalls);
}

// By the slowest rank, the same in all. Through the device where that is all the group can send from.
std::vector<double> slowest(const BenchSubject& meeting, const std::vector<double>& times_s) {
  const auto count = static_cast<int64_t>(times_s.size());
  at::Tensor all = at::empty({count}, at::kDouble);
  std::copy(times_s.begin(), times_s.end(), all.mutable_data_ptr<double>());
  all = all.to(meeting.device);
  meeting.group->all_reduce(all, comm::ReduceOp::kMax);
  all = all.cpu();
  return {all.const_data_ptr<double>(), all.const_data_ptr<double>() + count};
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

BenchRow row_of(const BenchCase& one, const BenchSubject& subject, const std::vector<double>& times_s) {
  const double middle_s = median(times_s);
  const double rate = middle_s > 0 ? static_cast<double>(one.bytes) / middle_s * 1e-9 : 0;
  return {.operation = one.operation,
          .transport = subject.transport,
          .bytes = one.bytes,
          .world = subject.group->world(),
          .num_calls = static_cast<int64_t>(times_s.size()),
          .median_ms = middle_s * 1e3,
          .min_ms = *std::min_element(times_s.begin(), times_s.end()) * 1e3,
          .algbw_gbs = rate,
          .busbw_gbs = rate * bus_factor(one.operation, subject.talkers())};
}

}  // namespace

double bus_factor(const std::string& operation, int num_talkers) {
  const double others = static_cast<double>(num_talkers - 1) / num_talkers;
  if (operation == "all_reduce") return 2 * others;
  if (operation == "reduce" || operation == "broadcast") return num_talkers > 1 ? 1 : 0;
  return others;
}

double memory_limit_s(const BenchCase& one, int world, double bytes_per_s) {
  // In units of the whole: read by all ranks together, written by all ranks together. A part that is in place already is
  // neither.
  const double n = world;
  double moved = 0;
  if (one.operation == "all_reduce") moved = n + n;
  if (one.operation == "reduce") moved = n + 1;
  if (one.operation == "reduce_scatter") moved = n + 1;
  if (one.operation == "all_gather" || one.operation == "broadcast") moved = 2 * (n - 1);
  if (one.operation == "all_to_all") moved = n + n;
  return moved * static_cast<double>(one.bytes) / bytes_per_s;
}

double measure_memory_rate(const BenchSubject& meeting) {
  std::vector<char> from(kMemoryBytes, 1), into(kMemoryBytes, 2);
  std::vector<double> times_s;
  for (int round = 0; round < 7; ++round) {
    meeting.group->barrier();
    const Stopwatch watch;
    std::memcpy(into.data(), from.data(), kMemoryBytes);
    times_s.push_back(watch.elapsed_s());
    std::swap(from, into);
  }
  return 2.0 * static_cast<double>(kMemoryBytes) * meeting.group->world() / median(slowest(meeting, times_s));
}

std::vector<BenchRow> measure(const BenchCase& one, const std::vector<BenchSubject>& subjects, int64_t num_calls) {
  std::vector<Collective> calls;
  for (const BenchSubject& subject : subjects) calls.push_back(call_of(one, subject));
  const BenchSubject& meeting = subjects.front();
  // The first touch of the memory, and how long one takes.
  std::vector<double> once_s;
  for (size_t i = 0; i < subjects.size(); ++i) {
    time_once_s(*meeting.group, *subjects[i].group, calls[i]);
    once_s.push_back(time_once_s(*meeting.group, *subjects[i].group, calls[i]));
  }
  once_s = slowest(meeting, once_s);
  std::vector<std::vector<double>> times_s(subjects.size());
  std::vector<int64_t> wanted;
  for (const double once : once_s) wanted.push_back(calls_for(once, num_calls));
  const int64_t rounds = *std::max_element(wanted.begin(), wanted.end());
  for (int64_t round = 0; round < rounds; ++round) {
    for (size_t i = 0; i < subjects.size(); ++i) {
      // The slow ones take part in every so many rounds, spread over the whole.
      if (round * wanted[i] / rounds == (round + 1) * wanted[i] / rounds) continue;
      times_s[i].push_back(time_once_s(*meeting.group, *subjects[i].group, calls[i]));
    }
  }
  std::vector<BenchRow> rows;
  for (size_t i = 0; i < subjects.size(); ++i) rows.push_back(row_of(one, subjects[i], slowest(meeting, times_s[i])));
  return rows;
}

}  // namespace weft::cli
