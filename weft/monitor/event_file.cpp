#include "weft/monitor/event_file.h"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <vector>

#include "weft/base/text.h"
#include "weft/monitor/event_record_impl.h"
#include "weft/monitor/host_name.h"

namespace weft {
namespace {

using detail::EventFields;
using detail::put_bytes;
using detail::put_double;
using detail::put_float;
using detail::put_int;

double wall_clock_s() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// TensorBoard takes the files of a folder in the order of their names, which begin with the time, and finds them by
// "tfevents". The last number tells the files apart that one process makes within a second.
std::string file_name() {
  static std::atomic<int> num_made = 0;
  return cat("events.out.tfevents.", static_cast<int64_t>(wall_clock_s()), ".", this_host_name(), ".", ::getpid(), ".",
             num_made++);
}

std::string made_folder(Env& env, const std::string& folder) {
  env.make_folders(folder);
  return folder;
}

std::string event(int64_t step) {
  std::string out;
  put_double(out, EventFields::kWallTime, wall_clock_s());
  put_int(out, EventFields::kStep, step);
  return out;
}

std::string version_record() {
  std::string out;
  put_double(out, EventFields::kWallTime, wall_clock_s());
  put_bytes(out, EventFields::kFileVersion, "brain.Event:2");
  return detail::framed(out);
}

std::string session_start_record(int64_t step) {
  constexpr int kStart = 1;
  std::string session;
  put_int(session, EventFields::kSessionStatus, kStart);
  std::string out = event(step);
  put_bytes(out, EventFields::kSessionLog, session);
  return detail::framed(out);
}

// Said once of each tag: a curve, for the plugin that draws those.
std::string scalar_metadata() {
  constexpr int kScalarClass = 1;
  std::string plugin, out;
  put_bytes(plugin, EventFields::kPluginName, "scalars");
  put_bytes(out, EventFields::kMetadataPlugin, plugin);
  put_int(out, EventFields::kMetadataClass, kScalarClass);
  return out;
}

}  // namespace

EventFile::EventFile(Env& env, const std::string& folder, bool resumed)
    : path_(cat(made_folder(env, folder), "/", file_name())),
      resumed_(resumed),
      file_(env.open(path_, OpenMode::kCreateNew), 0) {
  // A fresh file shows at once that the run has begun; that of a resumed one waits until it knows where.
  if (!resumed_) file_.put(opening(0));
}

std::string EventFile::opening(int64_t first_x) const {
  return resumed_ ? version_record() + session_start_record(first_x) : version_record();
}

void EventFile::add(const StepScalars& scalars) {
  std::string summary;
  std::vector<std::string> new_tags;
  for (const Scalar& scalar : scalars.values) {
    std::string value;
    put_bytes(value, EventFields::kValueTag, scalar.tag);
    put_float(value, EventFields::kValueSimple, static_cast<float>(scalar.value));
    if (!described_.contains(scalar.tag)) {
      put_bytes(value, EventFields::kValueMetadata, scalar_metadata());
      new_tags.push_back(scalar.tag);
    }
    put_bytes(summary, EventFields::kSummaryValue, value);
  }
  std::string record = event(scalars.x);
  put_bytes(record, EventFields::kSummary, summary);
  const std::string start = file_.offset() == 0 ? opening(scalars.x) : "";
  if (!file_.put(start + detail::framed(record))) {
    ++num_left_out_;
    return;
  }
  described_.insert(new_tags.begin(), new_tags.end());
}

}  // namespace weft
