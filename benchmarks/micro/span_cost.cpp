// What one span costs, off and on, with the clock it reads beside it: prints the median of many short rounds. Not a test,
// because a time depends on the machine; docs/monitoring.md quotes it.
//
//   build/release/bin/span_cost
#include <cstdio>
#include <vector>

#include "weft/base/clock.h"
#include "weft/base/quantile.h"
#include "weft/monitor/counter.h"
#include "weft/monitor/span.h"

namespace weft {
namespace {

constexpr int kRounds = 201, kCalls = 4000;  // fewer than a ring holds, so that nothing is dropped

template <typename Body, typename After>
void measure(const char* title, Body body, After after) {
  std::vector<double> ns;
  for (int round = 0; round < kRounds; ++round) {
    const Stopwatch watch;
    for (int call = 0; call < kCalls; ++call) {
      body(call);
      asm volatile("" ::: "memory");  // so that calls are neither merged nor moved out of the loop
    }
    ns.push_back(static_cast<double>(watch.elapsed_ns()) / kCalls);
    after();
  }
  const Spread spread = spread_of(ns);
  std::printf("%-28s median %6.1f ns   min %6.1f   p90 %6.1f\n", title, spread.median, spread.min, spread.p90);
}

void run() {
  SpanBatch batch;
  const auto nothing = [] {};
  const auto drain = [&] { drain_spans(batch); };
  const auto span = [](int i) {
    const Span one({.name = "reduce", .category = SpanCategory::kReduce, .bucket = i, .bytes = 4096});
  };
  Counter& calls = counter("micro.calls");
  measure("empty loop", [](int) {}, nothing);
  measure("span, off", span, nothing);
  measure("clock", [](int) { (void)now_ns(); }, nothing);
  measure("counter", [&](int) { calls.add(); }, nothing);
  set_spans_on(true);
  measure("span, on", span, drain);
  for (int i = 0; i < kCalls; ++i) span(i);
  const Stopwatch draining;
  drain();
  std::printf("%-28s %.1f ns an event\n", "drain", static_cast<double>(draining.elapsed_ns()) / kCalls);
}

}  // namespace
}  // namespace weft

int main() { weft::run(); }
