#include "weft/monitor/trace_merge.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "weft/base/error.h"
#include "weft/base/text.h"
#include "weft/monitor/line_reader.h"

namespace weft {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kPieceBytes = 1 << 18;
constexpr double kLongestUs = 1e15;  // thirty years: beyond it the sums below could overflow

[[noreturn]] void refuse(std::string title, std::string what, std::string where, std::string fix) {
  throw Error(ErrorKind::kInput,
              {.title = std::move(title), .what = std::move(what), .where = std::move(where), .fix = std::move(fix)});
}

[[noreturn]] void refuse_line(const std::string& path, const FileLine& line, std::string what) {
  refuse("this is not a trace that weft wrote", std::move(what), cat(path, ":", line.number),
         "give the files trace.rank_N.json of one run");
}

// The events of one file.
class TraceReader {
 public:
  TraceReader(Env& env, const std::string& path) : path_(path), lines_(env, path) {
    const auto opening = lines_.next();
    if (!opening || opening->text != "[")
      refuse_line(path, opening.value_or(FileLine{.number = 1}), "no [ at its start");
  }

  // Nothing at the end, and at what a crash left of the last line.
  std::optional<Json> next() {
    auto line = lines_.next();
    if (!line || (line->is_whole && line->text == "]")) {
      was_closed_ = line.has_value();
      return std::nullopt;
    }
    line_ = std::move(*line);
    const size_t skip = line_.text.starts_with(',') ? 1 : 0;
    Json event = Json::parse(line_.text.begin() + static_cast<std::ptrdiff_t>(skip), line_.text.end(), nullptr, false);
    if (event.is_object()) return event;
    if (!line_.is_whole) return std::nullopt;
    refuse_line(path_, line_, "the line holds no event");
  }

  bool was_closed() const { return was_closed_; }
  [[noreturn]] void refuse_last(std::string what) const { refuse_line(path_, line_, std::move(what)); }

 private:
  const std::string path_;
  LineReader lines_;
  FileLine line_;
  bool was_closed_ = false;
};

struct Header {
  int64_t rank = 0, origin_ns = 0;
  std::string host;
};

Header read_header(TraceReader& reader) {
  const auto event = reader.next();
  const Json args = event && event->value("name", Json()) == "weft_trace" ? event->value("args", Json()) : Json();
  const Json rank = args.is_object() ? args.value("rank", Json()) : Json();
  const Json origin = args.is_object() ? args.value("origin_ns", Json()) : Json();
  const Json host = args.is_object() ? args.value("host", Json()) : Json();
  if (!rank.is_number_integer() || !origin.is_number_integer() || !host.is_string())
    reader.refuse_last("it does not start with the rank, the host and the origin of its clock");
  const auto origin_ns = origin.get<int64_t>();
  if (std::abs(static_cast<double>(origin_ns)) > kLongestUs * 1e3) reader.refuse_last("its clock's origin cannot be");
  return {.rank = rank.get<int64_t>(), .origin_ns = origin_ns, .host = host.get<std::string>()};
}

int64_t offset_of(const TraceSource& source, const Header& header, const std::string& first_host) {
  if (source.clock_offset_ns) {
    if (std::abs(static_cast<double>(*source.clock_offset_ns)) <= kLongestUs * 1e3) return *source.clock_offset_ns;
    refuse("a clock offset cannot be", cat(*source.clock_offset_ns, " ns"), source.path, "give the offset in ns");
  }
  if (header.host == first_host) return 0;
  refuse("the clocks of two hosts cannot be compared",
         cat("rank ", header.rank, " ran on ", header.host, ", the first file's on ", first_host), source.path,
         "give the offset between the two clocks");
}

// Where each file's zero lies on the common timeline, whose own zero is the earliest of them.
std::vector<int64_t> shifts_of(Env& env, std::span<const TraceSource> sources) {
  std::vector<int64_t> zeros;
  std::set<int64_t> ranks;
  std::optional<std::string> first_host;
  for (const TraceSource& source : sources) {
    TraceReader reader(env, source.path);
    const Header header = read_header(reader);
    if (!first_host) first_host = header.host;
    if (!ranks.insert(header.rank).second)
      refuse(cat("two traces of rank ", header.rank), "", source.path, "keep one of them");
    zeros.push_back(header.origin_ns + offset_of(source, header, *first_host));
  }
  const int64_t earliest = zeros.empty() ? 0 : *std::ranges::min_element(zeros);
  for (int64_t& zero : zeros) zero -= earliest;
  return zeros;
}

// True for an event with a time, which now has the common one.
bool shift(Json& event, int64_t by_ns, const TraceReader& reader) {
  const auto ts = event.find("ts");
  if (ts == event.end()) return false;
  if (!ts->is_number() || !(std::abs(ts->get<double>()) <= kLongestUs)) reader.refuse_last("a time that cannot be");
  *ts = static_cast<double>(std::llround(ts->get<double>() * 1e3) + by_ns) / 1e3;
  return true;
}

class Output {
 public:
  explicit Output(File& file) : file_(file) {}
  void add(std::string_view text) {
    buffer_ += text;
    if (buffer_.size() >= kPieceBytes) flush();
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
  const std::vector<int64_t> shifts = shifts_of(env, sources);
  MergedTrace merged;
  publish_file(env, out_path, [&](File& file) {
    Output out(file);
    out.add("[\n");
    bool any = false;
    for (size_t i = 0; i < sources.size(); ++i) {
      TraceReader reader(env, sources[i].path);
      while (auto event = reader.next()) {
        merged.num_events += shift(*event, shifts[i], reader) ? 1 : 0;
        out.add(any ? "," : "");
        out.add(event->dump(-1, ' ', false, Json::error_handler_t::replace));
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

}  // namespace weft
