// A Group that takes down every call in a flight recorder, and writes the recorder out when the first of them fails.
//
//   auto log = std::make_shared<FlightLog>(FlightOwner{.rank = 3, .world = 8, .run_id = id}, "runs/x/flight");
//   std::shared_ptr<Group> world = make_recording_group(make_shm_group(spec), log);
//
// One FlightLog serves all groups of a process, so that there is one file per rank. A blocking call is taken down when it
// begins and when it ends. An asynchronous one ends in the record when somebody looks: done(), wait(), the next
// asynchronous call of any group, or the dump. Its turn ("started") is taken to have come when those before it in its
// group have ended. allocate() counts as a collective; read() and split() are not taken down. While comms_log() is on,
// each call that ended well also adds its time there (allocate() does not).
//
// Threads: a FlightLog may be used by any; the groups as Group says. Failure: a dump that cannot be written is logged and
// does not hide what the collective died of.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "weft/base/env.h"
#include "weft/comm/group.h"
#include "weft/monitor/flight_recorder.h"

namespace weft::comm {

class RecordedWork;

class FlightLog {
 public:
  // An empty folder: nothing is ever written.
  FlightLog(FlightOwner owner, std::string folder, Env& env = Env::posix());
  ~FlightLog();
  FlightLog(const FlightLog&) = delete;
  FlightLog& operator=(const FlightLog&) = delete;

  FlightRecorder& recorder() { return recorder_; }
  // Writes the dump, the first time only: what fails later fails because of it.
  void dump_once(const std::string& reason) noexcept;
  // Brings the record up to date: takes down the ends of asynchronous calls that nobody has asked for yet.
  void settle();
  void watch(std::shared_ptr<RecordedWork> work);

 private:
  FlightRecorder recorder_;
  const std::string folder_;
  Env& env_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<RecordedWork>> pending_;  // in the order of the calls
  bool dumped_ = false;
};

std::shared_ptr<Group> make_recording_group(std::shared_ptr<Group> inner, std::shared_ptr<FlightLog> log);

}  // namespace weft::comm
