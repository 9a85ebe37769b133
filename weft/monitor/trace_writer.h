// The spans of one rank as a timeline that Chrome (chrome://tracing) and Perfetto (ui.perfetto.dev) open: the rank is a
// process, each track a row. docs/formats/trace_json.md describes the file. trace_merge.h joins the files of several ranks.
//
//   TraceWriter trace(Env::posix(), trace_path("runs/x/trace", rank), {.rank = rank, .host = host});
//   drain_spans(batch);
//   trace.add(batch.events);
//   trace.add_counters(now_ns(), read_counters());
//
// Written as it comes, a quarter of a mebibyte at a time, one event a line: memory does not grow with the run, and of a
// process that is killed all but the last lines is there. Such a file lacks its closing bracket; viewers do not mind.
//
// Threads: one owner. Failure: the constructor throws IoError, so that a folder that cannot be written is known before
// the first step. After that nothing throws: a disk that is full ends the trace (write_trouble.h), and so does the limit.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "weft/base/env.h"
#include "weft/monitor/clock_line.h"
#include "weft/monitor/counter.h"
#include "weft/monitor/host_name.h"
#include "weft/monitor/span.h"

namespace weft {

namespace detail {
class TraceLanes;
}

struct TraceOwner {
  int64_t rank = 0;
  std::string host = {};
  std::string run_id = {};
  std::string clock = this_clock_name();  // files with the same one fit together as they are
};

struct TraceOptions {
  int64_t origin_ns = now_ns();              // 0 of the timeline; what lies before it is cut off
  uint64_t limit_bytes = uint64_t{1} << 30;  // viewers give up on more
};

// "FOLDER/trace.rank_3.json".
std::string trace_path(const std::string& folder, int64_t rank);

class TraceWriter {
 public:
  TraceWriter(Env& env, const std::string& path, const TraceOwner& owner, const TraceOptions& options = {});
  ~TraceWriter();  // as close()
  TraceWriter(const TraceWriter&) = delete;
  TraceWriter& operator=(const TraceWriter&) = delete;

  // In the order drain_spans() gives them.
  void add(std::span<const SpanEvent> events);
  void add_counters(int64_t at_ns, std::span<const CounterValue> values);
  // How far this host's clock is from that of rank 0, for whoever joins the files. Needed where ranks have several clocks.
  void add_clock(const ClockReading& reading);
  // To the operating system; a crash of the process loses nothing from before.
  void flush();
  // Later calls of anything do nothing.
  void close();

  // False once it was closed or broken off.
  bool is_open() const { return file_ != nullptr; }

 private:
  void add_one(const SpanEvent& event);
  // A span that an arrow leads to (its start) or leaves (its end).
  struct ArrowEnd {
    int64_t tid = 0, start_ns = 0, end_ns = 0;
  };
  void add_arrows(const SpanEvent& event, const ArrowEnd& here);
  void add_arrows_to_update(int32_t bucket, const ArrowEnd& update);
  void add_arrow(int32_t bucket, const ArrowEnd& from, const ArrowEnd& to);
  void add_arrow_end(std::string_view kind, int64_t id, int64_t tid, int64_t at_ns, int32_t bucket);
  // Names the row at its first use.
  void name_row(int64_t tid, Track track, int lane);
  void begin_event(std::string_view kind, int64_t tid, std::string_view name);
  void end_event();
  void add_metadata(std::string_view name, int64_t tid, std::string_view args);
  void stop();

  std::unique_ptr<File> file_;
  const TraceOwner owner_;
  const TraceOptions options_;
  std::string buffer_;
  uint64_t written_bytes_ = 0;
  bool any_ = false;  // an event stands in the file
  std::map<Track, std::unique_ptr<detail::TraceLanes>> lanes_;
  std::set<int64_t> named_rows_;
  std::map<int32_t, ArrowEnd> ready_, reduced_;  // by bucket, until its reduction and its update
  int64_t num_arrows_ = 0;
};

}  // namespace weft
