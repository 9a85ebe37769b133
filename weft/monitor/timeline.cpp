#include "weft/monitor/timeline.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "weft/base/text.h"

namespace weft {
namespace {

using Json = nlohmann::json;

Json json_of(const SpanEvent& span, const std::vector<std::string>& tracks) {
  const auto track = static_cast<size_t>(span.track == Track::kOfCategory ? track_of(span.category) : span.track);
  return {track < tracks.size() ? tracks[track] : "other",
          span.start_ns,
          span.end_ns,
          span.name,
          std::string(name_of(span.category)),
          span.bucket,
          span.bytes};
}

// The rows of all ranks, in the order they first come, and the spans that lie on them.
class JoinedTimeline {
 public:
  void add(int64_t rank, const Json& rank_text, int64_t offset_ns) {
    for (const Json& step : rank_text.at("steps")) {
      if (rank == 0) add_step(step, offset_ns);
      for (const Json& span : step.at("spans")) add_span(rank, span, offset_ns);
    }
  }

  std::string text() const {
    if (steps_.empty()) return "";
    const auto from = steps_.front().at("start_ns").get<int64_t>();
    Json out = {{"schema", 1}, {"steps", steps_}, {"rows", rows_}, {"spans", spans_}};
    for (Json& step : out["steps"]) {
      step["start_ns"] = step["start_ns"].get<int64_t>() - from;
      step["end_ns"] = step["end_ns"].get<int64_t>() - from;
    }
    for (Json& span : out["spans"]) {
      span[1] = span[1].get<int64_t>() - from;
      span[2] = span[2].get<int64_t>() - from;
    }
    return out.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  }

 private:
  void add_step(const Json& step, int64_t offset_ns) {
    steps_.push_back({{"step", step.at("step")},
                      {"start_ns", step.at("start_ns").get<int64_t>() + offset_ns},
                      {"end_ns", step.at("end_ns").get<int64_t>() + offset_ns}});
  }
  void add_span(int64_t rank, const Json& span, int64_t offset_ns) {
    const auto track = span.at(0).get<std::string>();
    const auto [at, is_new] = row_of_.try_emplace({rank, track}, rows_.size());
    if (is_new) rows_.push_back({{"rank", rank}, {"track", track}});
    Json placed = span;
    placed[0] = at->second;
    placed[1] = span.at(1).get<int64_t>() + offset_ns;
    placed[2] = span.at(2).get<int64_t>() + offset_ns;
    spans_.push_back(std::move(placed));
  }

  Json steps_ = Json::array(), rows_ = Json::array(), spans_ = Json::array();
  std::map<std::pair<int64_t, std::string>, size_t> row_of_;
};

}  // namespace

void LateSteps::add(std::span<const SpanEvent> events) {
  for (const SpanEvent& event : events) {
    if (event.category != SpanCategory::kStep) {
      if (pending_.size() < kMaxSpans) pending_.push_back(event);
      continue;
    }
    steps_.push_back({event.value, event.start_ns, event.end_ns, std::exchange(pending_, {})});
    if (steps_.size() > kSteps) steps_.pop_front();
  }
}

std::string LateSteps::text() const {
  const auto tracks = track_names();
  Json steps = Json::array();
  for (const Step& step : steps_) {
    Json spans = Json::array();
    for (const SpanEvent& span : step.spans) spans.push_back(json_of(span, tracks));
    steps.push_back(
        {{"step", step.number}, {"start_ns", step.start_ns}, {"end_ns", step.end_ns}, {"spans", std::move(spans)}});
  }
  return Json({{"steps", std::move(steps)}}).dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string timeline_json(const std::vector<std::string>& texts, const std::vector<int64_t>& offsets_ns) {
  JoinedTimeline joined;
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    try {
      joined.add(static_cast<int64_t>(rank), Json::parse(texts[rank]), rank < offsets_ns.size() ? offsets_ns[rank] : 0);
    } catch (const Json::exception&) {  // NOLINT(bugprone-empty-catch): a picture without one rank is still a picture
    }
  }
  return joined.text();
}

}  // namespace weft
