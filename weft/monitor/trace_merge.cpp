#include "weft/monitor/trace_merge.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "weft/base/error.h"
#include "weft/base/text.h"
#include "weft/monitor/clock_line.h"
#include "weft/monitor/line_reader.h"
#include "weft/monitor/trace_writer.h"

namespace weft {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr size_t kBufferBytes = 1 << 18;
constexpr double kLongestUs = 1e15;  // thirty years: beyond it the sums below could overflow

[[noreturn]] void refuse_traces(std::string title, std::string what, std::string where, std::string fix) {
  throw Error(ErrorKind::kInput,
              {.title = std::move(title), .what = std::move(what), .where = std::move(where), .fix = std::move(fix)});
}

[[noreturn]] void refuse_trace_line(const std::string& path, const FileLine& line, std::string what) {
  refuse_traces("this is not a trace that weft wrote", std::move(what), cat(path, ":", line.number),
                "give the files trace.rank_N.json of one run");
}

// The events of one file.
class TraceReader {
 public:
  TraceReader(Env& env, const std::string& path) : path_(path), lines_(env, path) {
    const auto opening = lines_.next();
    if (!opening || opening->text != "[")
      refuse_trace_line(path, opening.value_or(FileLine{.number = 1}), "no [ at its start");
  }

  // Nothing at the end, and at what a crash left of the last line.
  std::optional<OrderedJson> next() {
    auto line = lines_.next();
    if (!line || (line->is_whole && line->text == "]")) {
      was_closed_ = line.has_value();
      return std::nullopt;
    }
    line_ = std::move(*line);
    const size_t skip = line_.text.starts_with(',') ? 1 : 0;
    OrderedJson event =
        OrderedJson::parse(line_.text.begin() + static_cast<std::ptrdiff_t>(skip), line_.text.end(), nullptr, false);
    if (event.is_object()) return event;
    if (!line_.is_whole) return std::nullopt;
    refuse_trace_line(path_, line_, "the line holds no event");
  }

  bool was_closed() const { return was_closed_; }
  [[noreturn]] void refuse_last(std::string what) const { refuse_trace_line(path_, line_, std::move(what)); }

 private:
  const std::string path_;
  LineReader lines_;
  FileLine line_;
  bool was_closed_ = false;
};

struct Header {
  int64_t rank = 0, origin_ns = 0;
  std::string host, clock;
};

Header read_header(TraceReader& reader) {
  const auto event = reader.next();
  const OrderedJson args = event && event->value("name", OrderedJson()) == "weft_trace"
                               ? event->value("args", OrderedJson())
                               : OrderedJson();
  const OrderedJson rank = args.is_object() ? args.value("rank", OrderedJson()) : OrderedJson();
  const OrderedJson origin = args.is_object() ? args.value("origin_ns", OrderedJson()) : OrderedJson();
  const OrderedJson host = args.is_object() ? args.value("host", OrderedJson()) : OrderedJson();
  if (!rank.is_number_integer() || !origin.is_number_integer() || !host.is_string())
    reader.refuse_last("it does not start with the rank, the host and the origin of its clock");
  const auto origin_ns = origin.get<int64_t>();
  if (std::abs(static_cast<double>(origin_ns)) > kLongestUs * 1e3) reader.refuse_last("its clock's origin cannot be");
  // Older files have hosts only.
  const OrderedJson clock = args.value("clock", host);
  return {.rank = rank.get<int64_t>(),
          .origin_ns = origin_ns,
          .host = host.get<std::string>(),
          .clock = clock.is_string() ? clock.get<std::string>() : host.get<std::string>()};
}

constexpr double kLongestNs = kLongestUs * 1e3;

// What the file says of its clock. All of it is read: the last reading stands near the end.
ClockLine clock_in(TraceReader& reader) {
  ClockLine out;
  while (const auto event = reader.next()) {
    if (event->value("name", OrderedJson()) != "weft_clock") continue;
    const OrderedJson args = event->value("args", OrderedJson());
    const OrderedJson at = args.is_object() ? args.value("at_ns", OrderedJson()) : OrderedJson();
    const OrderedJson offset = args.is_object() ? args.value("offset_ns", OrderedJson()) : OrderedJson();
    if (!at.is_number_integer() || !offset.is_number_integer() ||
        !(std::abs(at.get<double>()) <= kLongestNs && std::abs(offset.get<double>()) <= kLongestNs))
      reader.refuse_last("a clock that cannot be");
    out.add({.at_ns = at.get<int64_t>(), .offset_ns = offset.get<int64_t>()});
  }
  return out;
}

ClockLine clock_of(Env& env, const TraceSource& source, const Header& header, const Header& first) {
  ClockLine out;
  if (source.clock_offset_ns) {
    if (std::abs(static_cast<double>(*source.clock_offset_ns)) > kLongestNs)
      refuse_traces("a clock offset cannot be", cat(*source.clock_offset_ns, " ns"), source.path,
                    "give the offset in ns");
    out.add({.offset_ns = *source.clock_offset_ns});
    return out;
  }
  TraceReader reader(env, source.path);
  out = clock_in(reader);
  if (!out.empty() || header.clock == first.clock) return out;
  refuse_traces("the clocks of two hosts cannot be compared",
                cat("rank ", header.rank, " ran on ", header.host, ", the first file's on ",
                    header.host == first.host ? "another " : "", first.host),
                source.path, "give the offset between the two clocks");
}

// From a file's own times to the common timeline, whose zero is the earliest of all zeros.
struct Shift {
  int64_t origin_ns = 0;
  ClockLine clock = {};
  int64_t earliest_ns = 0;

  int64_t zero_ns() const { return clock.to_common(origin_ns); }
  int64_t common_ns(int64_t own_ns) const { return clock.to_common(origin_ns + own_ns) - earliest_ns; }
};

std::vector<Header> headers_of(Env& env, std::span<const TraceSource> sources) {
  std::vector<Header> out;
  std::set<int64_t> ranks;
  for (const TraceSource& source : sources) {
    TraceReader reader(env, source.path);
    out.push_back(read_header(reader));
    if (!ranks.insert(out.back().rank).second)
      refuse_traces(cat("two traces of rank ", out.back().rank), "", source.path, "keep one of them");
  }
  return out;
}

std::vector<Shift> shifts_of(Env& env, std::span<const TraceSource> sources) {
  const std::vector<Header> headers = headers_of(env, sources);
  std::vector<Shift> out;
  // One clock is not off from itself, whatever is said of it.
  const bool has_one_clock =
      std::ranges::all_of(headers, [&](const Header& one) { return one.clock == headers[0].clock; });
  for (size_t i = 0; i < sources.size(); ++i) {
    const bool is_common = has_one_clock && !sources[i].clock_offset_ns;
    out.push_back({.origin_ns = headers[i].origin_ns,
                   .clock = is_common ? ClockLine() : clock_of(env, sources[i], headers[i], headers[0])});
  }
  int64_t earliest_ns = out.empty() ? 0 : out.front().zero_ns();
  for (const Shift& shift : out) earliest_ns = std::min(earliest_ns, shift.zero_ns());
  for (Shift& shift : out) shift.earliest_ns = earliest_ns;
  return out;
}

// True for an event with a time, which now has the common one.
bool shift_event(OrderedJson& event, const Shift& shift, const TraceReader& reader) {
  const auto ts = event.find("ts");
  if (ts == event.end()) return false;
  if (!ts->is_number() || !(std::abs(ts->get<double>()) <= kLongestUs)) reader.refuse_last("a time that cannot be");
  *ts = static_cast<double>(shift.common_ns(std::llround(ts->get<double>() * 1e3))) / 1e3;
  return true;
}

class Output {
 public:
  explicit Output(File& file) : file_(file) {}
  void add(std::string_view text) {
    buffer_ += text;
    if (buffer_.size() >= kBufferBytes) flush();
  }
  void flush() {
    file_.write_at(offset_, bytes_of(buffer_));
    offset_ += buffer_.size();
    buffer_.clear();
  }

 private:
  File& file_;
  std::string buffer_;
  uint64_t offset_ = 0;
};

}  // namespace

MergedTrace merge_traces(Env& env, std::span<const TraceSource> sources, const std::string& out_path) {
  const std::vector<Shift> shifts = shifts_of(env, sources);
  MergedTrace merged;
  publish_file(env, out_path, [&](File& file) {
    Output out(file);
    out.add("[\n");
    bool any = false;
    for (size_t i = 0; i < sources.size(); ++i) {
      TraceReader reader(env, sources[i].path);
      while (auto event = reader.next()) {
        merged.num_events += shift_event(*event, shifts[i], reader) ? 1 : 0;
        out.add(any ? "," : "");
        out.add(event->dump(-1, ' ', false, OrderedJson::error_handler_t::replace));
        out.add("\n");
        any = true;
      }
      if (!reader.was_closed()) merged.cut_short.push_back(sources[i].path);
    }
    out.add("]\n");
    out.flush();
  });
  return merged;
}

std::vector<TraceSource> traces_in(Env& env, const std::string& folder) {
  std::map<int64_t, TraceSource> by_rank;
  if (!env.stat(folder)) return {};
  for (const std::string& name : env.list(folder)) {
    const std::string_view start = "trace.rank_",
                           digits = std::string_view(name).substr(std::min(name.size(), start.size()));
    int64_t rank = -1;
    std::from_chars(digits.data(), digits.data() + digits.size(), rank);
    if (rank >= 0 && cat(folder, "/", name) == trace_path(folder, rank))
      by_rank[rank] = {.path = trace_path(folder, rank)};
  }
  std::vector<TraceSource> out;
  for (auto& [rank, source] : by_rank) out.push_back(std::move(source));
  return out;
}

}  // namespace weft
