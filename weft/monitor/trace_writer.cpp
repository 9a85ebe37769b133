#include "weft/monitor/trace_writer.h"

#include <algorithm>

#include "weft/base/error.h"
#include "weft/base/log.h"
#include "weft/base/text.h"
#include "weft/base/units.h"
#include "weft/monitor/json_text.h"
#include "weft/monitor/trace_lanes_impl.h"
#include "weft/monitor/write_trouble.h"

namespace weft {
namespace {

constexpr size_t kPieceBytes = 1 << 18;

// The format counts in microseconds; three decimals keep every nanosecond.
void append_us(std::string& out, int64_t ns) {
  const int64_t part = ns % 1000;
  out += cat(ns / 1000, part < 10 ? ".00" : part < 100 ? ".0" : ".", part);
}

void append_number_field(std::string& args, std::string_view key, int64_t value) {
  if (!args.empty()) args += ',';
  append_json_string(args, key);
  args += cat(':', value);
}

std::string args_of(const SpanEvent& event) {
  std::string args;
  if (event.bucket >= 0) append_number_field(args, "bucket", event.bucket);
  if (event.bytes >= 0) append_number_field(args, "bytes", event.bytes);
  if (event.key != nullptr) append_number_field(args, event.key, event.value);
  return args;
}

std::string text_field(std::string_view key, std::string_view text) {
  std::string out;
  append_json_string(out, key);
  out += ':';
  append_json_string(out, text);
  return out;
}

}  // namespace

std::string trace_path(const std::string& folder, int64_t rank) { return cat(folder, "/trace.rank_", rank, ".json"); }

TraceWriter::TraceWriter(Env& env, const std::string& path, const TraceOwner& owner, const TraceOptions& options)
    : file_(env.open(path, OpenMode::kCreate)), owner_(owner), options_(options) {
  buffer_ = "[\n";
  add_metadata("weft_trace", 0,
               cat("\"schema\":1,\"rank\":", owner.rank, ",\"origin_ns\":", options.origin_ns, ',',
                   text_field("host", owner.host), ',', text_field("run_id", owner.run_id), ',',
                   text_field("clock", owner.clock)));
  const std::string host = owner.host.empty() ? "" : cat(" on ", owner.host);
  add_metadata("process_name", 0, text_field("name", cat("rank ", owner.rank, host)));
  add_metadata("process_sort_index", 0, cat("\"sort_index\":", owner.rank));
  flush();
}

TraceWriter::~TraceWriter() { close(); }

void TraceWriter::begin_event(std::string_view kind, int64_t tid, std::string_view name) {
  if (any_) buffer_ += ',';
  any_ = true;
  buffer_ += cat("{\"ph\":\"", kind, "\",\"pid\":", owner_.rank, ",\"tid\":", tid, ",\"name\":");
  append_json_string(buffer_, name);
}

void TraceWriter::end_event() {
  buffer_ += "}\n";
  if (buffer_.size() >= kPieceBytes) flush();
}

void TraceWriter::add_metadata(std::string_view name, int64_t tid, std::string_view args) {
  begin_event("M", tid, name);
  buffer_ += cat(",\"args\":{", args, '}');
  end_event();
}

void TraceWriter::name_row(int64_t tid, Track track, int lane) {
  if (!named_rows_.insert(tid).second) return;
  const auto names = track_names();
  const auto number = static_cast<size_t>(track);
  const std::string name = number < names.size() ? names[number] : cat("track ", number);
  add_metadata("thread_name", tid, text_field("name", lane == 0 ? name : cat(name, " (", lane + 1, ")")));
  add_metadata("thread_sort_index", tid, cat("\"sort_index\":", tid));
}

void TraceWriter::add_one(const SpanEvent& event) {
  const int64_t start_ns = std::max(event.start_ns, options_.origin_ns), end_ns = std::max(event.end_ns, start_ns);
  if (event.end_ns < options_.origin_ns) return;
  const Track track = event.track == Track::kOfCategory ? track_of(event.category) : event.track;
  auto& lanes = lanes_[track];
  if (!lanes) lanes = std::make_unique<detail::TraceLanes>();
  const int lane = lanes->place(start_ns, end_ns);
  const int64_t tid = static_cast<int64_t>(track) * detail::TraceLanes::kMaxLanes + lane + 1;
  name_row(tid, track, lane);
  begin_event("X", tid, event.name);
  buffer_ += cat(",\"cat\":\"", name_of(event.category), "\",\"ts\":");
  append_us(buffer_, duration_ns({.start_ns = options_.origin_ns, .end_ns = start_ns}));
  buffer_ += ",\"dur\":";
  append_us(buffer_, duration_ns({.start_ns = start_ns, .end_ns = end_ns}));
  if (const std::string args = args_of(event); !args.empty()) buffer_ += cat(",\"args\":{", args, '}');
  end_event();
  if (event.bucket >= 0 || event.category == SpanCategory::kOptimizer) add_arrows(event, {tid, start_ns, end_ns});
}

// From the backward in which the last gradient came to the bucket, from there to its reduction, and on to its update. Viewers bind the end
// of an arrow to the span that lies around it on that row; a span's own end lies outside of it.
void TraceWriter::add_arrows(const SpanEvent& event, const ArrowEnd& here) {
  constexpr int64_t kComputeTid = static_cast<int64_t>(Track::kCompute) * detail::TraceLanes::kMaxLanes + 1;
  const ArrowEnd leaves{here.tid, here.start_ns, std::max(here.start_ns, here.end_ns - 1)};
  if (event.category == SpanCategory::kOptimizer) return add_arrows_to_update(event.bucket, here);
  if (event.category == SpanCategory::kBucket) {
    add_arrow(event.bucket, {kComputeTid, here.start_ns, here.start_ns}, here);
    ready_[event.bucket] = leaves;
  } else if (event.category == SpanCategory::kReduce) {
    if (const auto found = ready_.find(event.bucket); found != ready_.end())
      add_arrow(event.bucket, found->second, here);
    ready_.erase(event.bucket);
    reduced_[event.bucket] = leaves;
  }
}

// An update without a bucket, as where gradients are clipped first, is that of all that have come.
void TraceWriter::add_arrows_to_update(int32_t bucket, const ArrowEnd& update) {
  std::erase_if(reduced_, [&](const auto& entry) {
    const auto& [reduced_bucket, reduced] = entry;
    if (bucket >= 0 && reduced_bucket != bucket) return false;
    if (reduced.end_ns <= update.end_ns) add_arrow(reduced_bucket, reduced, update);
    return true;
  });
}

void TraceWriter::add_arrow(int32_t bucket, const ArrowEnd& from, const ArrowEnd& to) {
  // Unique among all ranks, so that merged files need no new ones.
  const int64_t id = owner_.rank * (int64_t{1} << 32) + num_arrows_++;
  add_arrow_end("s", id, from.tid, from.end_ns, bucket);
  add_arrow_end("f", id, to.tid, std::max(to.start_ns, from.end_ns), bucket);
}

void TraceWriter::add_arrow_end(std::string_view kind, int64_t id, int64_t tid, int64_t at_ns, int32_t bucket) {
  begin_event(kind, tid, "bucket");
  buffer_ += cat(",\"cat\":\"flow\",\"id\":", id, kind == "f" ? ",\"bp\":\"e\"" : "", ",\"ts\":");
  append_us(buffer_, duration_ns({.start_ns = options_.origin_ns, .end_ns = at_ns}));
  buffer_ += cat(",\"args\":{\"bucket\":", bucket, '}');
  end_event();
}

void TraceWriter::add(std::span<const SpanEvent> events) {
  for (const SpanEvent& event : events) {
    if (!is_open()) return;
    add_one(event);
  }
}

void TraceWriter::add_counters(int64_t at_ns, std::span<const CounterValue> values) {
  for (const CounterValue& one : values) {
    if (!is_open()) return;
    begin_event("C", 0, one.name);
    buffer_ += ",\"ts\":";
    append_us(buffer_, duration_ns({.start_ns = options_.origin_ns, .end_ns = at_ns}));
    buffer_ += cat(",\"args\":{\"value\":", one.value, '}');
    end_event();
  }
}

void TraceWriter::add_clock(const ClockReading& reading) {
  if (!is_open()) return;
  add_metadata(
      "weft_clock", 0,
      cat("\"at_ns\":", reading.at_ns, ",\"offset_ns\":", reading.offset_ns, ",\"error_ns\":", reading.error_ns()));
}

void TraceWriter::flush() {
  if (!is_open() || buffer_.empty()) return;
  try {
    file_->write_at(written_bytes_, bytes_of(buffer_));
  } catch (const Error& error) {
    tell_write_trouble(file_->path(), error);
    return stop();
  }
  written_bytes_ += buffer_.size();
  buffer_.clear();
  if (written_bytes_ < options_.limit_bytes) return;
  log_warn("the trace ", file_->path(), " ends here: it has reached ", format_bytes(options_.limit_bytes),
           ". Training goes on.");
  stop();
}

void TraceWriter::stop() {
  file_.reset();
  buffer_.clear();
  lanes_.clear();
}

void TraceWriter::close() {
  if (!is_open()) return;
  buffer_ += "]\n";
  flush();
  file_.reset();
}

}  // namespace weft
